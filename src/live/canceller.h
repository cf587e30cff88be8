/* canceller.h - removes from a microphone what the outputs play, before the pump: an acoustic echo canceller, which
 * takes blocks of 10 ms, on a thread of its own. Knows nothing of PipeWire.
 *
 *   audio thread                                            the canceller's thread
 *   canceller_played: what is played       --> played ring --.
 *   canceller_process: the microphone's in --> mic ring -----+--> aec.run, block by block
 *                      out <------------------ clean ring <--'
 *
 * One coordinate: the position, the count of the microphone's samples. What is played in a cycle of the graph has the
 * positions of the microphone's samples of that cycle, whichever of the two comes first. When sample i comes in,
 * position i - canceller_delay goes out. So a block that is late cannot make the delay grow: the microphone's own sound
 * of that position goes out instead.
 *
 * Threads: canceller_played, canceller_process and canceller_restart run on one audio thread; they allocate, lock and
 * print nothing, and make no system call but one wakeup. canceller_delay may be called from anywhere. The others run on
 * the owner's thread. */
#ifndef PRIMEKNET_CANCELLER_H
#define PRIMEKNET_CANCELLER_H

#include "live/rt.h"

#include <stdint.h>

#define CANCELLER_BLOCK 480u /* samples at PUMP_RATE */

struct canceller;

/* An acoustic echo canceller. */
struct aec {
    void *data;
    /* A block of mic without the echo of played, both of the same time. On the canceller's thread. */
    void (*run)(void *data, const float *mic, const float *played, float *out);
    /* Forgets all that it has heard, since it has given a number that is none; on the canceller's thread. */
    void (*renew)(void *data);
    unsigned delay; /* samples by which out is later than mic, below CANCELLER_DELAY_MAX */
    /* canceller_delay has changed; on the canceller's thread. */
    void (*changed)(void *data);
};

#define CANCELLER_DELAY_MAX 2400u

/* Starts the thread, with real-time priority if rt grants it. -ENOMEM, or what rt->start returned. */
int canceller_open(struct canceller **ret, const struct rt *rt, const struct aec *aec);
void canceller_close(struct canceller *c); /* NULL is fine; not while the audio thread uses it */

/* n samples that were played in a cycle; any value that differs from the last cycle's names it. Blocks longer than
 * BLOCK_MAX (feed.h) keep their echo. */
void canceller_played(struct canceller *c, uint64_t cycle, const float *in, unsigned n);
/* n samples of the microphone in that cycle. Returns n samples, valid until the next call. */
const float *canceller_process(struct canceller *c, uint64_t cycle, const float *in, unsigned n);
/* There was a pause: what came before does not go out any more. */
void canceller_restart(struct canceller *c);

/* Samples by which what goes out is later than what comes in: a quantum, a block and aec.delay. */
unsigned canceller_delay(const struct canceller *c);

#endif
