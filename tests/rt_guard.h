/* rt_guard.h - checks that code is real-time safe. A test program linked with rt_guard.c dies with a message if
 * anything between rt_guard_enter and rt_guard_leave, on the same thread, allocates, frees, locks, prints, or makes a
 * system call except through futex(2). */
#ifndef PRIMEKNET_RT_GUARD_H
#define PRIMEKNET_RT_GUARD_H

void rt_guard_enter(void);
void rt_guard_leave(void);

#endif
