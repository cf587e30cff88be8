/* probe.h - a sample-accurate player and recorder in a PipeWire graph. Noise that depends only on the graph's clock
 * goes into a microphone, and two sources are recorded by the same clock. What is linked to the recorder's port "after"
 * is not recorded, but a cycle that it misses is one that the recorder misses.
 *
 * Uses threads of its own; call everything here from one thread. */
#ifndef PRIMEKNET_PROBE_H
#define PRIMEKNET_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_LENGTH (60 * 48000) /* samples kept of each source */

struct probe;

/* Plays noise with that peak; returns NULL if PipeWire does not answer. If cycle is not NULL, it is called after every
 * cycle of the recorder, on its thread, with the cycle's samples and their rate. */
struct probe *probe_open(float peak, void (*cycle)(unsigned n, unsigned rate));
void probe_close(struct probe *p);

/* Forces a quantum from now on; 0 stops forcing one. */
void probe_quantum(struct probe *p, unsigned quantum);

/* The samples recorded since the graph has its present driver, and one of them. A missed cycle reads as NaN. */
unsigned probe_length(const struct probe *p);
float probe_recorded(const struct probe *p, unsigned which, unsigned index); /* 0 first, 1 second */
/* How many of the last samples came without a missed cycle of the player, the recorder or anything linked to it. */
unsigned probe_whole(const struct probe *p);
/* Samples in all cycles of the recorder, with any driver. */
uint64_t probe_samples(const struct probe *p);
unsigned probe_rate(const struct probe *p); /* Hz, of the graph */
/* The loudest sample of the second source since the last call. */
float probe_peak(struct probe *p);

/* The delay in samples from the noise to the recording around index, if the two are equal except for a factor and an
 * error 100 dB below; -1 if no delay below 40000 fits. error_db, if not NULL, is the error found, relative to the
 * input. */
int probe_delay(const struct probe *p, unsigned which, unsigned index, float factor, double *error_db);

#endif
