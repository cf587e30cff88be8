#include "tool/tags.h"

#include <FLAC/metadata.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- through libsndfile ---------------------------------------------------------------------------------------- */

enum { MOST_BYTES = 16 << 20 }; /* per chunk */

/* WAV and AIFF chunks that remain valid in the new file: ID3 (with pictures), broadcast and production notes, cues. */
static const char chunks[][5] = {"id3 ", "ID3 ", "bext", "iXML", "cue ", "MARK"};

static bool have_the_same(int a, int b) {
    const int wav[] = {SF_FORMAT_WAV, SF_FORMAT_WAVEX, SF_FORMAT_RF64};
    int n_wav = 0;
    for (int i = 0; i < 3; i++)
        n_wav += (a == wav[i]) + (b == wav[i]);
    return n_wav == 2 || (a == SF_FORMAT_AIFF && b == a);
}

static void copy_chunk(SNDFILE *in, SNDFILE *out, const char *id) {
    SF_CHUNK_INFO chunk = {.id_size = 4};
    memcpy(chunk.id, id, 4);
    SF_CHUNK_ITERATOR *at = sf_get_chunk_iterator(in, &chunk);
    if (!at || sf_get_chunk_size(at, &chunk) != SF_ERR_NO_ERROR || chunk.datalen > MOST_BYTES ||
        !(chunk.data = calloc(1, chunk.datalen + 1)))
        return;
    if (sf_get_chunk_data(at, &chunk) == SF_ERR_NO_ERROR)
        sf_set_chunk(out, &chunk);
    free(chunk.data);
}

void tags_copy(SNDFILE *in, SNDFILE *out) {
    static const int strings[] = {SF_STR_TITLE, SF_STR_COPYRIGHT, SF_STR_ARTIST,      SF_STR_COMMENT, SF_STR_DATE,
                                  SF_STR_ALBUM, SF_STR_LICENSE,   SF_STR_TRACKNUMBER, SF_STR_GENRE};
    for (size_t i = 0; i < sizeof strings / sizeof *strings; i++) {
        const char *text = sf_get_string(in, strings[i]);
        if (text)
            sf_set_string(out, strings[i], text);
    }
    SF_INFO from, to;
    sf_command(in, SFC_GET_CURRENT_SF_INFO, &from, sizeof from);
    sf_command(out, SFC_GET_CURRENT_SF_INFO, &to, sizeof to);
    if (have_the_same(from.format & SF_FORMAT_TYPEMASK, to.format & SF_FORMAT_TYPEMASK))
        for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++)
            copy_chunk(in, out, chunks[i]);
}

/* ---- FLAC: all metadata blocks except those about the encoded sound ---------------------------------------------- */

static bool is_tag(FLAC__MetadataType type) {
    return type == FLAC__METADATA_TYPE_VORBIS_COMMENT || type == FLAC__METADATA_TYPE_PICTURE ||
           type == FLAC__METADATA_TYPE_CUESHEET || type == FLAC__METADATA_TYPE_APPLICATION;
}

static bool replace_blocks(FLAC__Metadata_Chain *from, FLAC__Metadata_Chain *to) {
    FLAC__Metadata_Iterator *i = FLAC__metadata_iterator_new(), *j = FLAC__metadata_iterator_new();
    bool ok = i && j;
    if (ok) {
        FLAC__metadata_iterator_init(i, from);
        FLAC__metadata_iterator_init(j, to);
        while (FLAC__metadata_iterator_next(j))
            if (is_tag(FLAC__metadata_iterator_get_block_type(j)))
                ok = FLAC__metadata_iterator_delete_block(j, false) && ok;
        while (ok && FLAC__metadata_iterator_next(i)) {
            if (!is_tag(FLAC__metadata_iterator_get_block_type(i)))
                continue;
            FLAC__StreamMetadata *block = FLAC__metadata_object_clone(FLAC__metadata_iterator_get_block(i));
            ok = block && FLAC__metadata_iterator_insert_block_after(j, block);
            if (!ok && block)
                FLAC__metadata_object_delete(block);
        }
    }
    if (i)
        FLAC__metadata_iterator_delete(i);
    if (j)
        FLAC__metadata_iterator_delete(j);
    return ok;
}

/* File callbacks for libFLAC, so that it does not open files itself. */
struct file {
    int fd, error;
    off_t at;
};

static size_t flac_read(void *to, size_t size, size_t n, FLAC__IOHandle handle) {
    struct file *f = handle;
    size_t done = 0;
    for (ssize_t got; done < size * n; done += (size_t)got, f->at += got)
        if ((got = pread(f->fd, (char *)to + done, size * n - done, f->at)) <= 0) {
            f->error = got < 0 ? errno : f->error;
            break;
        }
    return size ? done / size : 0;
}

static size_t flac_write(const void *from, size_t size, size_t n, FLAC__IOHandle handle) {
    struct file *f = handle;
    size_t done = 0;
    for (ssize_t put; done < size * n; done += (size_t)put, f->at += put)
        if ((put = pwrite(f->fd, (const char *)from + done, size * n - done, f->at)) <= 0) {
            f->error = put < 0 ? errno : EIO;
            break;
        }
    return size ? done / size : 0;
}

static int flac_seek(FLAC__IOHandle handle, FLAC__int64 offset, int whence) {
    struct file *f = handle;
    struct stat st;
    const off_t from = whence == SEEK_SET ? 0 : whence == SEEK_CUR ? f->at : fstat(f->fd, &st) < 0 ? 0 : st.st_size;
    if (from + offset < 0)
        return -1;
    f->at = from + offset;
    return 0;
}

static FLAC__int64 flac_tell(FLAC__IOHandle handle) {
    return ((struct file *)handle)->at;
}

static int flac_ended(FLAC__IOHandle handle) {
    struct file *f = handle;
    struct stat st;
    return fstat(f->fd, &st) < 0 || f->at >= st.st_size;
}

static const FLAC__IOCallbacks flac_io = {flac_read, flac_write, flac_seek, flac_tell, flac_ended, NULL};

/* Writes to the same file if its padding has room, else to another that replaces it. */
static int write_blocks(FLAC__Metadata_Chain *to, struct sound_out *out, struct err *err) {
    struct file old = {.fd = out->replace.fd}, new = {.fd = -1};
    struct replace other = {0};
    bool ok;
    if (!FLAC__metadata_chain_check_if_tempfile_needed(to, true)) {
        ok = FLAC__metadata_chain_write_with_callbacks(to, true, &old, flac_io);
    } else {
        const int code = sound_out_again(out, &other, err);
        if (code < 0)
            return code;
        new.fd = other.fd;
        ok = FLAC__metadata_chain_write_with_callbacks_and_tempfile(to, true, &old, flac_io, &new, flac_io);
    }
    const int error = old.error ? old.error : new.error;
    if (!ok || error) {
        replace_drop(&other);
        return error ? err_set(err, -error, "%s: cannot be written: %s", out->name, strerror(error)) : -EIO;
    }
    if (other.name) {
        replace_drop(&out->replace);
        out->replace = other;
    }
    return 0;
}

static int complete_flac(const struct sound_in *in, struct sound_out *out, struct err *err) {
    struct file source = {.fd = in->bytes.fd}, own = {.fd = out->replace.fd};
    FLAC__Metadata_Chain *from = FLAC__metadata_chain_new(), *to = FLAC__metadata_chain_new();
    int code = 0;
    err_set(err, 0, "%s: its tags cannot be written to the enhanced file", in->name);
    if (!from || !to)
        code = err_set(err, -ENOMEM, "%s: out of memory", in->name);
    /* libsndfile may tolerate files that libFLAC rejects */
    else if (FLAC__metadata_chain_read_with_callbacks(from, &source, flac_io))
        code = FLAC__metadata_chain_read_with_callbacks(to, &own, flac_io) && replace_blocks(from, to)
                   ? write_blocks(to, out, err)
                   : -EIO;
    if (from)
        FLAC__metadata_chain_delete(from);
    if (to)
        FLAC__metadata_chain_delete(to);
    return code;
}

/* ---- MP3: the ID3v2 tag at the start, byte for byte ------------------------------------------------------------ */

/* Returns the size in bytes of the tag at the start of the file, with header and footer; 0 if there is none. */
static size_t id3_size(int fd) {
    unsigned char h[10];
    if (pread(fd, h, sizeof h, 0) != sizeof h || memcmp(h, "ID3", 3) != 0 || ((h[6] | h[7] | h[8] | h[9]) & 0x80))
        return 0;
    return ((size_t)h[6] << 21 | (size_t)h[7] << 14 | (size_t)h[8] << 7 | h[9]) + (h[5] & 0x10 ? 20 : 10);
}

/* Moves the sound behind a tag of another size, and copies the tag there. Returns 0 or -errno. */
static int replace_id3(int in, int out) {
    const size_t n = id3_size(in), n_own = id3_size(out);
    struct stat from, st;
    if (n == 0)
        return 0;
    if (fstat(in, &from) < 0 || (size_t)from.st_size < n)
        return 0; /* the file ends inside the tag */
    if (fstat(out, &st) < 0)
        return -errno;
    if ((size_t)st.st_size < n_own)
        return -EIO;
    const size_t size = (size_t)st.st_size - n_own + n, most = n > n_own ? size : (size_t)st.st_size;
    const int code = posix_fallocate(out, 0, (off_t)most); /* a full disk must not raise a signal */
    if (code != 0)
        return -code;
    char *data = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    if (data == MAP_FAILED)
        return -errno;
    memmove(data + n, data + n_own, size - n);
    const bool ok = pread(in, data, n, 0) == (ssize_t)n;
    munmap(data, most);
    return !ok ? -EIO : ftruncate(out, (off_t)size) < 0 ? -errno : 0;
}

static int complete_mp3(const struct sound_in *in, const struct sound_out *out, struct err *err) {
    const int code = replace_id3(in->bytes.fd, out->replace.fd);
    return code < 0
               ? err_set(err, code, "%s: its tags cannot be written to %s: %s", in->name, out->name, strerror(-code))
               : 0;
}

int tags_complete(const struct sound_in *in, struct sound_out *out, struct err *err) {
    switch (out->format & SF_FORMAT_TYPEMASK) {
    case SF_FORMAT_FLAC: return complete_flac(in, out, err);
    case SF_FORMAT_MPEG: return complete_mp3(in, out, err);
    default: return 0;
    }
}
