#include "config.h"

#include "tool/sound_file.h"

#include "base/text.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* libsndfile keeps one error for all threads until a file is open. */
static pthread_mutex_t opening = PTHREAD_MUTEX_INITIALIZER;

/* ---- bytes ------------------------------------------------------------------------------------------------------- */

static sf_count_t bytes_size(void *data) {
    return (sf_count_t)((struct sound_bytes *)data)->size;
}

static sf_count_t bytes_tell(void *data) {
    return (sf_count_t)((struct sound_bytes *)data)->at;
}

static sf_count_t bytes_seek(sf_count_t offset, int whence, void *data) {
    struct sound_bytes *b = data;
    const sf_count_t from = whence == SEEK_SET ? 0 : (sf_count_t)(whence == SEEK_CUR ? b->at : b->size);
    if (offset < -from)
        return -1;
    b->at = (uint64_t)(from + offset);
    return (sf_count_t)b->at;
}

/* Returns the span that contains b's position; NULL past the end. */
static const struct span *here(struct sound_bytes *b) {
    if (b->at < b->begin)
        b->span = b->begin = 0;
    for (; b->span < b->part->n_spans; b->begin += b->part->spans[b->span++].n)
        if (b->at - b->begin < b->part->spans[b->span].n)
            return &b->part->spans[b->span];
    return NULL;
}

static sf_count_t bytes_read(void *to, sf_count_t n, void *data) {
    struct sound_bytes *b = data;
    const uint64_t from = b->at;
    for (char *p = to; n > 0;) {
        const struct span whole = {.n = b->size}, *s = b->part ? here(b) : b->at < b->size ? &whole : NULL;
        if (!s)
            break;
        const uint64_t into = b->at - (b->part ? b->begin : 0);
        ssize_t got = (ssize_t)(s->n - into < (uint64_t)n ? s->n - into : (uint64_t)n);
        if (s->instead)
            memcpy(p, s->instead + into, (size_t)got);
        else
            got = pread(b->fd, p, (size_t)got, (off_t)(s->at + into));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) { /* or the file was truncated meanwhile */
            b->error = b->error ? b->error : got < 0 ? errno : EIO;
            break;
        }
        p += got;
        n -= got;
        b->at += (uint64_t)got;
    }
    return (sf_count_t)(b->at - from);
}

static sf_count_t bytes_write(const void *from, sf_count_t n, void *data) {
    struct sound_bytes *b = data;
    sf_count_t done = 0;
    while (done < n && !b->error) {
        const ssize_t put = pwrite(b->fd, (const char *)from + done, (size_t)(n - done), (off_t)b->at);
        if (put < 0 && errno == EINTR)
            continue;
        if (put <= 0) {
            b->error = put < 0 ? errno : EIO;
            break;
        }
        done += put;
        b->at += (uint64_t)put;
        b->size = b->at > b->size ? b->at : b->size;
    }
    return done;
}

static SF_VIRTUAL_IO bytes_io = {bytes_size, bytes_seek, bytes_read, bytes_write, bytes_tell};

/* Replaces libmpg123's function, because libsndfile lets libmpg123 print warnings about a file. */
void *mpg123_new(const char *decoder, int *error);
void *mpg123_new(const char *decoder, int *error) {
    enum { ADD_FLAGS = 2, QUIET = 0x20 }; /* mpg123.h */
    void *(*new)(const char *, int *);
    int (*param)(void *, int, long, double);
    *(void **)&new = dlsym(RTLD_NEXT, "mpg123_new");
    *(void **)&param = dlsym(RTLD_NEXT, "mpg123_param");
    void *handle = new ? new (decoder, error) : NULL;
    if (handle && param)
        param(handle, ADD_FLAGS, QUIET, 0);
    return handle;
}

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Formats that libsndfile cannot read, recognised by bytes at an offset. */
static const char *foreign(int fd) {
    static const struct {
        unsigned char offset, n;
        const char *bytes, *what;
    } kinds[] = {
        {4, 4, "ftyp", "an MP4 or M4A file"},
        {0, 4, "\x30\x26\xb2\x75", "a WMA or WMV file"},
        {0, 4, "\x1a\x45\xdf\xa3", "a WebM or Matroska file"},
        {0, 2, "\xff\xf1", "an AAC file"},
        {0, 2, "\xff\xf9", "an AAC file"},
        {0, 5, "#!AMR", "an AMR file"},
        {0, 4, "wvPk", "a WavPack file"},
        {0, 4, "MAC ", "a Monkey's Audio file"},
        {28, 8, "Speex   ", "a Speex file"},
        {28, 5, "\177FLAC", "a FLAC stream in Ogg"},
        {0, 4, "TTA1", "a True Audio file"},
        {0, 2, "\x0b\x77", "an AC-3 file"},
        {0, 4, "\x7f\xfe\x80\x01", "a DTS file"},
        {8, 4, "AVI ", "an AVI file"},
        {0, 4, "FLV\1", "an FLV file"},
        {0, 4, ".RMF", "a RealMedia file"},
    };
    char head[36] = "";
    if (pread(fd, head, sizeof head, 0) < 16)
        return NULL;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (memcmp(head + kinds[i].offset, kinds[i].bytes, kinds[i].n) == 0)
            return kinds[i].what;
    return NULL;
}

/* Returns a shell command that converts the file; quotes its name. */
static const char *conversion(const struct sound_in *f, const char *options, char ret[1024]) {
    static const char start[] = "ffmpeg -i '";
    size_t n = sizeof start - 1;
    memcpy(ret, start, sizeof start);
    for (const char *p = f->path; *p && n < 900; p++)
        n += (size_t)sprintf(ret + n, *p == '\'' ? "'\\''" : "%c", *p);
    sprintf(ret + n, "'%s sound.wav", options);
    return ret;
}

/* Reports why libsndfile cannot open an existing file. */
static int refuse(const struct sound_in *f, int error, struct err *err) {
    const char *kind = foreign(f->bytes.fd);
    char command[1024];
    conversion(f, "", command);
    if (kind)
        return err_set(err, -EINVAL, "%s: is %s, which libsndfile does not read; convert it: %s", f->name, kind,
                       command);
    const char *why = error == SF_ERR_UNRECOGNISED_FORMAT ? "is not a sound file in a format that libsndfile reads"
                      : error == SF_ERR_UNSUPPORTED_ENCODING
                          ? "uses an encoding that libsndfile does not read"
                          : "is damaged, or uses an encoding that libsndfile does not read";
    return err_set(err, -EINVAL, "%s: %s; ffmpeg may convert it: %s", f->name, why, command);
}

/* Copies a pipe's content. While it waits, signals must be able to end the program. */
static int copy_pipe(int to, int from, const atomic_int *stop) {
    enum { POLL_MS = 100 };
    char some[1 << 16];
    for (;;) {
        struct pollfd p = {.fd = from, .events = POLLIN};
        const int ready = poll(&p, 1, stop ? POLL_MS : -1);
        if (stop && *stop)
            return -EINTR;
        if (ready <= 0) {
            if (ready < 0 && errno != EINTR)
                return -errno;
            continue;
        }
        const ssize_t n = read(from, some, sizeof some);
        if (n == 0)
            return 0;
        if (n < 0 && errno != EINTR && errno != EAGAIN)
            return -errno;
        const int code = n > 0 ? file_put(to, some, (size_t)n) : 0;
        if (code < 0)
            return code;
    }
}

/* Returns a descriptor of a regular file, or a negative errno. O_NONBLOCK: a named pipe must not hang us. */
static int open_bytes(struct sound_in *f, const char *path, const atomic_int *stop, struct err *err) {
    int fd = strcmp(path, "-") == 0 ? fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0)
                                    : open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    int code = fd < 0 || fstat(fd, &f->st) < 0 ? -errno : 0;
    if (code == 0 && (S_ISFIFO(f->st.st_mode) || S_ISSOCK(f->st.st_mode))) {
        const int copy = file_scratch();
        code = copy < 0 ? copy : copy_pipe(copy, fd, stop);
        close(fd);
        fd = copy;
        if (code == 0 && fstat(fd, &f->st) < 0)
            code = -errno;
    }
    if (code == -EINTR)
        err_set(err, code, "%s: interrupted", f->name);
    else if (code < 0)
        err_set(err, code, "%s: %s", f->name, strerror(-code));
    else if (S_ISDIR(f->st.st_mode))
        code = err_set(err, -EISDIR, "%s: is a folder", f->name);
    else if (!S_ISREG(f->st.st_mode))
        code = err_set(err, -EINVAL, "%s: is not a file", f->name);
    else if (f->st.st_size == 0)
        code = err_set(err, -EINVAL, "%s: is empty", f->name);
    if (code == 0)
        return fd;
    if (fd >= 0)
        close(fd);
    return code;
}

static bool is_mpeg(int format) {
    const int kind = format & SF_FORMAT_SUBMASK;
    return kind >= SF_FORMAT_MPEG_LAYER_I && kind <= SF_FORMAT_MPEG_LAYER_III;
}

/* Returns 0, or an error of libsndfile. */
static int open_part(struct sound_in *f, SF_INFO *info) {
    const struct part *p = &f->container.parts[f->part];
    f->bytes = (struct sound_bytes){.fd = f->bytes.fd, .part = p, .size = p->size};
    f->n_of_part = 0;
    *info = (SF_INFO){0};
    pthread_mutex_lock(&opening);
    f->file = sf_open_virtual(&bytes_io, SFM_READ, info, &f->bytes);
    const int error = f->file ? 0 : sf_error(NULL);
    pthread_mutex_unlock(&opening);
    if (p->frames)
        info->frames = (sf_count_t)p->frames;
    f->frames_of_part = is_mpeg(info->format) && (info->format & SF_FORMAT_TYPEMASK) != SF_FORMAT_MPEG
                            ? 0 /* libmpg123's guess from the bit rate */
                            : info->frames;
    return f->file ? 0 : error ? error : SF_ERR_MALFORMED_FILE;
}

static uint64_t size_of_all(const struct sound_in *f) {
    uint64_t size = 0;
    for (size_t i = 0; i < f->container.n_parts; i++)
        size += f->container.parts[i].size;
    return size;
}

static bool is_known(sf_count_t frames) {
    return frames > 0 && frames < SF_COUNT_MAX;
}

int sound_in_open(struct sound_in *f, const char *path, const atomic_int *stop, struct err *err) {
    *f = (struct sound_in){.path = path, .name = strcmp(path, "-") == 0 ? "standard input" : path, .bytes = {.fd = -1}};
    int code = open_bytes(f, path, stop, err);
    if (code < 0)
        return code;
    f->bytes.fd = code;
    code = container_read(&f->container, f->bytes.fd, (uint64_t)f->st.st_size);
    if (code == -EFBIG)
        return err_set(err, code, "%s: holds more sound than a file of its format can count", f->name);
    if (code < 0)
        return err_set(err, code, "%s: cannot be read: %s", f->name, strerror(-code));
    const int error = open_part(f, &f->info);
    if (f->bytes.error)
        return err_set(err, -f->bytes.error, "%s: cannot be read: %s", f->name, strerror(f->bytes.error));
    if (error)
        return refuse(f, error, err);
    if (is_known(f->info.frames))
        f->frames = (sf_count_t)((double)f->info.frames * (double)size_of_all(f) / (double)f->container.parts[0].size);
    return 0;
}

/* Checks for faults after the last frame of a part. A decoder stops at damage, but reads a truncated file to its
 * end. */
static void end_part(struct sound_in *f) {
    const bool whole = !sf_error(f->file) &&
                       !(is_known(f->frames_of_part) && f->n_of_part < (uint64_t)f->frames_of_part);
    if (!whole && !(f->container.faults & (CONTAINER_CUT | CONTAINER_DAMAGED)))
        f->container.faults |= f->bytes.at < f->bytes.size ? CONTAINER_DAMAGED : CONTAINER_CUT;
    else if (f->container.parts[f->part].frames && f->n_of_part > (uint64_t)f->frames_of_part)
        f->container.faults |= CONTAINER_LONGER;
}

/* Whether there is another part with the first one's format. */
static bool next_part(struct sound_in *f) {
    SF_INFO info;
    if (f->part + 1 == f->container.n_parts)
        return false;
    sf_close(f->file);
    f->size += f->bytes.size;
    f->part++;
    if (open_part(f, &info)) {
        f->container.faults |= CONTAINER_DAMAGED;
        f->part = f->container.n_parts - 1; /* there is no more */
        return false;
    }
    if (info.samplerate == f->info.samplerate && info.channels == f->info.channels)
        return true;
    f->container.faults |= CONTAINER_CHANGES;
    f->part = f->container.n_parts - 1;
    return false;
}

/* Full scale is 1. Some programs write numbers of 16 bits into files of floating-point numbers. */
static int check_samples(const struct sound_in *f, const float *frames, sf_count_t n, struct err *err) {
    enum { FAR = 64 }; /* 36 dB above full scale */
    const unsigned channels = (unsigned)f->info.channels;
    for (size_t i = 0; i < (size_t)n * channels; i++) {
        const unsigned long long frame = f->n_read + i / channels;
        const unsigned channel = (unsigned)(i % channels + 1);
        char command[1024];
        if (!isfinite(frames[i]))
            return err_set(err, -EINVAL, "%s: frame %llu, channel %u is not a number", f->name, frame, channel);
        if (fabsf(frames[i]) > FAR)
            return err_set(err, -EINVAL,
                           "%s: frame %llu, channel %u is %g, and full scale is 1; if its samples are "
                           "numbers of 16 bits, convert it: %s",
                           f->name, frame, channel, (double)frames[i], conversion(f, " -af volume=1/32768", command));
    }
    return 0;
}

int sound_in_read(struct sound_in *f, float *frames, int n, struct err *err) {
    sf_count_t got;
    do {
        if (!f->file || f->ended)
            return 0;
        got = sf_readf_float(f->file, frames, n);
        if (f->bytes.error)
            return err_set(err, -EIO, "%s: cannot be read: %s", f->name, strerror(f->bytes.error));
        if (got > 0)
            break;
        end_part(f);
    } while (next_part(f));
    const int code = check_samples(f, frames, got, err);
    if (code < 0)
        return code;
    f->n_read += (uint64_t)got;
    f->n_of_part += (uint64_t)got;
    f->ended = got == 0;
    if (got == 0 && !f->n_read)
        return err_set(err, -EINVAL,
                       f->container.faults ? "%s: cannot be read: the sound is damaged" : "%s: contains no sound",
                       f->name);
    return (int)got;
}

float sound_in_share(const struct sound_in *f) {
    return fminf(1, (float)(f->size + f->bytes.at) / (float)size_of_all(f));
}

const char *sound_in_fault(const struct sound_in *f) {
    const unsigned faults = f->container.faults;
    return faults & CONTAINER_DAMAGED   ? "is damaged"
           : faults & CONTAINER_CUT     ? "is cut short"
           : faults & CONTAINER_CHANGES ? "goes on at another rate or with other channels"
           : faults & CONTAINER_LONGER  ? "holds more than its header says"
                                        : NULL;
}

void sound_in_close(struct sound_in *f) {
    if (!f->name)
        return;
    if (f->file)
        sf_close(f->file);
    if (f->bytes.fd >= 0)
        close(f->bytes.fd);
    container_done(&f->container);
    f->name = NULL;
}

/* ---- formats to write ------------------------------------------------------------------------------------------ */

/* Common extensions; some also imply a sample format. libsndfile knows more. */
static const struct {
    const char *extension;
    int format;
} extensions[] = {
    {"wav", SF_FORMAT_WAV},
    {"flac", SF_FORMAT_FLAC},
    {"mp3", SF_FORMAT_MPEG | SF_FORMAT_MPEG_LAYER_III},
    {"ogg", SF_FORMAT_OGG},
    {"opus", SF_FORMAT_OGG | SF_FORMAT_OPUS},
    {"aiff", SF_FORMAT_AIFF},
    {"aif", SF_FORMAT_AIFF},
    {"aifc", SF_FORMAT_AIFF},
    {"wave", SF_FORMAT_WAV},
    {"bwf", SF_FORMAT_WAV},
    {"snd", SF_FORMAT_AU},
};
enum { N_EXTENSIONS = sizeof extensions / sizeof *extensions };

/* The nth extension and its container; NULL after the last. Some occur twice. */
static const char *nth_extension(int n, int *format) {
    if (n < N_EXTENSIONS) {
        *format = extensions[n].format;
        return extensions[n].extension;
    }
    SF_FORMAT_INFO f = {.format = n - N_EXTENSIONS};
    int n_major = 0;
    sf_command(NULL, SFC_GET_FORMAT_MAJOR_COUNT, &n_major, sizeof n_major);
    if (f.format >= n_major || sf_command(NULL, SFC_GET_FORMAT_MAJOR, &f, sizeof f))
        return NULL;
    *format = f.format & SF_FORMAT_TYPEMASK;
    return f.extension && *format != SF_FORMAT_SD2 ? f.extension : ""; /* SD2 consists of two files */
}

static const char *extension_of(const char *path) {
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path, *dot = strrchr(name, '.');
    return dot && dot != name ? dot + 1 : "";
}

/* The container of an extension, with a sample format if the extension implies one; 0 if unknown. */
static int container(const char *extension) {
    const char *known;
    int format;
    for (int i = 0; *extension && (known = nth_extension(i, &format)); i++)
        if (strcasecmp(extension, known) == 0)
            return format;
    return 0;
}

bool sound_file_named(const char *path) {
    const int format = container(extension_of(path));
    return format && format != SF_FORMAT_RAW;
}

/* Whether the format has this rate; sf_format_check does not tell. */
static bool has_rate(int format, int rate) {
    static const int of_opus[] = {8000, 12000, 16000, 24000, 48000};
    bool has = (format & SF_FORMAT_SUBMASK) != SF_FORMAT_OPUS;
    for (unsigned i = 0; i < sizeof of_opus / sizeof *of_opus; i++)
        has |= rate == of_opus[i];
    return has;
}

/* Returns 0 if the container cannot hold that. */
static int format_in(int wanted, const SF_INFO *like) {
    int kept = like->format & SF_FORMAT_SUBMASK;
    if (is_mpeg(kept))
        kept = 0; /* libsndfile claims that WAV can hold it, but does not write it */
    const int subtypes[] = {kept, SF_FORMAT_PCM_16, SF_FORMAT_VORBIS, SF_FORMAT_MPEG_LAYER_III};
    for (unsigned s = 0; s < sizeof subtypes / sizeof *subtypes; s++) {
        SF_INFO try = {.samplerate = like->samplerate, .channels = like->channels, .format = wanted};
        if (!(wanted & SF_FORMAT_SUBMASK))
            try.format |= subtypes[s];
        if (sf_format_check(&try) && has_rate(try.format, like->samplerate))
            return try.format;
    }
    return 0;
}

/* Lists the extensions that can hold what `like` has: " .wav .flac ...". */
static void list_extensions(char *text, size_t size, const SF_INFO *like) {
    const char *extension;
    int format;
    snprintf(text, size, " ");
    for (int i = 0; (extension = nth_extension(i, &format)); i++) {
        char word[16];
        snprintf(word, sizeof word, " .%s ", extension);
        if (*extension && format_in(format, like) && !strstr(text, word))
            text_add(text, size, "%s", word + 1);
    }
    text[strlen(text) - 1] = '\0';
}

/* The format for the name's extension, as sound_out_open has it; -EINVAL if it is unknown. */
static int format_named(const char *path, const SF_INFO *like, struct err *err) {
    const char *extension = extension_of(path);
    const int wanted = container(extension), format = wanted ? format_in(wanted, like) : 0;
    char list[256];
    if (format)
        return format;
    list_extensions(list, sizeof list, like);
    if (wanted)
        return err_set(err, -EINVAL, "%s: a .%s file cannot hold %d channel%s at %d Hz; choose one of%s", path,
                       extension, like->channels, like->channels == 1 ? "" : "s", like->samplerate, list);
    if (*extension)
        return err_set(err, -EINVAL, "%s: .%s is not the extension of a sound file; choose one of%s", path, extension,
                       list);
    return err_set(err, -EINVAL, "%s: has no extension, which determines the format; choose one of%s", path, list);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

/* Returns the most frames that a file of this format can have. Its header counts bytes, and some tags follow the
 * sound. */
static uint64_t most_frames(int format, int channels) {
    enum { TAGS = 64 << 20 };
    unsigned bytes = 1;
    switch (format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_RF64:
    case SF_FORMAT_W64:
    case SF_FORMAT_CAF:
    case SF_FORMAT_FLAC:
    case SF_FORMAT_OGG:
    case SF_FORMAT_MPEG: return UINT64_MAX;
    default: break;
    }
    switch (format & SF_FORMAT_SUBMASK) {
    case SF_FORMAT_PCM_16: bytes = 2; break;
    case SF_FORMAT_PCM_24: bytes = 3; break;
    case SF_FORMAT_PCM_32:
    case SF_FORMAT_FLOAT: bytes = 4; break;
    case SF_FORMAT_DOUBLE: bytes = 8; break;
    default: break;
    }
    const uint64_t most = (format & SF_FORMAT_TYPEMASK) == SF_FORMAT_VOC ? (1 << 24) - 4096
                                                                         : UINT32_MAX - (uint64_t)TAGS;
    return most / (bytes * (unsigned)channels);
}

static int too_long(const struct sound_out *o, struct err *err) {
    return err_set(err, -EFBIG,
                   "%s: there is more sound than this format can count, about %.3g min; choose .w64, "
                   ".rf64 or .flac",
                   o->name, (double)o->most_frames / 60 / o->rate);
}

static int out_failed(const struct sound_out *o, struct err *err) {
    return err_set(err, -EIO, "%s: cannot be written: %s", o->name,
                   o->bytes.error ? strerror(o->bytes.error) : "libsndfile failed");
}

int sound_out_again(const struct sound_out *o, struct replace *ret, struct err *err) {
    if (!o->piped)
        return replace_begin(ret, o->name, 0666, err);
    *ret = (struct replace){.name = o->name, .fd = file_scratch()};
    if (ret->fd >= 0)
        return 0;
    ret->name = NULL;
    return err_set(err, ret->fd, "%s: %s", o->name, strerror(-ret->fd));
}

int sound_out_open(struct sound_out *o, const char *path, const SF_INFO *like, sf_count_t frames, struct err *err) {
    SF_INFO info = {.samplerate = like->samplerate, .channels = like->channels};
    *o = (struct sound_out){.piped = strcmp(path, "-") == 0, .rate = like->samplerate};
    o->name = o->piped ? "standard output" : path;
    const int code = sound_out_again(o, &o->replace, err);
    if (code < 0)
        return code;
    info.format = format_named(o->piped ? "-.wav" : path, like, err);
    if (info.format < 0)
        return info.format;
    o->most_frames = most_frames(info.format, info.channels);
    if ((info.format & SF_FORMAT_TYPEMASK) == SF_FORMAT_WAV && (frames == 0 || (uint64_t)frames > o->most_frames)) {
        SF_INFO more = info;
        more.format = SF_FORMAT_RF64 | (info.format & SF_FORMAT_SUBMASK);
        if (sf_format_check(&more)) {
            info.format = more.format;
            o->most_frames = UINT64_MAX;
        }
    }
    if ((uint64_t)frames > o->most_frames)
        return too_long(o, err);
    o->format = info.format;
    o->bytes = (struct sound_bytes){.fd = o->replace.fd};
    pthread_mutex_lock(&opening);
    o->file = sf_open_virtual(&bytes_io, SFM_WRITE, &info, &o->bytes);
    if (!o->file && !o->bytes.error)
        err_set(err, -EINVAL, "%s: libsndfile cannot write this format at %d Hz: %s", o->name, info.samplerate,
                sf_strerror(NULL));
    pthread_mutex_unlock(&opening);
    if (!o->file)
        return o->bytes.error ? out_failed(o, err) : -EINVAL;
    sf_command(o->file, SFC_SET_CLIPPING, NULL, SF_TRUE);
    sf_command(o->file, SFC_RF64_AUTO_DOWNGRADE, NULL, frames == 0); /* to WAV, if the sound turns out to fit */
    return 0;
}

int sound_out_write(struct sound_out *o, const float *frames, size_t n, struct err *err) {
    o->n_written += n;
    if (o->n_written > o->most_frames)
        return too_long(o, err);
    const bool all = sf_writef_float(o->file, frames, (sf_count_t)n) == (sf_count_t)n;
    return all && !sf_error(o->file) && !o->bytes.error ? 0 : out_failed(o, err);
}

/* Some encoders lose an error in their last block; o->bytes has it. */
int sound_out_close(struct sound_out *o, struct err *err) {
    const int error = sf_close(o->file);
    o->file = NULL;
    return error || o->bytes.error ? out_failed(o, err) : 0;
}

/* All of it, from its start. */
static int send(struct sound_out *o) {
    char some[1 << 16];
    off_t at = 0;
    for (ssize_t n; (n = pread(o->replace.fd, some, sizeof some, at)) != 0; at += n) {
        const int code = n < 0 ? -errno : file_put(STDOUT_FILENO, some, (size_t)n);
        if (code < 0)
            return code;
    }
    return 0;
}

int sound_out_finish(struct sound_out *o, struct err *err) {
    if (!o->piped)
        return replace_finish(&o->replace, err);
    const int code = send(o);
    return code < 0 ? err_set(err, code, "%s: cannot be written: %s", o->name, strerror(-code)) : 0;
}

void sound_out_drop(struct sound_out *o) {
    if (o->file)
        sf_close(o->file);
    o->file = NULL;
    replace_drop(&o->replace);
}
