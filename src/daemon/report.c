#include "config.h"

#include "daemon/report.h"

#include "base/rttime.h"
#include "base/text.h"
#include "control/protocol.h"
#include "live/pump.h"
#include "net/bands.h"

#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static double memory_mib(void) {
    unsigned long all, resident = 0;
    FILE *f = fopen("/proc/self/statm", "re");
    if (f && fscanf(f, "%lu %lu", &all, &resident) != 2)
        resident = 0;
    if (f)
        fclose(f);
    return (double)resident * (double)sysconf(_SC_PAGESIZE) / (1 << 20);
}

/* A level rounded to tenths of a dB; null for digital silence, towards which a mean falls by 14 dB a second. */
static json_t *db(double amplitude) {
    static const double least = 1e-6; /* quieter than the noise of any microphone */
    return amplitude >= least ? json_real(round(200 * log10(amplitude)) / 10) : json_null();
}

/* A string from another program or a file's name, which may contain any bytes. */
static json_t *words(const char *text) {
    char clean[1024];
    text_copy(clean, sizeof clean, text);
    return json_string(clean);
}

static void add_recorder(void *data, const struct node_peer *peer) {
    json_array_append_new(data, words(peer->description));
}

static void add_brought_back(void *data, const struct node_peer *peer) {
    if (peer->brought_back)
        add_recorder(data, peer);
}

/* The list of recorders or players that `add` accepts. */
static json_t *users(const struct node *n, void (*add)(void *list, const struct node_peer *peer)) {
    json_t *list = json_array();
    node_recorders(n, add, list);
    return list;
}

static void add_microphone(void *data, const struct node_peer *peer) {
    json_array_append_new(data, json_pack("{s:o, s:o, s:b}", "name", words(peer->name), "description",
                                          words(peer->description), "in_use", peer->linked));
}

static json_t *microphones(const struct report *r) {
    json_t *list = json_array();
    node_microphones(r->nodes->all[0].node, add_microphone, list);
    return list;
}

json_t *report_microphones(const struct report *r) {
    return json_pack("{s:o, s:s}", "microphones", microphones(r), "chosen", r->now->settings.microphone);
}

/* An application may record several times, and from several sources. */
static void add_application(void *data, const struct node_application *a) {
    json_t *list = data, *entry, *found = NULL, *from, *source;
    json_t *name = words(a->name), *description = a->from ? words(a->from) : NULL;
    size_t i;
    json_array_foreach(list, i, entry)
        if (json_equal(json_object_get(entry, "name"), name))
            found = entry;
    if (!found) {
        found = json_pack("{s:O, s:s?, s:[], s:b}", "name", name, "choice", a->choice, "from", "enhanced", false);
        json_array_append_new(list, found);
    }
    from = json_object_get(found, "from");
    bool known = false;
    json_array_foreach(from, i, source)
        known |= json_equal(source, description);
    if (description && !known)
        json_array_append(from, description);
    if (a->enhanced)
        json_object_set_new(found, "enhanced", json_true());
    json_decref(description);
    json_decref(name);
}

static json_t *applications(const struct report *r) {
    json_t *list = json_array();
    node_applications(r->nodes->all[0].node, add_application, list);
    return list;
}

json_t *report_applications(const struct report *r) {
    return json_pack("{s:o}", "applications", applications(r));
}

/* ---- problems ---------------------------------------------------------------------------------------------------- */

/* Builds a refusal or a problem: "error" or "text" for people, and the fields for programs. */
static json_t *about(const struct err *err, const char *key, const char *fallback) {
    const struct err_about *a = &err->about;
    const char *code = a->code ? a->code : fallback;
    json_t *ret = json_pack("{s:o, s:s, s:s*, s:s*, s:s*}", key, words(err->text), "code", code, "why", a->why,
                            "setting", a->setting, "meant", a->meant);
    if (a->word[0])
        json_object_set_new(ret, "word", words(a->word));
    if (a->line)
        json_object_set_new(ret, "line", json_integer(a->line));
    if (a->setting && strcmp(code, CODE_BAD_VALUE) == 0)
        json_object_set_new(ret, "allowed", json_string(settings_allowed(settings_meant(a->setting))));
    return ret;
}

json_t *report_refusal(const struct err *err) {
    return about(err, "error", CODE_FAILED);
}

/* Appends why the settings file, or a profile in it, is not in force, if it is not. */
static void add_refused(json_t *list, const char *kind, const struct err *err, const struct settings *s) {
    if (!err->text[0])
        return;
    json_t *problem = about(err, "text", CODE_FAILED);
    json_object_set_new(problem, "kind", json_string(kind));
    json_object_set_new(problem, "file", words(s->saved[0] && text_begins(err->text, s->saved) ? s->saved : s->file));
    json_array_append_new(list, problem);
}

/* Appends a problem about what a setting lacks. Takes ownership of `more`, the parts of the sentence. */
static void __attribute__((format(printf, 5, 6)))
add_missing(json_t *list, int setting, const char *code, json_t *more, const char *format, ...) {
    char text[MISSING_BYTES];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    json_t *problem = json_pack("{s:o, s:s, s:s, s:s}", "text", words(text), "code", code, "kind", KIND_MISSING,
                                "setting", settings_name(setting));
    json_object_update(problem, more);
    json_decref(more);
    json_array_append_new(list, problem);
}

static void add_absent(json_t *list, int setting, const char *what, const char *name) {
    add_missing(list, setting, CODE_ABSENT, json_pack("{s:o}", "name", words(name)),
                "there is no %s\"%s\" now; it is used as soon as there is", what, name);
}

/* Appends why a node does not use its microphone, or its output. */
static void add_loop(json_t *list, int setting, const struct node *node) {
    struct node_status n;
    node_status(node, &n);
    const bool speaker = node_kind(node) == NODE_SPEAKER;
    const bool has_other = n.has_microphone && strcmp(n.refused, n.microphone) != 0;
    if (!n.refused[0])
        return;
    json_t *more = json_pack("{s:o, s:o, s:o*}", "name", words(n.refused), "node", words(node_title(node)), "instead",
                             has_other ? words(n.microphone) : NULL);
    if (speaker)
        add_missing(list, setting, CODE_LOOP, more, "the sound of %s comes back to %s, which %s%s", n.refused,
                    node_title(node), has_other ? "plays on " : "has no other output", has_other ? n.microphone : "");
    else
        add_missing(list, setting, CODE_LOOP, more, "%s carries the sound of %s itself, which %s%s instead", n.refused,
                    node_title(node), n.has_microphone ? "follows " : "has no microphone",
                    n.has_microphone ? n.microphone : "");
}

static void add_loops(json_t *list, int setting, const struct report *r, enum node_kind kind) {
    for (unsigned i = 0; i < r->nodes->n; i++)
        if (node_kind(r->nodes->all[i].node) == kind)
            add_loop(list, setting, r->nodes->all[i].node);
}

static bool wants_gpu(const struct settings *s, int setting) {
    return setting == SETTING_engine ? strcmp(s->engine, "cuda") == 0
           : setting == SETTING_gpu  ? strcmp(s->engine, "auto") == 0 && strcmp(s->gpu, "0") != 0
                                     : false;
}

/* Lists what a setting in force requests but is not available now, an object each. */
static void list_missing(const struct report *r, int setting, json_t *list) {
    const struct settings *s = &r->now->settings;
    const struct node *first = r->nodes->all[0].node;
    const struct ready_engine *e = r->engine;
    struct node_status n;
    char name[256];
    node_status(first, &n);
    if (wants_gpu(s, setting) && e->problem.text[0])
        add_missing(list, setting, e->problem.about.code ? e->problem.about.code : CODE_NO_GPU,
                    json_pack("{s:o, s:s*}", "instead", words(e->text), "why", e->problem.about.why),
                    "%s; %s runs instead", e->problem.text, e->text);
    switch (setting) {
    case SETTING_model:
        if (e->too_heavy[0])
            add_missing(list, setting, CODE_TOO_HEAVY,
                        json_pack("{s:o, s:o}", "name", words(e->too_heavy), "instead", words(e->model)),
                        "%s is too heavy for this machine now; %s runs instead", e->too_heavy, e->model);
        break;
    case SETTING_my_voice:
        if (s->my_voice && e->no_voice.text[0])
            add_missing(list, setting, e->no_voice.about.code, json_pack("{s:o}", "name", words(e->model)), "%s",
                        e->no_voice.text);
        break;
    case SETTING_microphone:
        if (strcmp(s->microphone, "default") != 0 && !node_knows(first, NODE_MIC, s->microphone))
            add_absent(list, setting, "", s->microphone);
        add_loops(list, setting, r, NODE_MIC);
        break;
    case SETTING_channel:
        if (n.lacks_channel)
            add_missing(list, setting, CODE_NO_CHANNEL,
                        json_pack("{s:o, s:s}", "name", words(n.microphone), "word", s->channel),
                        "%s has no channel %s; all its channels are mixed", n.microphone, s->channel);
        break;
    case SETTING_speaker:
        if (strcmp(s->speaker, "off") != 0 && strcmp(s->speaker, "default") != 0 &&
            !node_knows(first, NODE_SPEAKER, s->speaker))
            add_absent(list, setting, "output ", s->speaker);
        add_loops(list, setting, r, NODE_SPEAKER);
        break;
    case SETTING_echo_cancel:
        if (n.echo_problem[0])
            add_missing(list, setting, CODE_NO_ECHO_CANCEL, json_object(), "%s; the echo stays", n.echo_problem);
        break;
    case SETTING_transparent:
        if (n.lacks_filters)
            add_missing(list, setting, CODE_NO_FILTERS, json_object(),
                        "this session manager inserts no filters (WirePlumber 0.5 does); choose Enhanced Mic instead");
        break;
    case SETTING_more_microphones:
        for (unsigned i = 0; settings_more_microphone(s, i, name); i++)
            if (!node_knows(first, NODE_MORE_MIC, name))
                add_absent(list, setting, "", name);
        add_loops(list, setting, r, NODE_MORE_MIC);
        break;
    default: break;
    }
}

/* Joins the texts of a list with semicolons. */
static void join(const json_t *list, char ret[MISSING_BYTES]) {
    const json_t *problem;
    size_t i;
    ret[0] = '\0';
    json_array_foreach(list, i, problem)
        text_add(ret, MISSING_BYTES, "%s%s", i ? "; " : "", json_string_value(json_object_get(problem, "text")));
}

bool report_missing(const struct report *r, int setting, char ret[MISSING_BYTES]) {
    json_t *list = json_array();
    list_missing(r, setting, list);
    join(list, ret);
    json_decref(list);
    return ret[0];
}

static json_t *all_missing(const struct report *r) {
    char missing[MISSING_BYTES];
    json_t *all = json_object();
    for (int i = 0; i < N_SETTINGS; i++)
        if (report_missing(r, i, missing))
            json_object_set_new(all, settings_name(i), words(missing));
    return all;
}

static json_t *problems(const struct report *r) {
    const struct in_force *now = r->now;
    json_t *list = json_array();
    add_refused(list, KIND_FILE, &now->refused, &now->settings);
    add_refused(list, KIND_PROFILE, &now->profile_refused, &now->settings);
    for (int i = 0; i < N_SETTINGS; i++)
        list_missing(r, i, list);
    return list;
}

/* ---- settings ---------------------------------------------------------------------------------------------------- */

static json_t *value(const struct settings *s, int setting) {
    char text[1024];
    double number;
    if (settings_number(s, setting, &number))
        return number == trunc(number) ? json_integer((json_int_t)number) : json_real(number);
    settings_text(s, setting, text, sizeof text);
    return json_string(text);
}

/* Builds a setting's value and its origin. */
static json_t *one_setting(const struct report *r, int setting) {
    static const char *const origins[] = {[FROM_DEFAULT] = "default",
                                          [FROM_FILE] = "file",
                                          [FROM_SAVED] = "saved",
                                          [FROM_NO_FILE] = "none",
                                          [FROM_ITS_VALUES] = "values"};
    const struct settings *const s = &r->now->settings;
    int line;
    const enum origin from = settings_origin(s, setting, &line);
    return json_pack("{s:s, s:o, s:s, s:o, s:o, s:o}", "name", settings_name(setting), "value", value(s, setting),
                     "from", origins[from], "file", line ? words(from == FROM_FILE ? s->file : s->saved) : json_null(),
                     "line", line ? json_integer(line) : json_null(), "profile",
                     s->in_profile & 1u << setting ? words(s->profiles[r->now->profile].microphone) : json_null());
}

json_t *report_setting(const struct report *r, int setting) {
    char missing[MISSING_BYTES];
    bool of_engine = setting == SETTING_model || setting == SETTING_gpu;
    bool is_missing = report_missing(r, setting, missing) || (of_engine && report_missing(r, SETTING_engine, missing));
    json_t *answer = one_setting(r, setting);
    json_object_set_new(answer, "saved", words(r->now->settings.saved));
    json_object_set_new(answer, "bypass", json_boolean(r->now->bypass));
    json_object_set_new(answer, "missing", is_missing ? words(missing) : json_null());
    return answer;
}

json_t *report_settings(const struct report *r) {
    json_t *list = json_array();
    for (int i = 0; i < N_SETTINGS; i++)
        json_array_append_new(list, one_setting(r, i));
    return json_pack("{s:o, s:o}", "settings", list, "refused",
                     r->now->refused.text[0] ? words(r->now->refused.text) : json_null());
}

static json_t *all_settings(const struct settings *s) {
    json_t *all = json_pack("{s:o, s:o}", "file", words(s->file), "saved", words(s->saved));
    for (int i = 0; i < N_SETTINGS; i++)
        json_object_set_new(all, settings_name(i), value(s, i));
    return all;
}

/* ---- the status line --------------------------------------------------------------------------------------------- */

/* Writes what the first microphone's node does. */
static void add_first(const struct report *r, char *line, const struct node_status *s) {
    const bool bypass = r->now->bypass;
    if (!s->connected)
        text_add(line, REPORT_LINE_BYTES, "Waiting for PipeWire");
    else if (!s->has_microphone)
        text_add(line, REPORT_LINE_BYTES, "No microphone; %s",
                 s->n_consumers ? "applications record silence" : "nobody records");
    else if (!s->n_consumers)
        text_add(line, REPORT_LINE_BYTES, "Idle, nobody records; %s, %s", s->microphone, r->engine->text);
    else if (s->pump.engine_lost)
        text_add(line, REPORT_LINE_BYTES, "The engine failed; %s passes through unenhanced", s->microphone);
    else if (!s->passes)
        text_add(line, REPORT_LINE_BYTES, "Waiting for sound from %s", s->microphone);
    else {
        text_add(line, REPORT_LINE_BYTES, "%s %s with %s", bypass ? "Bypassed:" : "Enhancing", s->microphone,
                 r->engine->text);
        if (!bypass && r->now->settings.strength < 1)
            text_add(line, REPORT_LINE_BYTES, ", strength %.4g", r->now->settings.strength);
        text_add(line, REPORT_LINE_BYTES, ", delay %.1f ms", s->pump.delay * 1e3 / PUMP_RATE);
        if (s->pump.late_hops)
            text_add(line, REPORT_LINE_BYTES, ", %llu late hops", (unsigned long long)s->pump.late_hops);
    }
}

void report_line(const struct report *r, char ret[REPORT_LINE_BYTES]) {
    struct node_status s;
    node_status(r->nodes->all[0].node, &s);
    ret[0] = '\0';
    add_first(r, ret, &s);
    for (unsigned i = 1; i < r->nodes->n; i++) {
        const struct node *n = r->nodes->all[i].node;
        node_status(n, &s);
        text_add(ret, REPORT_LINE_BYTES, "; %s: %s", node_title(n), nodes_state(n, r->now->bypass));
        if (s.n_consumers)
            text_add(ret, REPORT_LINE_BYTES, ", delay %.1f ms", s.pump.delay * 1e3 / PUMP_RATE);
    }
    if (r->engine->problem.text[0] && strcmp(r->now->settings.engine, "auto") != 0)
        text_add(ret, REPORT_LINE_BYTES, "; %s", r->engine->problem.text);
    if (r->engine->too_heavy[0])
        text_add(ret, REPORT_LINE_BYTES, "; %s is too heavy for this machine now", r->engine->too_heavy);
    if (r->now->refused.text[0])
        text_add(ret, REPORT_LINE_BYTES, "; in force instead of the file: %s, because %s", r->now->instead,
                 r->now->refused.text);
}

/* ---- the sound --------------------------------------------------------------------------------------------------- */

/* Adds what is known only while somebody records. */
static void add_sound(json_t *status, const struct pump_stats *p, const struct pump *pump, bool bypass) {
    float reduction, noise;
    json_object_set_new(status, "level_in_db", db(p->in_rms));
    json_object_set_new(status, "level_out_db", db(p->out_rms));
    json_object_set_new(status, "clips", json_boolean(p->clips));
    const bool known = !bypass && pump_reduction(pump, &reduction, &noise);
    json_object_set_new(status, "noise_in_db", known ? db((double)noise) : json_null());
    json_object_set_new(status, "noise_reduction_db",
                        known ? json_real(round((double)reduction * 10) / 10) : json_null());
    const bool heard = isfinite(p->speech);
    json_object_set_new(status, "voice", heard ? json_real(round((double)p->speech * 100) / 100) : json_null());
    json_object_set_new(status, "voice_active", heard ? json_boolean(p->speaks) : json_null());
}

static void add_bands(json_t *status, const struct pump *pump) {
    float x[2][BANDS_SAMPLES], db[BANDS];
    pump_listen(pump, x[0], x[1], BANDS_SAMPLES);
    for (int i = 0; i < 2; i++) {
        json_t *list = json_array();
        if (bands_levels(x[i], db) == 0)
            for (int band = 0; band < BANDS; band++)
                json_array_append_new(list, json_integer(lroundf(db[band])));
        json_object_set_new(status, i ? "bands_out_db" : "bands_in_db", list);
    }
}

static void add_hops(json_t *status, const struct node_status *n) {
    const struct pump_stats *p = &n->pump;
    json_object_set_new(status, "delay_ms", json_real(round(p->delay * 1e5 / PUMP_RATE) / 100));
    json_object_set_new(status, "quantum", json_integer(p->quantum));
    json_object_set_new(status, "waits", json_boolean(p->waits));
    json_object_set_new(status, "hops", json_integer((json_int_t)p->due_hops));
    json_object_set_new(status, "late_hops", json_integer((json_int_t)p->late_hops));
    json_object_set_new(status, "graph_rate", json_integer(n->rate));
    json_object_set_new(status, "stalls", json_integer(n->n_stalls));
}

static json_t *device(const struct node_status *n) {
    return n->has_microphone
               ? json_pack("{s:o, s:o}", "name", words(n->microphone_name), "description", words(n->microphone))
               : json_null();
}

static json_t *silenced(const struct node_status *n) {
    return n->silenced.id == UINT32_MAX
               ? json_null()
               : json_pack("{s:I, s:o, s:b}", "id", (json_int_t)n->silenced.id, "description",
                           words(n->silenced.description), "turned_down", n->silenced.turned_down);
}

/* PipeWire passes on the errors of rtkit and the kernel. */
static const char *refusal(const struct pump_stats *p) {
    switch (-p->refusal) {
    case 0: return "it has not been granted yet";
    case ENOTSUP: return "the limits do not allow it, and rtkit cannot be asked";
    case ENOENT: return "the limits do not allow it, and rtkit is not installed";
    case EACCES: return "the limits do not allow it, and rtkit denies it";
    case EPERM: return "the limits do not allow it";
    default: return strerror(-p->refusal);
    }
}

void report_no_realtime(const struct pump_stats *p, char ret[REPORT_LINE_BYTES]) {
    const int limit_ms = rttime_short_limit();
    if (limit_ms >= 0)
        snprintf(ret, REPORT_LINE_BYTES, "RLIMIT_RTTIME is %d ms, so the kernel would end the daemon", limit_ms);
    else
        snprintf(ret, REPORT_LINE_BYTES, "%s", refusal(p));
}

/* A node other than the first microphone's. */
static json_t *one_stream(struct node *node, bool bypass) {
    struct node_status n;
    node_status(node, &n);
    bool speaker = node_kind(node) == NODE_SPEAKER;
    json_t *stream = json_pack("{s:s, s:o, s:o, s:s, s:o, s:o}", "kind", speaker ? "speaker" : "microphone", "name",
                               words(node_name(node)), "title", words(node_title(node)), "state",
                               nodes_state(node, bypass), speaker ? "players" : "recorders", users(node, add_recorder),
                               speaker ? "output" : "microphone", device(&n));
    json_object_set_new(stream, "brought_back", users(node, add_brought_back));
    json_object_set_new(stream, "loop", n.refused[0] ? words(n.refused) : json_null());
    if (n.n_consumers)
        add_sound(stream, &n.pump, node_pump(node), bypass);
    add_hops(stream, &n);
    return stream;
}

json_t *report_status(const struct report *r, bool bands) {
    struct node *first = r->nodes->all[0].node;
    struct node_status n;
    const struct pump_stats *p = &n.pump;
    char refused[REPORT_LINE_BYTES];
    node_status(first, &n);

    json_t *more = json_array();
    for (unsigned i = 1; i < r->nodes->n; i++)
        json_array_append_new(more, one_stream(r->nodes->all[i].node, r->now->bypass));
    json_t *status = json_pack(
        "{s:i, s:s, s:s, s:o, s:b, s:o, s:o, s:b, s:o, s:o, s:o, s:o}", "protocol", CONTROL_PROTOCOL, "version",
        PACKAGE_VERSION, "state", nodes_state(first, r->now->bypass), "recorders", users(first, add_recorder), "bypass",
        r->now->bypass, "model", words(r->engine->model), "engine", words(r->engine->engine_name), "swapping",
        r->now->loading || p->swapping || r->engine->provisional, "settings", all_settings(&r->now->settings),
        "missing", all_missing(r), "problems", problems(r), "streams", more);
    if (!status)
        return NULL;
    json_object_set_new(status, "microphones", microphones(r));
    json_object_set_new(status, "applications", applications(r));
    json_object_set_new(status, "brought_back", users(first, add_brought_back));
    json_object_set_new(status, "microphone", device(&n));
    json_object_set_new(status, "silenced", silenced(&n));
    json_object_set_new(status, "default", json_boolean(n.is_default));
    json_object_set_new(status, "measuring", json_boolean(r->engine->unmeasured));
    json_object_set_new(status, "loop", n.refused[0] ? words(n.refused) : json_null());
    json_object_set_new(status, "profile",
                        r->now->profile < 0 ? json_null()
                                            : words(r->now->settings.profiles[r->now->profile].microphone));
    json_object_set_new(status, "profile_refused",
                        r->now->profile_refused.text[0] ? words(r->now->profile_refused.text) : json_null());
    if (n.n_consumers)
        add_sound(status, p, node_pump(first), r->now->bypass);
    if (n.n_consumers && bands)
        add_bands(status, node_pump(first));
    add_hops(status, &n);
    json_object_set_new(status, "hop_us", json_integer(lround(p->hop * 1e6 / PUMP_RATE)));
#define ROW(name, percent) \
    json_object_set_new(status, "hop_" #name "_us", \
                        p->hop_p50_us ? json_integer(p->hop_##name##_us) \
                                      : json_null()); /* no hop of this engine yet */
    TIMES_STATISTICS(ROW)
#undef ROW
    json_object_set_new(status, "realtime", json_boolean(p->realtime));
    json_object_set_new(status, "memory_locked", json_string(p->locked));
    report_no_realtime(p, refused);
    json_object_set_new(status, "realtime_refusal", p->realtime ? json_null() : json_string(refused));
    json_object_set_new(status, "realtime_limit_ms",
                        rttime_short_limit() < 0 ? json_null() : json_integer(rttime_short_limit()));
    json_object_set_new(status, "memory_mib", json_real(round(memory_mib() * 10) / 10));
    json_object_set_new(status, "refused", r->now->refused.text[0] ? words(r->now->refused.text) : json_null());
    json_object_set_new(status, "instead", r->now->refused.text[0] ? json_string(r->now->instead) : json_null());
    json_object_set_new(status, "gpu_unused",
                        r->engine->problem.text[0] ? about(&r->engine->problem, "text", CODE_NO_GPU) : json_null());
    json_object_set_new(status, "problem", r->engine->problem.text[0] ? words(r->engine->problem.text) : json_null());
    return status;
}
