#include "config.h"

#include "tool/container.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST_HEADER = 16 << 20 }; /* bytes; everything before the sound, such as pictures */

struct bytes {
    int fd;
    uint64_t size, at; /* of the file; where in it the window begins */
    size_t n;          /* in the window */
    int error;
    unsigned char window[1 << 16]; /* holds the longest page of Ogg */
};

/* Returns n bytes of the file, at most a window, valid until the next call. NULL: the file ends earlier, or cannot be
 * read. */
static const unsigned char *peek(struct bytes *b, uint64_t at, size_t n) {
    if (b->error || at > b->size || n > b->size - at)
        return NULL;
    if (at >= b->at && at + n <= b->at + b->n)
        return b->window + (at - b->at);
    b->at = at;
    b->n = 0;
    while (b->n < n) {
        const ssize_t got = pread(b->fd, b->window + b->n, sizeof b->window - b->n, (off_t)(at + b->n));
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0) { /* or the file was truncated meanwhile */
            b->error = got < 0 ? errno : EIO;
            return NULL;
        }
        b->n += (size_t)got;
    }
    return b->window;
}

static bool holds(struct bytes *b, uint64_t at, const char *text) {
    const unsigned char *p = peek(b, at, strlen(text));
    return p && memcmp(p, text, strlen(text)) == 0;
}

/* Returns the next offset, from `at` on, of these bytes; the end of the file if there is none. */
static uint64_t find(struct bytes *b, uint64_t at, const char *text) {
    const size_t n = strlen(text);
    while (at + n <= b->size) {
        const size_t most = b->size - at < sizeof b->window ? (size_t)(b->size - at) : sizeof b->window;
        const unsigned char *p = peek(b, at, most), *found = p ? memmem(p, most, text, n) : NULL;
        if (!p)
            break;
        if (found)
            return at + (uint64_t)(found - p);
        at += most - n + 1;
    }
    return b->size;
}

static uint64_t number(const unsigned char *p, unsigned n, bool big) {
    uint64_t value = 0;
    for (unsigned i = 0; i < n; i++)
        value = value << 8 | p[big ? i : n - 1 - i];
    return value;
}

static void put_number(unsigned char *p, unsigned n, bool big, uint64_t value) {
    for (unsigned i = 0; i < n; i++)
        p[big ? n - 1 - i : i] = (unsigned char)(value >> 8 * i);
}

/* ---- parts and spans --------------------------------------------------------------------------------------------- */

static int add_part(struct container *c) {
    struct part *parts = realloc(c->parts, (c->n_parts + 1) * sizeof *parts);
    if (!parts)
        return -ENOMEM;
    c->parts = parts;
    c->parts[c->n_parts++] = (struct part){0};
    return 0;
}

/* Adds a span to the last part; takes ownership of `instead`. */
static int add_span(struct container *c, uint64_t at, uint64_t n, unsigned char *instead) {
    struct part *p = &c->parts[c->n_parts - 1];
    if (n == 0)
        return 0;
    if ((p->n_spans & (p->n_spans - 1)) == 0) { /* room for a power of two */
        struct span *spans = realloc(p->spans, (p->n_spans ? 2 * p->n_spans : 1) * sizeof *spans);
        if (!spans) {
            free(instead);
            return -ENOMEM;
        }
        p->spans = spans;
    }
    p->spans[p->n_spans++] = (struct span){at, n, instead};
    p->size += n;
    return 0;
}

static int add_whole(struct container *c, uint64_t at, uint64_t end) {
    const int code = add_part(c);
    return code < 0 ? code : add_span(c, at, end - at, NULL);
}

void container_done(struct container *c) {
    for (size_t i = 0; i < c->n_parts; i++) {
        for (size_t k = 0; k < c->parts[i].n_spans; k++)
            free(c->parts[i].spans[k].instead);
        free(c->parts[i].spans);
    }
    free(c->parts);
    *c = (struct container){0};
}

/* ---- files of chunks: WAV, RF64, AIFF, IFF, Wave64, CAF ---------------------------------------------------------- */

struct family {
    char magic[5], form[5];
    unsigned char outer;        /* bytes before the first chunk */
    unsigned char n_id, n_size; /* bytes of a chunk's name and of its length */
    unsigned char align;        /* of chunks */
    bool big, inclusive;        /* byte order; whether lengths count the chunk's own header */
    char data[5];               /* the name of the chunk with the sound ... */
    unsigned char skip;         /* ... and the bytes in it before the sound */
};

static const struct family families[] = {
    {"RIFF", "WAVE", 12, 4, 4, 2, false, false, "data", 0}, {"RF64", "WAVE", 12, 4, 4, 2, false, false, "data", 0},
    {"RIFX", "WAVE", 12, 4, 4, 2, true, false, "data", 0},  {"FORM", "AIFF", 12, 4, 4, 2, true, false, "SSND", 8},
    {"FORM", "AIFC", 12, 4, 4, 2, true, false, "SSND", 8},  {"FORM", "8SVX", 12, 4, 4, 2, true, false, "BODY", 0},
    {"FORM", "16SV", 12, 4, 4, 2, true, false, "BODY", 0},  {"riff", "wave", 40, 16, 8, 8, false, true, "data", 0},
    {"caff", "", 8, 4, 8, 1, true, false, "data", 4},
};

static const struct family *family_at(struct bytes *b, uint64_t at) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const struct family *f = &families[i];
        if (holds(b, at, f->magic) && holds(b, at + f->n_id + f->n_size, f->form))
            return f;
    }
    return NULL;
}

struct chunk {
    uint64_t at, body, n; /* n: as its header has it */
    char name[5];
};

static bool chunk_at(struct bytes *b, const struct family *f, uint64_t at, struct chunk *ret) {
    const unsigned char *p = peek(b, at, f->n_id + f->n_size);
    if (!p)
        return false;
    *ret = (struct chunk){.at = at, .body = at + f->n_id + f->n_size, .n = number(p + f->n_id, f->n_size, f->big)};
    memcpy(ret->name, p, 4);
    const uint64_t own = f->inclusive ? f->n_id + f->n_size : 0;
    ret->n = ret->n > own ? ret->n - own : 0;
    return true;
}

/* Returns where the next chunk begins; past the end of the file if this one does not fit. */
static uint64_t after(const struct bytes *b, const struct family *f, const struct chunk *c) {
    return c->n > b->size - c->body ? UINT64_MAX : c->body + c->n + (f->align - c->n % f->align) % f->align;
}

/* Whether the data can be chunks, or another file; *end is where they end. Sound may look like chunks by chance, but
 * not up to the end of the file. */
static bool chunks_follow(struct bytes *b, const struct family *f, uint64_t at, uint64_t *end) {
    static const char known[] = "LIST id3  ID3  bext iXML cue  smpl PEAK fact JUNK inst plst afsp _PMX aXML cart "
                                "COMT MARK NAME AUTH ANNO (c)  APPL INST MIDI FVER uuid strg info peak chan free pakt";
    struct chunk c;
    for (; at < b->size && chunk_at(b, f, at, &c); at = after(b, f, &c)) {
        if (family_at(b, at)) {
            *end = at;
            return true;
        }
        if (strstr(known, c.name) && strlen(c.name) == 4 && after(b, f, &c) > b->size)
            break;                                      /* it is cut short, the sound is not */
        if (holds(b, at, "TAG") && b->size - at == 128) /* ID3v1 */
            break;
        for (int i = 0; i < 4; i++)
            if (c.name[i] < ' ' || c.name[i] > '~')
                return false;
        if (after(b, f, &c) > b->size + f->align)
            return false;
    }
    *end = b->size;
    return true;
}

/* The lengths that programs write when they do not know it yet, and may never correct: zero; all bits set, except the
 * lowest or the sign; SoX's 2130706432. */
static bool is_unknown(const struct family *f, uint64_t n) {
    if (n <= f->skip)
        return true;
    return f->n_size == 8 || n > UINT32_MAX ? n >> 62 != 0 : (n & 0x7fff0000) == 0x7fff0000 || n - 0x7f000000 < 0x100;
}

/* Adds the part [begin, end), whose sound extends from the chunk to its end, with this length in the header. */
static int correct_header(struct container *c, struct bytes *b, const struct family *f, uint64_t begin,
                          const struct chunk *data, uint64_t end) {
    enum { LONG = 36 }; /* bytes by which an RF64 header is longer than a WAV header */
    const uint64_t start = data->body + f->skip, own = f->n_id + f->n_size;
    const bool is_wav = strcmp(f->magic, "RIFF") == 0, is_long = strcmp(f->magic, "RF64") == 0;
    const bool fits = f->n_size == 8 || end - begin < UINT32_MAX - 64;
    const size_t n = (size_t)(start - begin), more = is_wav && !fits ? LONG : 0;
    if (start - begin > MOST_HEADER || (!fits && !is_wav && !is_long))
        return -EFBIG;
    unsigned char *head = malloc(n + LONG);
    if (!head)
        return -ENOMEM;
    unsigned char *size = head + more + (data->at - begin) + f->n_id;
    for (size_t i = 0; i < n;) {
        const size_t some = n - i < sizeof b->window ? n - i : sizeof b->window;
        const unsigned char *p = peek(b, begin + i, some);
        if (!p) {
            free(head);
            return -b->error;
        }
        memcpy(head + more + i, p, some);
        i += some;
    }
    const uint64_t outer = end - begin + more - (f->inclusive ? 0 : own), sound = end - data->body;
    if (more) {
        memcpy(head,
               "RF64\xff\xff\xff\xff"
               "WAVEds64\x1c\0\0",
               19);
        memset(head + 19, 0, 12 + LONG - 19);
    }
    if (more || is_long) {
        put_number(head + 20, 8, false, outer);
        put_number(head + 28, 8, false, sound);
        put_number(size, 4, false, UINT32_MAX);
    } else {
        if (f->form[0])
            put_number(head + f->n_id, f->n_size, f->big, outer);
        put_number(size, f->n_size, f->big, sound + (f->inclusive ? own : 0));
    }
    const int code = add_span(c, begin, n + more, head);
    return code < 0 ? code : add_span(c, start, end - start, NULL);
}

static int add_chunks(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end) {
    const struct family *f = family_at(b, begin);
    struct chunk data, ds64;
    for (uint64_t at = begin + f->outer;; at = after(b, f, &data))
        if (at > b->size || !chunk_at(b, f, at, &data))
            return add_whole(c, begin, *end = b->size); /* libsndfile reports the error */
        else if (strcmp(data.name, f->data) == 0)
            break;
    if (strcmp(f->magic, "RF64") == 0 && data.n == UINT32_MAX && chunk_at(b, f, begin + 12, &ds64) &&
        strcmp(ds64.name, "ds64") == 0 && peek(b, ds64.body, 16))
        data.n = number(peek(b, ds64.body, 16) + 8, 8, false);

    const uint64_t left = b->size - data.body;
    uint64_t sound_end = b->size; /* if the header must be corrected */
    if (left < f->skip)
        return add_whole(c, begin, *end = b->size);
    if (data.n <= left && chunks_follow(b, f, after(b, f, &data), end))
        return add_whole(c, begin, *end);
    *end = b->size;
    if (data.n > left && !is_unknown(f, data.n)) {
        c->faults |= CONTAINER_CUT;
    } else if (!is_unknown(f, data.n)) {
        bool wrapped = false; /* the length lost its upper bits */
        while (f->n_size == 4 && !wrapped && (data.n += UINT64_C(1) << 32) <= left)
            wrapped = chunks_follow(b, f, after(b, f, &data), end);
        if (wrapped)
            sound_end = data.body + data.n;
        else
            c->faults |= CONTAINER_LONGER;
    }
    const int code = add_part(c);
    return code < 0 ? code : correct_header(c, b, f, begin, &data, sound_end);
}

/* ---- AU: a length, and nothing after the sound ------------------------------------------------------------------- */

static int add_au(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end) {
    const unsigned char *p = peek(b, begin, 24);
    const bool big = p && p[0] == '.';
    const uint64_t start = p ? begin + number(p + 4, 4, big) : 0, n = p ? number(p + 8, 4, big) : 0;
    *end = b->size;
    if (p && n && n <= b->size && start + n < b->size && (holds(b, start + n, ".snd") || holds(b, start + n, "dns.")))
        return add_whole(c, begin, *end = start + n);
    if (!p || start < begin + 24 || start > b->size || start - begin > MOST_HEADER || n == b->size - start)
        return add_whole(c, begin, *end);
    if (n > b->size - start && n != UINT32_MAX)
        c->faults |= CONTAINER_CUT;
    else if (n && n != UINT32_MAX && ((b->size - start) & UINT32_MAX) != n)
        c->faults |= CONTAINER_LONGER;
    unsigned char *head = malloc(12);
    if (!head)
        return -ENOMEM;
    memcpy(head, peek(b, begin, 12), 12);
    put_number(head + 8, 4, big, UINT32_MAX); /* up to the end */
    int code = add_part(c);
    if (code < 0) {
        free(head);
        return code;
    }
    code = add_span(c, begin, 12, head);
    return code < 0 ? code : add_span(c, begin + 12, b->size - begin - 12, NULL);
}

/* ---- FLAC: another one may follow -------------------------------------------------------------------------------- */

enum { STREAMINFO = 34 }; /* bytes of this first block, which has the length in 36 bits */

static bool is_flac(struct bytes *b, uint64_t at) {
    const unsigned char *p = peek(b, at, 8 + STREAMINFO);
    return p && memcmp(p, "fLaC", 4) == 0 && !(p[4] & 0x7f) && number(p + 5, 3, true) == STREAMINFO;
}

/* A decoder stops at the length in the header, whatever follows. */
static int hide_length(struct container *c, struct bytes *b, uint64_t begin) {
    enum { LENGTH = 8 + 13, HEAD = LENGTH + 5 };
    unsigned char *head = malloc(HEAD);
    const unsigned char *p = peek(b, begin, HEAD);
    if (!head || !p) {
        free(head);
        return p ? -ENOMEM : -EIO;
    }
    memcpy(head, p, HEAD);
    c->parts[c->n_parts - 1].frames = number(p + LENGTH, 5, true) & 0xfffffffff;
    head[LENGTH] &= 0xf0;
    memset(head + LENGTH + 1, 0, 4);
    return add_span(c, begin, HEAD, head);
}

static int add_flac(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end) {
    uint64_t at = begin + 4;
    const unsigned char *p;
    for (bool last = false; !last && (p = peek(b, at, 4)); at += 4 + number(p + 1, 3, true))
        last = p[0] & 0x80;
    while ((*end = find(b, at, "fLaC")) < b->size && !is_flac(b, *end))
        at = *end + 1;
    if (!is_flac(b, begin))
        return add_whole(c, begin, *end);
    int code = add_part(c);
    if (code == 0)
        code = hide_length(c, b, begin);
    const uint64_t hidden = code == 0 ? c->parts[c->n_parts - 1].size : 0;
    return code < 0 ? code : add_span(c, begin + hidden, *end - begin - hidden, NULL);
}

/* ---- Ogg: pages, and chains of streams --------------------------------------------------------------------------- */

enum { OGG_BEGINS = 2, OGG_ENDS = 4 };

static uint32_t ogg_sum(const unsigned char *page, size_t n) {
    uint32_t sum = 0;
    for (size_t i = 0; i < n; i++) {
        sum ^= (uint32_t)(i >= 22 && i < 26 ? 0 : page[i]) << 24; /* the sum itself counts as zero */
        for (int bit = 0; bit < 8; bit++)
            sum = sum << 1 ^ (sum >> 31 ? 0x04c11db7 : 0);
    }
    return sum;
}

/* Returns the size of the page at this offset, 0 if there is none; UINT64_MAX if the file ends in it. */
static uint64_t ogg_page(struct bytes *b, uint64_t at, unsigned *flags) {
    const unsigned char *p = peek(b, at, 27);
    if (!p)
        return b->size - at && at < b->size ? UINT64_MAX : 0;
    if (memcmp(p, "OggS", 4) != 0)
        return 0;
    *flags = p[5];
    size_t n_lacing = p[26], n = 27 + n_lacing;
    if (!(p = peek(b, at, n)))
        return UINT64_MAX;
    for (size_t i = 0; i < n_lacing; i++)
        n += p[27 + i];
    if (!(p = peek(b, at, n)))
        return UINT64_MAX;
    return ogg_sum(p, n) == number(p + 22, 4, false) ? n : 0;
}

static int add_ogg(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end) {
    bool begun = false; /* past the first pages of its streams */
    unsigned flags = 0, last = 0;
    uint64_t at = begin;
    while (at < b->size) {
        const uint64_t n = ogg_page(b, at, &flags);
        if (n == 0 || n == UINT64_MAX) {
            at = find(b, at + 1, "OggS");
            if (n == 0 || at < b->size)
                c->faults |= CONTAINER_DAMAGED;
            last = 0;
            continue;
        }
        if (begun && (flags & OGG_BEGINS))
            break;
        begun = !(flags & OGG_BEGINS);
        last = flags;
        at += n;
    }
    if (!(last & OGG_ENDS))
        c->faults |= CONTAINER_CUT;
    *end = at;
    return add_whole(c, begin, *end);
}

/* ---- MP3: frames, with tags and garbage in between --------------------------------------------------------------- */

struct frame {
    unsigned kind;       /* the bits that are equal in all frames of a file: version, layer and rate */
    unsigned size, side; /* bytes: all; of the side information, where an encoder's own frame has its mark */
};

/* Reads the header of a frame. Rejects frames whose length only the next frame reveals (free format). */
static bool frame_at(struct bytes *b, uint64_t at, struct frame *ret) {
    static const unsigned short rates_kbps[5][16] = {
        {0, 32, 64, 96, 128, 160, 192, 224, 256, 288, 320, 352, 384, 416, 448}, /* MPEG 1: layer I, ... */
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384},
        {0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320},
        {0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256}, /* MPEG 2: layer I, the others */
        {0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160}};
    static const unsigned short rates_hz[3] = {44100, 48000, 32000};
    const unsigned char *p = peek(b, at, 4);
    if (!p || p[0] != 0xff || (p[1] & 0xe0) != 0xe0)
        return false;
    const unsigned version = p[1] >> 3 & 3, layer = 4 - (p[1] >> 1 & 3), rate = p[2] >> 2 & 3;
    const bool first = version == 3, mono = p[3] >> 6 == 3;
    if (version == 1 || layer == 4 || rate == 3)
        return false;
    const unsigned hz = rates_hz[rate] >> (first ? 0 : version == 2 ? 1 : 2), padding = p[2] >> 1 & 1;
    const unsigned kbps = rates_kbps[first ? layer - 1 : layer == 1 ? 3 : 4][p[2] >> 4];
    if (kbps == 0)
        return false;
    ret->kind = version << 8 | layer << 4 | rate;
    ret->side = first ? (mono ? 17 : 32) : mono ? 9 : 17;
    ret->size = layer == 1 ? (12000 * kbps / hz + padding) * 4
                           : (layer == 3 && !first ? 72000u : 144000u) * kbps / hz + padding;
    return true;
}

/* Returns the size of the tag at this offset: ID3v2, APE, ID3v1; 0 if there is none. */
static uint64_t tag_size(struct bytes *b, uint64_t at) {
    const unsigned char *p = peek(b, at, 10);
    if (p && memcmp(p, "ID3", 3) == 0 && !((p[6] | p[7] | p[8] | p[9]) & 0x80))
        return ((uint64_t)p[6] << 21 | (uint64_t)p[7] << 14 | (uint64_t)p[8] << 7 | p[9]) + (p[5] & 0x10 ? 20 : 10);
    if (holds(b, at, "APETAGEX") && (p = peek(b, at, 32))) /* a header counts what follows it, a footer itself */
        return p[23] & 0x20 ? 32 + number(p + 12, 4, false) : 32;
    return holds(b, at, "TAG") && peek(b, at, 128) ? 128 : 0;
}

/* Whether there is a frame of this kind, followed by the next one, a tag, or the end. */
static bool frame_goes_on(struct bytes *b, uint64_t at, struct frame *ret) {
    struct frame next;
    if (!frame_at(b, at, ret))
        return false;
    const uint64_t end = at + ret->size;
    return end == b->size || tag_size(b, end) || (frame_at(b, end, &next) && next.kind == ret->kind);
}

/* Whether the frame contains an encoder's frame count; *n is 0 if the count is missing. */
static bool counts_frames(struct bytes *b, uint64_t at, const struct frame *f, uint64_t *n) {
    const uint64_t mark = at + 4 + f->side;
    const unsigned char *p = peek(b, mark, 12);
    *n = 0;
    if (p && (memcmp(p, "Xing", 4) == 0 || memcmp(p, "Info", 4) == 0)) {
        *n = p[7] & 1 ? number(p + 8, 4, true) : 0;
        return true;
    }
    return holds(b, at + 36, "VBRI");
}

static bool only_zeros(struct bytes *b, uint64_t at) {
    for (const unsigned char *p; at < b->size; at++)
        if (!(p = peek(b, at, 1)) || *p)
            return false;
    return true;
}

/* Corrects the frame count in the first span of the last part, because a decoder stops there. */
static int correct_count(struct container *c, uint64_t at, uint64_t n) {
    enum { SIZE = 4 };
    unsigned char *count = malloc(SIZE);
    int code = count ? add_span(c, 0, SIZE, count) : -ENOMEM;
    if (code == 0)
        code = add_span(c, 0, SIZE, NULL); /* room for what follows it */
    if (code < 0)
        return code;
    put_number(count, SIZE, true, n);
    struct part *p = &c->parts[c->n_parts - 1];
    const struct span first = p->spans[0];
    p->size -= 2 * SIZE;
    memmove(p->spans + 3, p->spans + 1, (p->n_spans - 3) * sizeof *p->spans);
    p->spans[0].n = at - first.at;
    p->spans[1] = (struct span){at, SIZE, count};
    p->spans[2] = (struct span){.at = at + SIZE, .n = first.at + first.n - at - SIZE};
    return 0;
}

/* Leading tags and ID3v1 belong to the part, for libsndfile to read. Other tags, like garbage, do not. */
static int add_mpeg(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end) {
    struct frame first, f;
    uint64_t at = begin, span = begin, claimed = 0, n = 0, n_more, count_at = 0;
    bool damaged = false;
    int code = add_part(c);
    while (tag_size(b, at))
        at += tag_size(b, at);
    frame_at(b, at, &first); /* the caller has seen it */
    while (code == 0 && at < b->size) {
        uint64_t skip = tag_size(b, at);
        if (skip == 0 && frame_at(b, at, &f) && f.kind == first.kind) {
            if (counts_frames(b, at, &f, &n_more) && n > 0)
                break;
            if (n == 0) {
                claimed = n_more;
                count_at = at + 4 + f.side + 8;
            }
            n++;
            at += f.size;
            if (at <= b->size)
                continue;
            c->faults |= CONTAINER_CUT; /* in this frame */
            at = b->size;
            break;
        }
        if (skip == 0 && frame_goes_on(b, at, &f) && f.kind != first.kind)
            break; /* another file */
        if (holds(b, at, "TAG") && skip) {
            at += skip;
            continue;
        }
        if ((code = add_span(c, span, at - span, NULL)) < 0)
            break;
        if (skip == 0) {
            const bool padded = only_zeros(b, at);
            for (skip = 1; at + skip < b->size && !(frame_goes_on(b, at + skip, &f) && f.kind == first.kind); skip++)
                ;
            const bool ended = at + skip >= b->size && (padded || (claimed && n >= claimed));
            damaged = damaged || !ended;
        }
        at = skip < b->size - at ? at + skip : b->size;
        span = at;
    }
    if (damaged)
        c->faults |= CONTAINER_DAMAGED;
    else if (n < claimed) /* some encoders count the frame that contains it, others do not */
        c->faults |= CONTAINER_CUT;
    *end = at;
    if (code == 0)
        code = add_span(c, span, at - span, NULL);
    if (code < 0 || !claimed || n <= claimed + 1)
        return code;
    c->faults |= CONTAINER_LONGER;
    return correct_count(c, count_at, n - 1);
}

/* ---- which ------------------------------------------------------------------------------------------------------- */

typedef int scanner(struct container *c, struct bytes *b, uint64_t begin, uint64_t *end);

static scanner *scanner_at(struct bytes *b, uint64_t at) {
    struct frame f;
    if (family_at(b, at))
        return add_chunks;
    if (holds(b, at, ".snd") || holds(b, at, "dns."))
        return add_au;
    if (holds(b, at, "fLaC"))
        return add_flac;
    if (holds(b, at, "OggS"))
        return add_ogg;
    while (tag_size(b, at))
        at += tag_size(b, at);
    return frame_goes_on(b, at, &f) ? add_mpeg : NULL;
}

int container_read(struct container *ret, int fd, uint64_t size) {
    struct container c = {0};
    struct bytes *b = malloc(sizeof *b);
    int code = b ? 0 : -ENOMEM;
    if (b) {
        b->fd = fd;
        b->size = size;
        b->at = b->n = 0;
        b->error = 0;
    }
    scanner *first = code == 0 ? scanner_at(b, 0) : NULL;
    uint64_t end = 0;
    for (uint64_t at = 0; code == 0 && first && at < size && scanner_at(b, at) == first; at = end)
        code = first(&c, b, at, &end);
    if (code == 0 && !c.n_parts)
        code = add_whole(&c, 0, size);
    else if (code == 0 && end < size)
        c.faults |= CONTAINER_DAMAGED;
    if (code == 0 && b->error)
        code = -b->error;
    free(b);
    if (code < 0)
        container_done(&c);
    else
        *ret = c;
    return code;
}
