/* probe.h - a sample-accurate player and recorder in a PipeWire graph. It plays noise that depends only on the graph's
 * clock into a microphone, and records two sources by the same clock. A node linked to the recorder's port "after" is
 * not recorded, but if it misses a cycle, the recorder misses it, too.
 *
 * Uses threads of its own; call everything here from one thread. */
#ifndef PRIMEKNET_PROBE_H
#define PRIMEKNET_PROBE_H

#include <stdbool.h>
#include <stdint.h>

#define PROBE_LENGTH (60 * 48000) /* samples kept of each source */

struct probe;

/* Plays noise with this peak. Calls cycle, unless it is NULL, after every cycle of the recorder, on its thread, with
 * the number of samples and their rate. Returns NULL if PipeWire does not answer. */
struct probe *probe_open(float peak, void (*cycle)(unsigned n, unsigned rate));
void probe_close(struct probe *p);

/* Forces a quantum; 0 stops that. */
void probe_quantum(struct probe *p, unsigned quantum);

/* Return the number of samples recorded since the graph has had its current driver, and one of them. Samples of a
 * missed cycle are NaN. */
unsigned probe_length(const struct probe *p);
float probe_recorded(const struct probe *p, unsigned which, unsigned index); /* which: 0 first source, 1 second */
/* Returns how many samples were recorded since the last cycle that the player, the recorder or a node linked to it
 * missed. */
unsigned probe_whole(const struct probe *p);
/* Returns the samples in all cycles of the recorder, with any driver. */
uint64_t probe_samples(const struct probe *p);
unsigned probe_rate(const struct probe *p); /* the graph's, Hz */
/* Returns the peak of the second source since the last call. */
float probe_peak(struct probe *p);

/* Returns the delay in samples from the noise to the recording around index, if both are equal up to a factor and an
 * error 100 dB below; -1 if no delay below 40000 fits. *error_db, unless NULL, receives the error relative to the
 * input. */
int probe_delay(const struct probe *p, unsigned which, unsigned index, float factor, double *error_db);

#endif
