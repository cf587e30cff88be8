/* notify.h - a notification on this user's desktop (org.freedesktop.Notifications). */
#ifndef PRIMEKNET_NOTIFY_H
#define PRIMEKNET_NOTIFY_H

/* Returns at once; a thread sends it, and gives up after a few seconds. Nothing happens without a session bus or a
 * notification service. */
void notify(const char *summary, const char *body);

#endif
