/* notify.h - shows a notification on the user's desktop (org.freedesktop.Notifications). */
#ifndef PRIMEKNET_NOTIFY_H
#define PRIMEKNET_NOTIFY_H

/* Returns immediately; a thread sends the notification, and gives up after a few seconds. Does nothing without a
 * session bus or a notification service. */
void notify(const char *summary, const char *body);

#endif
