/* sound_file.h - reads and writes sound files through libsndfile, with errors that name the file and the problem. "-"
 * is standard input or standard output.
 *
 * primeknet(1) documents the guarantees; all commands read and write files through this interface. A reader knows
 * whether it has read the whole file and, if not, why. A writer writes the whole file or nothing. Any thread, one at a
 * time per reader or writer. */
#ifndef PRIMEKNET_SOUND_FILE_H
#define PRIMEKNET_SOUND_FILE_H

#include "base/err.h"
#include "base/file.h"
#include "tool/container.h"

#include <sndfile.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

/* The virtual file that libsndfile reads or writes. */
struct sound_bytes {
    int fd, error;           /* error: the first errno, or 0 */
    const struct part *part; /* NULL: a file being written */
    size_t span;             /* the current span of the part, ... */
    uint64_t begin;          /* ... and where it begins */
    uint64_t at, size;
};

struct sound_in {
    const char *path, *name; /* name: for messages */
    SNDFILE *file;           /* the part being read */
    SF_INFO info;            /* of the first part */
    sf_count_t frames;       /* of all parts, an estimate if there are several; 0: unknown */
    uint64_t n_read;         /* frames */
    struct container container;
    size_t part;
    sf_count_t frames_of_part;
    bool ended;               /* there are no more frames */
    uint64_t n_of_part, size; /* frames read of it; bytes of all earlier parts */
    struct sound_bytes bytes;
    struct stat st;
};

/* Opens a file for reading and scans it. Copies a pipe to a scratch file first, unless *stop (stop may be NULL) becomes
 * nonzero. f must not be moved. Returns 0 or a negative errno, -EINTR after *stop. */
int sound_in_open(struct sound_in *f, const char *path, const atomic_int *stop, struct err *err);
/* Reads at most n frames. Returns their number, 0 at the end and in each later call, or a negative errno. A sample that
 * is NaN or far beyond full scale is an error. */
int sound_in_read(struct sound_in *f, float *frames, int n, struct err *err);
float sound_in_share(const struct sound_in *f); /* the share of its bytes read so far, 0 to 1 */
/* Returns why the file could not be read completely so far, such as "is cut short". NULL: nothing is missing. */
const char *sound_in_fault(const struct sound_in *f);
void sound_in_close(struct sound_in *f); /* f may be all zeros */

struct sound_out {
    SNDFILE *file;
    const char *name;
    int format, rate;
    bool piped; /* goes to standard output, through a scratch file */
    uint64_t most_frames, n_written;
    struct replace replace;
    struct sound_bytes bytes;
};

/* Opens a file for writing. The path's extension selects the format; `like` has the rate, the channels and, if
 * possible, the sample format. frames: the approximate number, 0 if unknown; more than the format can hold is an error.
 * o must not be moved. Returns 0 or a negative errno. */
int sound_out_open(struct sound_out *o, const char *path, const SF_INFO *like, sf_count_t frames, struct err *err);
int sound_out_write(struct sound_out *o, const float *frames, size_t n, struct err *err);
/* Ends writing after the last frame. o->replace.fd can then be read and changed. */
int sound_out_close(struct sound_out *o, struct err *err);
/* Starts another file, which may replace o->replace. */
int sound_out_again(const struct sound_out *o, struct replace *ret, struct err *err);
/* Call after sound_out_close: moves the file to its place, or copies it to standard output. */
int sound_out_finish(struct sound_out *o, struct err *err);
void sound_out_drop(struct sound_out *o); /* o may be all zeros */

/* Whether the path's extension is that of a format that can be written and read back. */
bool sound_file_named(const char *path);

#endif
