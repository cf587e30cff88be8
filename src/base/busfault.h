/* busfault.h - survives memory that is smaller than its owner said.
 *
 * PipeWire before 1.0.4 may give a client, for a new device, the memory of one that is gone. A read beyond its end
 * raises SIGBUS. On threads that ask for it, the handler maps a page of zeros there and the thread continues, as
 * libwayland's server does with its clients' memory (wl_shm_buffer_begin_access). On all others SIGBUS ends the
 * process. */
#ifndef PRIMEKNET_BUSFAULT_H
#define PRIMEKNET_BUSFAULT_H

int busfault_install(void);    /* installs the handler; the program calls it once. Returns 0 or -errno */
void busfault_survive(void);   /* makes the calling thread survive such faults from now on */
unsigned busfault_count(void); /* the faults survived so far, modulo 2^32; any thread may ask */

#endif
