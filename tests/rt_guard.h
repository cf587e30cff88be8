/* rt_guard.h - proof that code is real-time safe: a test program linked with rt_guard.c dies with a message when,
 * between rt_guard_enter and rt_guard_leave on the same thread, anything allocates, frees, locks, prints, or makes a
 * system call other than through futex(2). */
#ifndef PRIMEKNET_RT_GUARD_H
#define PRIMEKNET_RT_GUARD_H

void rt_guard_enter(void);
void rt_guard_leave(void);

#endif
