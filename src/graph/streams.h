/* streams.h - one node's streams: samples enter by the capture stream, pass the pump and leave by the source.
 *
 * Applications see one of them, the visible stream: a microphone's source, or a speaker's capture stream, which is a
 * sink. The other one, the device stream, is linked to the microphone or the output. The pacer, a node without ports,
 * drives the source while the capture stream stays away. Where a microphone's echo is cancelled, the echo stream takes
 * what an output plays.
 *
 * Threads: call the functions on the node owner's thread. The callbacks that move samples run on PipeWire's data loop
 * and never allocate, lock or wait. struct streams.loop belongs to the data loop: others change it with
 * pw_data_loop_invoke. */
#ifndef PRIMEKNET_STREAMS_H
#define PRIMEKNET_STREAMS_H

#include "graph/node.h"
#include "graph/params.h"
#include "graph/pipewire.h"
#include "live/canceller.h"

#include <stdatomic.h>

#define MIXED_MAX 16384u /* samples of a block of several inputs; longer ones are cut */

struct streams {
    /* Set by the owner before anything is opened. */
    enum node_kind kind;
    const char *name, *title; /* node.name and node.description of the visible stream */
    struct pump *pump;
    struct params *params;
    struct pw_data_loop *data_loop;
    void (*changed)(void *data); /* the state of a stream has changed: see streams_close_lost */
    struct pw_loop *owner_loop;
    struct spa_source *frozen; /* an event of owner_loop: the source's clock stands still, so reconnect */
    void *data;
    char group[320];           /* node.group */
    unsigned quantum;          /* that the source asks the graph for, as its node.latency */

    /* What is open, or NULL. */
    struct pw_stream *capture, *source, *echo;
    struct pw_filter *pacer;
    struct spa_hook capture_listener, source_listener, echo_listener, pacer_listener;
    char target[256], channel[16]; /* what the device stream and the capture stream were opened with ... */
    unsigned n_inputs;
    float mixed[MIXED_MAX];        /* a block of these inputs; the data loop's */
    struct canceller *canceller;   /* ... and who takes the echo out of the latter; or NULL */
    char played[256];              /* what the echo stream was opened with */
    bool quiet, pacing;
    struct {
        bool formatless;      /* the device stream has no format yet, or has lost it */
        bool visible, device; /* the visible stream was suspended since it ran last, and the other with it, or closed */
    } suspended;
    bool renews;       /* the visible stream must be opened anew */
    const char *voice; /* the visible stream's property "primeknet.voice": "true", "false" or "unknown" */

    struct {
        struct pw_stream *input;        /* = capture, or NULL: its samples are ignored */
        struct canceller *canceller;    /* as above, while there is input */
        struct spa_io_position *clock;  /* of the source */
        uint64_t position, nsec;        /* of the last trigger: two drivers may be at the same position */
        uint64_t duration;              /* of the source's last cycle, in samples of the graph at ... */
        unsigned rate;                  /* ... Hz; 0: none yet */
        bool begins;                    /* the source has been triggered: its next call is the cycle's first */
        unsigned n_repeats;             /* triggers in a row that found the clock there */
        unsigned n_silent;              /* the pacer's cycles since the capture stream's last one */
        bool idle;                      /* nobody records */
    } loop;
    _Atomic bool begin;                 /* the first recorder has come: restart the pump */
    _Atomic bool running;               /* the source's converter is set up; a trigger before that would break it */
    _Atomic unsigned n_consumers, rate; /* rate: of the graph in the last cycle, Hz */
    _Atomic unsigned n_cycles;          /* of the graph while the pacer runs, modulo 2^32 */
    _Atomic unsigned n_blocks;          /* captured ones that reached a recorder, modulo 2^32 */
    _Atomic bool sounds;                /* the capture stream has given a sample that is not 0 since it started */
};

/* n_inputs: 0, or the capture stream has AUX0 and on, which are mixed at equal power, instead of `channel`.
 * 0, or -errno: then streams_close closes what was opened. canceller: NULL, or who takes the echo out; it must stay
 * until the capture stream is closed. */
int streams_open_capture(struct streams *s, struct pw_core *core, const char *target, const char *channel,
        unsigned n_inputs, struct canceller *canceller);
int streams_open_source(struct streams *s, struct pw_core *core, const char *target);
int streams_open_pacer(struct streams *s, struct pw_core *core);
/* Opens and closes the echo stream as the capture stream needs it. played: the output whose sound is the echo, or "":
 * the default. */
int streams_follow_played(struct streams *s, struct pw_core *core, const char *played);
/* Fine for streams that are not open. */
void streams_close_capture(struct streams *s); /* and the echo stream */
void streams_close_pacer(struct streams *s);
void streams_close(struct streams *s); /* all of them */
/* The next streams_close_lost closes the visible stream. */
void streams_renew(struct streams *s);
/* Closes those that PipeWire has taken away, or that must be opened anew. waits: the device stream is linked to
 * nothing. True: it closed one. */
bool streams_close_lost(struct streams *s, bool waits);

/* The stream that applications see, or NULL. */
struct pw_stream *streams_visible(const struct streams *s);
/* Ids of the streams' nodes, or SPA_ID_INVALID. */
uint32_t streams_capture_id(const struct streams *s);
uint32_t streams_source_id(const struct streams *s);

/* Both streams are in PipeWire's state STREAMING. */
bool streams_run(const struct streams *s);
void streams_set_title(struct streams *s); /* title has changed */
void streams_set_quiet(struct streams *s, bool quiet); /* ignore the capture stream's samples */
void streams_set_pacing(struct streams *s, bool pacing);
void streams_set_consumers(struct streams *s, unsigned n);
/* Empties queues and converters: what they hold is lost. */
void streams_flush(struct streams *s);
/* Blocks that went from the capture stream to the source while somebody recorded, and cycles of the graph, both modulo
 * 2^32. A speaker, which has no pacer while there is an output, counts each call as a cycle. */
unsigned streams_blocks(const struct streams *s);
unsigned streams_cycles(struct streams *s);
/* The capture stream has given more than digital silence since it started. */
bool streams_sound(const struct streams *s);
/* pump_stats, with the delay from the capture stream to the source. */
void streams_stats(const struct streams *s, struct pump_stats *ret);
/* Publishes what has changed: one hop of the engine that sounds, as the quantum to ask for; the latency; the voice. */
void streams_publish(struct streams *s);

#endif
