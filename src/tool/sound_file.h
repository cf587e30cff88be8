/* sound_file.h - sound files through libsndfile, with messages that name the file and the problem. "-" is standard
 * input or standard output.
 *
 * primeknet(1) has the table of what is promised; this is the one place where files are read, and written. A reader
 * knows whether it has read the whole of the file, and why not. A writer has written all of the file, or none. Any
 * thread; each reader and writer is one thread's. */
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

/* Bytes as libsndfile reads and writes them. */
struct sound_bytes {
    int fd, error; /* error: the first errno, or 0 */
    const struct part *part; /* NULL: of a file that is written */
    size_t span;             /* of the part, ... */
    uint64_t begin;          /* ... and where it begins */
    uint64_t at, size;
};

struct sound_in {
    const char *path, *name; /* name: for messages */
    SNDFILE *file;           /* the part that is read */
    SF_INFO info;            /* of the first part */
    sf_count_t frames;       /* of all, an estimate if there are several; 0: nobody knows */
    uint64_t n_read;         /* frames */
    struct container container;
    size_t part;
    sf_count_t frames_of_part;
    uint64_t n_of_part, size; /* frames read of it; bytes of all parts before it */
    struct sound_bytes bytes;
    struct stat st;
};

/* Opens a file for reading and looks through it. A pipe is copied to a scratch file first, until *stop (which may be
 * NULL) is not 0. Returns 0 or a negative errno, -EINTR after *stop. f must stay where it is. */
int sound_in_open(struct sound_in *f, const char *path, const atomic_int *stop, struct err *err);
/* Reads at most n frames; 0 at the end. A sample that is not a number, or far beyond full scale, is an error. */
int sound_in_read(struct sound_in *f, float *frames, int n, struct err *err);
float sound_in_share(const struct sound_in *f); /* of its bytes that has been read, 0 to 1 */
/* Why the file is not read whole, as far as is known so far: "is cut short". NULL: nothing is missing. */
const char *sound_in_fault(const struct sound_in *f);
void sound_in_close(struct sound_in *f); /* f may be all zeros */

struct sound_out {
    SNDFILE *file;
    const char *name;
    int format, rate;
    bool piped; /* to standard output, from a scratch file */
    uint64_t most_frames, n_written;
    struct replace replace;
    struct sound_bytes bytes;
};

/* Opens a file for writing in the format for the name's extension, with the rate, the channels and, if possible, the
 * sample format of `like`. `frames`: about how many there will be, 0 if nobody knows; what the format cannot hold is
 * refused. o must stay where it is. */
int sound_out_open(struct sound_out *o, const char *path, const SF_INFO *like, sf_count_t frames, struct err *err);
int sound_out_write(struct sound_out *o, const float *frames, size_t n, struct err *err);
/* After the last frame: all is written, and o->replace.fd can be read and changed. */
int sound_out_close(struct sound_out *o, struct err *err);
/* Begins another file, which can take the place of o->replace. */
int sound_out_again(const struct sound_out *o, struct replace *ret, struct err *err);
/* After sound_out_close: the file takes its place, or goes to standard output. */
int sound_out_finish(struct sound_out *o, struct err *err);
void sound_out_drop(struct sound_out *o); /* o may be all zeros */

/* Whether the name's extension is one of a sound file that can be written and read back. */
bool sound_file_named(const char *path);

#endif
