#include "config.h"

#include "window/problem.h"

#include "control/client.h"
#include "control/names.h"

#include <glib/gi18n.h>
#include <string.h>

static gboolean is(const json_t *problem, const char *code) {
    return strcmp(text_of(problem, "code"), code) == 0;
}

/* Returns the daemon's message, in English. */
static const char *line_of(const json_t *problem) {
    const char *text = text_of(problem, "text");
    return text[0] ? text : text_of(problem, "error");
}

/* ---- the settings file ------------------------------------------------------------------------------------------- */

/* Returns the message without its file and line. */
static const char *detail_of(const json_t *problem) {
    const char *text = line_of(problem), *setting = text_of(problem, "setting");
    g_autofree char *before = g_strconcat(setting, ": ", NULL);
    const char *at = setting[0] ? strstr(text, before) : NULL;
    return at ? at + strlen(before) : text;
}

/* Returns the sentence for a word, or NULL if there is none. */
static char *tell_word(const json_t *p, const char *word) {
    const char *sentence = sentence_for(word);
    return sentence ? g_strdup_printf(_(sentence), text_of(p, "word")) : NULL;
}

/* Returns NULL for an unknown code. */
static char *tell_file(const json_t *p) {
    const char *setting = text_of(p, "setting"), *allowed = text_of(p, "allowed");
    const char *word = text_of(p, "word"), *meant = text_of(p, "meant");
    if (is(p, CODE_UNKNOWN_SETTING))
        return meant[0] ? g_strdup_printf(_("There is no setting \"%s\"; did you mean %s?"), word, meant)
                        : g_strdup_printf(_("There is no setting \"%s\"."), word);
    if (is(p, CODE_BAD_VALUE) && allowed[0])
        return g_strdup_printf(_("%s must be %s."), setting, _(allowed));
    char *const why = tell_word(p, text_of(p, "why"));
    if (why)
        return why;
    if (is(p, CODE_UNUSABLE))
        return g_strdup_printf(_("%s cannot be used: %s"), setting, detail_of(p));
    if (is(p, CODE_UNREADABLE))
        return g_strdup_printf(_("It cannot be read: %s"), detail_of(p));
    if (is(p, CODE_NOT_SAVED))
        return g_strdup_printf(_("This is in force now, but could not be saved: %s"), line_of(p));
    return tell_word(p, text_of(p, "code"));
}

/* ---- what a setting does not have -------------------------------------------------------------------------------- */

static char *tell_loop(const json_t *p) {
    const char *name = text_of(p, "name"), *node = text_of(p, "node"), *instead = text_of(p, "instead");
    if (strcmp(text_of(p, "setting"), "speaker") == 0)
        return instead[0]
                   ? g_strdup_printf(_("The sound of %s comes back to %s, which plays on %s."), name, node, instead)
                   : g_strdup_printf(_("The sound of %s comes back to %s, which has no other output."), name, node);
    return instead[0]
               ? g_strdup_printf(_("%s carries the sound of %s itself, which uses %s instead."), name, node, instead)
               : g_strdup_printf(_("%s carries the sound of %s itself, which has no other microphone."), name, node);
}

static char *tell_missing(const json_t *p) {
    const char *name = text_of(p, "name");
    if (is(p, CODE_LOOP))
        return tell_loop(p);
    if (is(p, CODE_ABSENT))
        return g_strdup_printf(_("%s is missing. It is used again as soon as it is there."), name);
    if (is(p, CODE_NO_CHANNEL))
        return g_strdup_printf(_("%s has no channel %s; all its channels are mixed."), name, text_of(p, "word"));
    if (is(p, CODE_TOO_HEAVY))
        return g_strdup_printf(_("%s is too heavy for this computer now; %s runs instead."), name,
                               text_of(p, "instead"));
    return NULL;
}

/* ---- any of them ------------------------------------------------------------------------------------------------- */

char *problem_tell(const json_t *problem) {
    const int line = (int)number_of(problem, "line");
    char *sentence = tell_file(problem);
    if (!sentence)
        sentence = tell_missing(problem);
    if (!sentence)
        return g_strdup(line_of(problem));
    if (line == 0)
        return sentence;
    g_autofree char *alone = sentence;
    return g_strdup_printf(_("Line %d: %s"), line, alone);
}

char *problem_tell_all(const json_t *status, const char *kind, const char *setting) {
    g_autoptr(GString) all = g_string_new(NULL);
    const json_t *problem;
    size_t i;
    json_array_foreach(json_object_get(status, "problems"), i, problem) {
        if (strcmp(text_of(problem, "kind"), kind) != 0 ||
            (setting && strcmp(text_of(problem, "setting"), setting) != 0))
            continue;
        g_autofree char *sentence = problem_tell(problem);
        g_string_append_printf(all, all->len ? " %s" : "%s", sentence);
    }
    return all->len ? g_strdup(all->str) : NULL;
}
