/* guard.h - keeps other clients from reconfiguring this program's streams. Any client may set a stream's PortConfig
 * (<spa/param/port-config.h>) and start it. Modes other than "dsp" remove the ports that applications are linked to;
 * without a format, or started before it has one, PipeWire 0.3.65's converter crashes in this process or refuses the
 * session manager's PortConfig for good. Session managers send "dsp" with a format. */
#ifndef GUARD_H
#define GUARD_H

#include "graph/pipewire.h"

/* Guards the streams and filters that the connection got since the last call; on failure leaves them as they are. Call
 * it after connecting each, on the thread that runs the core's loop. converts: whether it is a stream, which needs a
 * PortConfig before it can start. */
void guard_add(struct pw_core *core, bool converts);

#endif
