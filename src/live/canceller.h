/* canceller.h - runs an acoustic echo canceller (AEC) in blocks of 10 ms on a thread of its own. It removes the far
 * end, what the outputs play, from the microphone before the pump. Independent of PipeWire.
 *
 *   audio thread                                            the canceller's thread
 *   canceller_played: the far end          --> played ring --.
 *   canceller_process: the microphone  in  --> mic ring -----+--> aec.run, block by block
 *                      out <------------------ clean ring <--'
 *
 * All rings are indexed by position, the count of the microphone's samples. The far end of a graph cycle has the
 * positions of the microphone's samples in that cycle, whichever arrives first. When sample i arrives, position i -
 * canceller_delay is output. If its block is late, the microphone's own sample of that position is output instead, so a
 * late block cannot increase the delay.
 *
 * Threads: call canceller_played, canceller_process and canceller_restart on the audio thread. They do not allocate,
 * lock or print, and make no system call except a wakeup. Call canceller_delay on any thread, the others on the owner's
 * thread. */
#ifndef PRIMEKNET_CANCELLER_H
#define PRIMEKNET_CANCELLER_H

#include "live/rt.h"

#include <stdint.h>

#define CANCELLER_BLOCK 480u /* samples at PUMP_RATE */

struct canceller;

/* An acoustic echo canceller. */
struct aec {
    void *data;
    /* Writes the block mic without the echo of played to out; both blocks, of CANCELLER_BLOCK samples, have the same
     * positions. Called on the canceller's thread. */
    void (*run)(void *data, const float *mic, const float *played, float *out);
    /* Resets all state, after run has produced NaN or infinity. Called on the canceller's thread. */
    void (*renew)(void *data);
    unsigned delay; /* samples by which out lags mic, below CANCELLER_DELAY_MAX */
    /* Called when canceller_delay has changed, on the canceller's thread. */
    void (*changed)(void *data);
};

#define CANCELLER_DELAY_MAX 2400u

/* Starts the thread, with real-time priority if rt grants it. Returns 0, -ENOMEM, or the error of rt->start. */
int canceller_open(struct canceller **ret, const struct rt *rt, const struct aec *aec);
void canceller_close(struct canceller *c); /* c may be NULL; not while the audio thread uses it */

/* Passes the n far-end samples of a graph cycle. `cycle` identifies the cycle; any value works as long as it changes
 * every cycle. The echo is not removed from blocks longer than BLOCK_MAX (ring.h). */
void canceller_played(struct canceller *c, uint64_t cycle, const float *in, unsigned n);
/* Passes the n microphone samples of a cycle. Returns n samples, valid until the next call. */
const float *canceller_process(struct canceller *c, uint64_t cycle, const float *in, unsigned n);
/* Restarts after a pause: discards all earlier samples. */
void canceller_restart(struct canceller *c);

/* Returns the samples by which the output lags the input: a quantum, a block and aec.delay. */
unsigned canceller_delay(const struct canceller *c);

#endif
