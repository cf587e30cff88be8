/* notify.h - a notification on this user's desktop (org.freedesktop.Notifications). */
#ifndef PRIMEKNET_NOTIFY_H
#define PRIMEKNET_NOTIFY_H

/* Returns at once: a thread of its own asks, for a few seconds at most. Where no bus or nobody shows notifications,
 * nothing happens. */
void notify(const char *summary, const char *body);

#endif
