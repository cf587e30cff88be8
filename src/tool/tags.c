#include "tool/tags.h"

#include <FLAC/metadata.h>
#include <errno.h>
#include <fcntl.h>
#include <stdbool.h>
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

static int complete_flac(const char *in, const char *out, struct err *err) {
    FLAC__Metadata_Chain *from = FLAC__metadata_chain_new(), *to = FLAC__metadata_chain_new();
    int code = 0;
    if (!from || !to)
        code = err_set(err, -ENOMEM, "%s: out of memory", in);
    else if (FLAC__metadata_chain_read(from, in) && /* libsndfile may tolerate files that libFLAC rejects */
             !(FLAC__metadata_chain_read(to, out) && replace_blocks(from, to) &&
               FLAC__metadata_chain_write(to, true, true)))
        code = err_set(err, -EIO, "%s: its tags cannot be written to the enhanced file", in);
    if (from)
        FLAC__metadata_chain_delete(from);
    if (to)
        FLAC__metadata_chain_delete(to);
    return code;
}

/* ---- MP3: the ID3v2 tag at the start, byte for byte ------------------------------------------------------------ */

/* The size in bytes of the tag at the start of the file, with header and footer; 0 if there is none. */
static size_t id3_size(int fd) {
    unsigned char h[10];
    if (pread(fd, h, sizeof h, 0) != sizeof h || memcmp(h, "ID3", 3) != 0 || ((h[6] | h[7] | h[8] | h[9]) & 0x80))
        return 0;
    return ((size_t)h[6] << 21 | (size_t)h[7] << 14 | (size_t)h[8] << 7 | h[9]) + (h[5] & 0x10 ? 20 : 10);
}

/* Moves the sound behind a tag of another size, and copies the tag there. */
static bool replace_id3(int in, int out) {
    const size_t n = id3_size(in), n_own = id3_size(out);
    struct stat from, st;
    if (n == 0)
        return true;
    if (fstat(in, &from) < 0 || (size_t)from.st_size < n)
        return true; /* the file ends inside the tag */
    if (fstat(out, &st) < 0 || (size_t)st.st_size < n_own)
        return false;
    const size_t size = (size_t)st.st_size - n_own + n, most = n > n_own ? size : (size_t)st.st_size;
    if (posix_fallocate(out, 0, (off_t)most) != 0)
        return false;
    char *data = mmap(NULL, most, PROT_READ | PROT_WRITE, MAP_SHARED, out, 0);
    if (data == MAP_FAILED)
        return false;
    memmove(data + n, data + n_own, size - n);
    const bool ok = pread(in, data, n, 0) == (ssize_t)n;
    munmap(data, most);
    return ok && ftruncate(out, (off_t)size) == 0;
}

static int complete_mp3(const char *in, const char *out, struct err *err) {
    const int from = open(in, O_RDONLY | O_CLOEXEC), to = open(out, O_RDWR | O_CLOEXEC);
    const int code = from >= 0 && to >= 0 && replace_id3(from, to)
                         ? 0
                         : err_set(err, -EIO, "%s: its tags cannot be written to the enhanced file", in);
    if (from >= 0)
        close(from);
    if (to >= 0)
        close(to);
    return code;
}

int tags_complete(const char *in, const char *out, int container, struct err *err) {
    return container == SF_FORMAT_FLAC   ? complete_flac(in, out, err)
           : container == SF_FORMAT_MPEG ? complete_mp3(in, out, err)
                                         : 0;
}
