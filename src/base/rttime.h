/* rttime.h - RLIMIT_RTTIME, the time that a thread with real-time priority may run without a pause.
 *
 * Before PipeWire asks for a thread's priority it sets this limit to what rtkit says, or the desktop's portal in front
 * of it. A portal that began before rtkit says 0, and the kernel would end the process. Any thread. */
#ifndef PRIMEKNET_RTTIME_H
#define PRIMEKNET_RTTIME_H

/* The limit in ms, if it is too short to be used; -1: it is not. */
int rttime_short_limit(void);
/* Takes real-time priority from every thread of the process that has it under such a limit. To be called whenever one
 * may have got it. */
void rttime_check(void);

#endif
