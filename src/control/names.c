#include "control/names.h"

#include "control/protocol.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static const struct {
    const char *name, *allowed;
} rows[N_SETTINGS] = {
#define ROW(name, allowed) {#name, allowed},
#include "control/settings.def"
};

const char *settings_name(int setting) {
    return rows[setting].name;
}

const char *settings_allowed(int setting) {
    return rows[setting].allowed;
}

/* Whether a word of a command is the name, or the name without its unit. */
static bool means(const char *word, const char *name) {
    for (; *word; word++, name++)
        if (*name != (*word == '-' ? '_' : *word))
            return false;
    return strcmp(name, "") == 0 || strcmp(name, "_db") == 0 || strcmp(name, "_hz") == 0 || strcmp(name, "_s") == 0;
}

int settings_meant(const char *word) {
    for (int i = 0; i < N_SETTINGS; i++)
        if (means(word, rows[i].name))
            return i;
    return -1;
}

#define N_(text) text

static const struct {
    const char *word, *sentence;
    int model, gpu; /* the codes with which a model or a GPU fails for this reason, or 0 */
} words[] = {
    {WHY_NO_MODEL, N_("There is no model \"%s\"."), -ENOENT, 0},
    {WHY_BAD_MODEL, N_("The file of the model \"%s\" is damaged, or this version cannot read it."), -EINVAL, 0},
    {WHY_NOT_LIVE, N_("The model \"%s\" is for files only."), 0, 0},
    {WHY_NO_MODULE, N_("The package primeknet-cuda, which runs models on a GPU, is not installed."), 0, -ENOENT},
    {WHY_BAD_MODULE, N_("The package primeknet-cuda cannot be used, or belongs to another version."), 0, -ENOEXEC},
    {WHY_NO_DEVICE, N_("There is no such NVIDIA GPU, or its driver does not work."), 0, -ENODEV},
    {WHY_NO_MEMORY, N_("The GPU's memory is full."), 0, -ENOMEM},
    {WHY_NO_CODE, N_("This GPU cannot run the model."), 0, -ENOTSUP},
    {CODE_ON_BATTERY, N_("The GPU is not used on battery power."), 0, 0},
    {CODE_GPU_ASLEEP, N_("The GPU is asleep and is not woken."), 0, 0},
    {CODE_GPU_BUSY, N_("Another program keeps the GPU busy."), 0, 0},
    {CODE_GPU_FAILED, N_("The GPU failed. It is used again once no application records."), 0, 0},
    {CODE_NO_ECHO_CANCEL, N_("PipeWire's echo canceller cannot be loaded, so the echo stays."), 0, 0},
    {CODE_NO_FILTERS, N_("Enhanced Mic stands in for the microphone only with WirePlumber 0.5."), 0, 0},
    {CODE_NOT_LEARNED, N_("No voice has been learned."), 0, 0},
    {CODE_BAD_VOICE, N_("What was learned of your voice cannot be used. Learn it again."), 0, 0},
    {CODE_NO_VOICES, N_("This model cannot tell voices apart."), 0, 0},
    {CODE_FAR_VOICES, N_("Other voices stay while Enhanced Speaker is on, which must not lose them."), 0, 0},
    {CODE_NO_MICROPHONE, N_("There is no microphone."), 0, 0},
    {CODE_TIMEOUT, N_("The model takes too long to load, so nothing was changed."), 0, 0},
    {CODE_BUSY, N_("There are too many requests. Try again."), 0, 0},
    {CODE_DUPLICATE, N_("An earlier line already contains this setting."), 0, 0},
    {CODE_BAD_PROFILE,
     N_("The profiles are a list, ( { microphone = NAME; ... }, ... ). Each has one microphone, by "
        "its name, and may have strength, floor_db, low_cut_hz and model."),
     0, 0},
    {CODE_TOO_MANY_PROFILES, N_("There are too many profiles."), 0, 0},
    {CODE_BAD_SYNTAX,
     N_("A setting has the form NAME = VALUE, with words and percentages in \"quotation "
        "marks\"."),
     0, 0},
    {CODE_UNENDED, N_("A comment or a quoted text is not closed."), 0, 0},
    {CODE_BAD_ENCODING, N_("This is not plain UTF-8 text."), 0, 0},
};
enum { N_WORDS = sizeof words / sizeof *words };

const char *why_model(int code) {
    for (unsigned i = 0; i < N_WORDS; i++)
        if (words[i].model && words[i].model == code)
            return words[i].word;
    return NULL;
}

const char *why_gpu(int code) {
    for (unsigned i = 0; i < N_WORDS; i++)
        if (words[i].gpu && words[i].gpu == code)
            return words[i].word;
    return NULL;
}

const char *sentence_for(const char *word) {
    for (unsigned i = 0; i < N_WORDS; i++)
        if (strcmp(words[i].word, word) == 0)
            return words[i].sentence;
    return NULL;
}
