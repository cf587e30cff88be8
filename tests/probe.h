/* probe.h - a player and a recorder in a PipeWire graph, to the sample: noise that depends on the graph's clock alone
 * goes into a microphone, and what two sources give is kept by the same clock.
 *
 * Threads: it runs on threads of its own; everything here is called from one thread. */
#ifndef PRIMEKNET_PROBE_H
#define PRIMEKNET_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_LENGTH (60 * 48000) /* samples kept of each source: the last */

struct probe;

/* Plays noise of that peak; NULL if PipeWire does not answer. cycle, if not NULL, is called after every cycle of the recorder,
 * on its thread, with the cycle's samples and their rate. */
struct probe *probe_open(float peak, void (*cycle)(unsigned n, unsigned rate));
void probe_close(struct probe *p);

/* Asks for a quantum from now on, whatever others want; 0 asks for none. */
void probe_quantum(struct probe *p, unsigned quantum);

/* Samples recorded since the graph has its present driver, and what was recorded. A cycle that was missed reads as NaN. */
unsigned probe_length(const struct probe *p);
float probe_recorded(const struct probe *p, unsigned which, unsigned index); /* 0 first, 1 second */
/* How many of the last samples came without a missed cycle, of the player or of the recorder and all that is linked to it. */
unsigned probe_whole(const struct probe *p);
/* Samples of the recorder's cycles, of whatever driver. */
uint64_t probe_samples(const struct probe *p);
unsigned probe_rate(const struct probe *p); /* Hz, of the graph */
/* Loudest sample of the second source since the last call. */
float probe_peak(struct probe *p);

/* Samples from the noise to what was recorded around index, if the two are the same but for a factor and an error 100
 * dB below: -1 if no delay below 40000 gives that. error_db, if not NULL: the error found, relative to the input. */
int probe_delay(const struct probe *p, unsigned which, unsigned index, float factor, double *error_db);

#endif
