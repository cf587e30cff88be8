/* rttime.h - RLIMIT_RTTIME: how long a thread with real-time priority may run without blocking.
 *
 * Before PipeWire requests real-time priority for a thread, it sets this limit to the value that rtkit, or the
 * desktop's portal in front of it, reports. A portal that started before rtkit reports 0, and the kernel would then
 * kill the process. Any thread. */
#ifndef PRIMEKNET_RTTIME_H
#define PRIMEKNET_RTTIME_H

/* Returns the limit in ms if it is too short for real-time priority, else -1. */
int rttime_short_limit(void);
/* Under such a limit, removes real-time priority from every thread of the process. Call it whenever a thread may have
 * received it. */
void rttime_check(void);

#endif
