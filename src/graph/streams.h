/* streams.h - the streams of a node: samples enter through the capture stream, pass through the pump, and leave through
 * the source.
 *
 * Applications see the visible stream: a microphone's source, or a speaker's capture stream, which is a sink. The other
 * one, the device stream, is linked to the microphone or the output. The pacer, a node without ports, triggers the
 * source while the capture stream does not run. With echo cancellation, the echo stream records the far end, what an
 * output plays.
 *
 * Threads: call the functions on the node owner's thread. The callbacks that move samples run on PipeWire's data loop.
 * They never allocate or lock; pump_process may wait, for at most half a block. struct streams.loop belongs to the data
 * loop: other threads change it with pw_data_loop_invoke. */
#ifndef PRIMEKNET_STREAMS_H
#define PRIMEKNET_STREAMS_H

#include "graph/node.h"
#include "graph/params.h"
#include "graph/pipewire.h"
#include "live/canceller.h"

#include <stdatomic.h>

#define MIXED_MAX 16384u /* samples of a block of mixed inputs; longer ones are cut */

struct streams {
    /* Set by the owner before anything is opened. */
    enum node_kind kind;
    const char *name, *title; /* node.name and node.description of the visible stream */
    struct pump *pump;
    struct params *params;
    struct pw_data_loop *data_loop;
    void (*changed)(void *data); /* a stream's state has changed: call streams_close_lost */
    struct pw_loop *owner_loop;
    struct spa_source *frozen; /* an event of owner_loop: the source's clock has stopped, so reconnect */
    void *data;
    unsigned quantum; /* the quantum that the source requests (node.latency) */

    /* The open streams; NULL: closed. */
    struct pw_stream *capture, *source, *echo;
    struct pw_filter *pacer;
    struct spa_hook capture_listener, source_listener, echo_listener, pacer_listener;
    char target[256], channel[16]; /* with which the device stream and the capture stream were opened ... */
    unsigned n_inputs;
    float mixed[MIXED_MAX];      /* the mix of a block of these inputs; data loop only */
    struct canceller *canceller; /* ... and the capture stream's echo canceller, or NULL */
    char played[256];            /* the output with which the echo stream was opened */
    bool quiet, pacing;
    struct {
        bool formatless;      /* the device stream has no format (any more) */
        bool visible, device; /* the visible stream has been suspended since it last ran; so has the device stream, or
                               * it is closed */
    } suspended;
    bool renews;       /* the next streams_close_lost closes the visible stream */
    const char *voice; /* the visible stream's property "primeknet.voice": "true", "false" or "unknown" */

    struct {
        struct pw_stream *input;       /* = capture, or NULL: its samples are ignored */
        struct canceller *canceller;   /* as above, while `input` is set */
        struct spa_io_position *clock; /* of the source */
        uint64_t position, nsec;       /* of the last trigger; both, because two drivers may have the same position */
        uint64_t duration;             /* of the source's last cycle, in graph samples at ... */
        unsigned rate;                 /* ... Hz; 0: none yet */
        bool begins;                   /* the source has been triggered; its next call is the first of the cycle */
        unsigned n_repeats;            /* consecutive triggers at the same clock position */
        unsigned n_silent;             /* the pacer's cycles since the capture stream last ran */
        bool idle;                     /* nobody records */
    } loop;
    _Atomic bool begin;                 /* the first recorder has arrived: restart the pump */
    _Atomic bool running;               /* the source's converter is set up; an earlier trigger would break it */
    _Atomic unsigned n_consumers, rate; /* rate: of the graph in the last cycle, Hz */
    _Atomic unsigned n_cycles;          /* of the graph while the pacer runs, modulo 2^32 */
    _Atomic unsigned n_blocks;          /* captured blocks that reached a recorder, modulo 2^32 */
    _Atomic bool sounds;                /* the capture stream has delivered a nonzero sample since it started */
};

/* Opens a stream. n_inputs: 0, or the number of inputs, from AUX0 on, that the capture stream mixes at equal power
 * instead of using `channel`. canceller: NULL, or the echo canceller, which must outlive the capture stream. Returns 0,
 * or -errno; then call streams_close to clean up. */
int streams_open_capture(struct streams *s, struct pw_core *core, const char *target, const char *channel,
                         unsigned n_inputs, struct canceller *canceller);
int streams_open_source(struct streams *s, struct pw_core *core, const char *target);
int streams_open_pacer(struct streams *s, struct pw_core *core);
/* Opens or closes the echo stream as the capture stream requires. played: the output that plays the far end, or "": the
 * default. */
int streams_follow_played(struct streams *s, struct pw_core *core, const char *played);
/* These ignore streams that are not open. */
void streams_close_capture(struct streams *s); /* and the echo stream */
void streams_close(struct streams *s);         /* all of them */
/* Closes streams that PipeWire has removed, or that must be reopened. waits: the device stream is linked to nothing.
 * Returns true if it closed one. */
bool streams_close_lost(struct streams *s, bool waits);

/* Returns the visible stream, or NULL. */
struct pw_stream *streams_visible(const struct streams *s);
/* Ids of the streams' nodes, or SPA_ID_INVALID. */
uint32_t streams_capture_id(const struct streams *s);
uint32_t streams_source_id(const struct streams *s);

/* Whether both streams are in PipeWire's state STREAMING. */
bool streams_run(const struct streams *s);
void streams_set_title(struct streams *s);             /* applies a changed title */
void streams_set_quiet(struct streams *s, bool quiet); /* quiet: ignore the capture stream's samples */
void streams_set_pacing(struct streams *s, bool pacing);
void streams_set_consumers(struct streams *s, unsigned n);
/* Empties queues and converters, and discards their content. */
void streams_flush(struct streams *s);
/* Count the blocks that passed from the capture stream to the source while somebody recorded, and the graph's cycles,
 * both modulo 2^32. A speaker has no pacer while there is an output, so each call of streams_cycles counts as a
 * cycle. */
unsigned streams_blocks(const struct streams *s);
unsigned streams_cycles(struct streams *s);
/* Whether the capture stream has delivered more than digital silence since it started. */
bool streams_sound(const struct streams *s);
/* As pump_stats, with the delay from the capture stream to the source. */
void streams_stats(const struct streams *s, struct pump_stats *ret);
/* Publishes changes: the quantum to request, one hop of the audible engine; the latency; voice activity. */
void streams_publish(struct streams *s);

#endif
