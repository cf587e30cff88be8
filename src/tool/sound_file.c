#include "tool/sound_file.h"

#include "base/text.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* ---- reading --------------------------------------------------------------------------------------------------- */

/* Why libsndfile cannot open an existing file. */
static const char *reason(int error) {
    switch (error) {
    case SF_ERR_UNRECOGNISED_FORMAT: return "is not a sound file in a format that libsndfile reads";
    case SF_ERR_UNSUPPORTED_ENCODING: return "uses an encoding that libsndfile does not read";
    default: return "is a damaged sound file, or has no header";
    }
}

int sound_file_open(SNDFILE **ret, SF_INFO *info, const char *path, struct err *err) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* libsndfile keeps one error for all threads */
    struct stat st;
    if (stat(path, &st) < 0)
        return err_set(err, -errno, "%s: %s", path, strerror(errno));
    if (S_ISDIR(st.st_mode))
        return err_set(err, -EISDIR, "%s: is a folder", path);
    if (S_ISREG(st.st_mode) && st.st_size == 0)
        return err_set(err, -EINVAL, "%s: is empty", path);
    *info = (SF_INFO){0};
    pthread_mutex_lock(&lock);
    errno = 0;
    *ret = sf_open(path, SFM_READ, info);
    const int error = *ret ? 0 : sf_error(NULL), system = errno;
    pthread_mutex_unlock(&lock);
    if (*ret)
        return 0;
    if (error == SF_ERR_SYSTEM && system)
        return err_set(err, -system, "%s: %s", path, strerror(system));
    return err_set(err, -EINVAL, "%s: %s", path, reason(error));
}

int sound_file_failed(SNDFILE *f, const char *path, const char *done, struct err *err) {
    static const char prefix[] = "System error : ";
    const char *text = sf_error(f) == SF_ERR_SYSTEM ? sf_strerror(f) : "the sound is damaged";
    if (text_begins(text, prefix))
        text += strlen(prefix);
    const size_t n = strlen(text);
    return err_set(err, -EIO, "%s: cannot be %s: %.*s", path, done, (int)(n && text[n - 1] == '.' ? n - 1 : n), text);
}

/* For raw samples libsndfile reports the length that it finds; only its log has the header's: "data : 960000 (should be
 * 319889)". A length that was unknown when the header was written has all bits set except the lowest, or except the
 * sign. */
static bool claims_more(SNDFILE *f) {
    enum { UNKNOWN = 0x7fff0000 };
    char log[16384];
    unsigned long long claimed, there;
    bool more = false;
    sf_command(f, SFC_GET_LOG_INFO, log, sizeof log);
    for (char *rest, *line = strtok_r(log, "\n", &rest); line; line = strtok_r(NULL, "\n", &rest))
        if (sscanf(line, "%*[^:]: %llu (should be %llu)", &claimed, &there) == 2 && claimed > there + 1) {
            if ((claimed & UNKNOWN) == UNKNOWN)
                return false;
            more = true;
        }
    return more;
}

bool sound_file_cut_short(SNDFILE *f, const SF_INFO *info, sf_count_t n) {
    return n < info->frames || sf_error(f) != SF_ERR_NO_ERROR || claims_more(f);
}

/* ---- writing --------------------------------------------------------------------------------------------------- */

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

/* Returns 0 if the container cannot hold that. */
static int format_in(int wanted, const SF_INFO *like) {
    int kept = like->format & SF_FORMAT_SUBMASK;
    if (kept >= SF_FORMAT_MPEG_LAYER_I && kept <= SF_FORMAT_MPEG_LAYER_III)
        kept = 0; /* libsndfile claims that WAV can hold it, but does not write it */
    const int subtypes[] = {kept, SF_FORMAT_PCM_16, SF_FORMAT_VORBIS, SF_FORMAT_MPEG_LAYER_III};
    for (unsigned s = 0; s < sizeof subtypes / sizeof *subtypes; s++) {
        SF_INFO try = {.samplerate = like->samplerate, .channels = like->channels, .format = wanted};
        if (!(wanted & SF_FORMAT_SUBMASK))
            try.format |= subtypes[s];
        if (sf_format_check(&try))
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

int sound_file_format(const char *path, const SF_INFO *like, struct err *err) {
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
