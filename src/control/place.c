#include "control/place.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>

int control_place(struct sockaddr_un *ret, struct err *err) {
    const char *runtime = getenv("XDG_RUNTIME_DIR");
    if (!runtime && getenv("SUDO_UID"))
        return err_set(err, -EPERM, "run this as yourself, not with sudo: primeknetd serves the user who started it");
    if (!runtime || runtime[0] != '/')
        return err_set(err, -ENOENT, "XDG_RUNTIME_DIR is not set; it names the folder of the control socket");
    *ret = (struct sockaddr_un){.sun_family = AF_UNIX};
    if (snprintf(ret->sun_path, sizeof ret->sun_path, "%s/primeknet/control", runtime) >= (int)sizeof ret->sun_path)
        return err_set(err, -ENAMETOOLONG, "XDG_RUNTIME_DIR is too long for the control socket: %.80s...", runtime);
    return 0;
}
