/* rt_guard.h - checks that code is real-time safe. A test program linked with rt_guard.c aborts with a message if the
 * thread, between rt_guard_enter and rt_guard_leave, allocates, frees, locks, prints, or makes a system call other than
 * futex(2). */
#ifndef PRIMEKNET_RT_GUARD_H
#define PRIMEKNET_RT_GUARD_H

void rt_guard_enter(void);
void rt_guard_leave(void);

#endif
