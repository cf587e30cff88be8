/* streams.h - one node's streams: samples come in by the capture stream, go through the pump and out by the source.
 *
 * Applications see one of them, the visible stream: a microphone's source, a speaker's capture stream, which is a sink.
 * The other one, the device stream, is linked to the microphone or the output. The pacer, a node without ports, drives
 * the source while the capture stream stays away.
 *
 * Threads: the functions on the thread of the node's owner; the callbacks that move samples on PipeWire's data loop,
 * where nothing allocates, locks or waits. The part "loop" belongs to the data loop: others change it by way of
 * pw_data_loop_invoke. */
#ifndef PRIMEKNET_STREAMS_H
#define PRIMEKNET_STREAMS_H

#include "graph/node.h"
#include "graph/params.h"
#include "graph/pipewire.h"

#include <stdatomic.h>

struct streams {
    /* Set by the owner before anything is opened. */
    enum node_kind kind;
    const char *name, *title; /* node.name and node.description of the visible stream */
    struct pump *pump;
    struct params *params;
    struct pw_data_loop *data_loop;
    void (*changed)(void *data); /* a stream has another state: see streams_close_lost */
    struct pw_loop *owner_loop;
    struct spa_source *frozen;   /* an event of owner_loop's: the source's clock stands, so the connection is of no
                                  * use */
    void *data;
    char group[320], latency[32]; /* node.group and node.latency */

    /* What is open, or NULL. */
    struct pw_stream *capture, *source;
    struct pw_filter *pacer;
    struct spa_hook capture_listener, source_listener, pacer_listener;
    char target[256], channel[16]; /* as the device stream and the capture stream were opened with */
    bool quiet, pacing;

    struct {
        struct pw_stream *input;        /* = capture, or NULL: its samples are ignored */
        struct spa_io_position *clock;  /* of the source */
        /* Of the cycle that the source last ran in: where the clock was, as drivers may be at the same position, and
         * its duration in samples of the graph. */
        uint64_t position, nsec, duration;
        unsigned n_repeats;             /* calls since then at which the clock stood there still */
        unsigned n_silent;              /* cycles of the pacer since the capture stream's last */
        bool idle;                      /* nobody records */
    } loop;
    _Atomic bool begin;                 /* somebody records who did not before */
    _Atomic bool running;               /* the source's converter is set up: before, a trigger would run it half-made */
    _Atomic unsigned n_consumers, rate; /* rate: of the graph, Hz, in the last cycle */
};

/* 0, or -errno: the stream may then be open in part, and is closed with the others. */
int streams_open_capture(struct streams *s, struct pw_core *core, const char *target, const char *channel);
int streams_open_source(struct streams *s, struct pw_core *core, const char *target);
int streams_open_pacer(struct streams *s, struct pw_core *core);
/* One that is not open is fine. */
void streams_close_capture(struct streams *s);
void streams_close(struct streams *s); /* all of them */
/* Closes those that PipeWire has taken away; waits: nothing is linked to the device stream. True: there was one. */
bool streams_close_lost(struct streams *s, bool waits);

/* The stream that applications see, or NULL. */
struct pw_stream *streams_visible(const struct streams *s);
/* Ids of the streams' nodes, or SPA_ID_INVALID. */
uint32_t streams_capture_id(const struct streams *s);
uint32_t streams_source_id(const struct streams *s);

void streams_set_title(struct streams *s); /* title has changed */
void streams_set_quiet(struct streams *s, bool quiet); /* ignores what the capture stream hears */
void streams_set_pacing(struct streams *s, bool pacing);
void streams_set_consumers(struct streams *s, unsigned n);
void streams_publish_latency(struct streams *s);

/* The enum spa_audio_channel of a channel's name such as "FL", SPA_AUDIO_CHANNEL_UNKNOWN for another text. */
uint32_t streams_channel(const char *name);

#endif
