/* primeknet doctor: finds what prevents Enhanced Mic from working, one line per check, and advises what to do. */
#include "config.h"

#include "tool/cli.h"

#include "base/text.h"
#include "control/client.h"
#include "graph/microphone.h"
#include "graph/names.h"
#include "tool/autostart.h"
#include "tool/doctor.h"
#include "tool/portal.h"

#include <errno.h>
#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define UNIT "primeknet.service"

static const char *const words[] = {"ok", "note", "problem"};

/* Returns the spaces that a title of one line needs after it. */
static int room_after(const char *title) {
    int room = 16;
    for (; *title; title++)
        room -= (*title & 0xC0) != 0x80; /* the first byte of a character */
    return room > 0 ? room : 0;
}

void tell(struct doctor *d, enum result result, const char *check, const char *advice, const char *format, ...) {
    va_list args;
    va_start(args, format);
    json_t *text = json_vsprintf(_(format), args);
    va_end(args);
    advice = advice ? _(advice) : NULL;
    const char *open = advice ? strchr(advice, '{') : NULL, *end = open ? strrchr(open, '}') : NULL;
    json_t *plain = json_null(), *command = json_null();
    if (end) {
        int n = (int)(end - open - 1);
        plain = json_sprintf("%.*s%.*s%s", (int)(open - advice), advice, n, open + 1, end + 1);
        command = json_sprintf("%.*s", n, open + 1);
    } else if (advice) {
        plain = json_string(advice);
    }
    json_t *line = json_pack("{s:s, s:s, s:s, s:o*, s:o*, s:o*}", "check", check, "title", _(check), "result",
                             words[result], "text", text ? text : json_string("?"), "advice", plain, "command",
                             command);
    if (!d->as_json)
        printf("%-8s %s%*s %s\n", words[result], _(check), room_after(_(check)), "", text_of(line, "text"));
    json_array_append_new(d->checks, line);
}

const char *translated(const char *word) {
    const char *sentence = word ? sentence_for(word) : NULL, *own = sentence ? _(sentence) : NULL;
    return own == sentence ? NULL : own;
}

const char *lacking(const struct doctor *d, const char *setting, char ret[512]) {
    static const char heavy[] = "%s is too heavy for this computer now; %s runs instead.";
    const json_t *problem;
    size_t i;
    json_array_foreach(json_object_get(d->status, "problems"), i, problem) {
        const char *code = text_of(problem, "code"), *own = translated(code);
        if (strcmp(text_of(problem, "kind"), KIND_MISSING) != 0 || strcmp(text_of(problem, "setting"), setting) != 0)
            continue;
        if (strcmp(code, CODE_TOO_HEAVY) == 0 && _(heavy) != heavy)
            snprintf(ret, 512, _(heavy), text_of(problem, "name"), text_of(problem, "instead"));
        else
            snprintf(ret, 512, "%s", own ? own : text_of(problem, "text"));
        return ret;
    }
    return "";
}

const char *either(const struct doctor *d, const char *with_systemd, const char *without) {
    return d->systemd ? with_systemd : without;
}

const char *restart(const struct doctor *d) {
    return either(d, "{systemctl --user restart primeknet}", "{primeknet setup}");
}

/* ---- the sound server -------------------------------------------------------------------------------------------- */

/* Returns the program that listens on PulseAudio's socket; "" if there is none, "systemd" if systemd starts one on
 * demand. */
static void find_pulse_server(char ret[64]) {
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const char *place = getenv("PULSE_RUNTIME_PATH"), *runtime = getenv("XDG_RUNTIME_DIR");
    char comm[64];
    struct ucred peer;
    socklen_t size = sizeof peer;
    int n = place     ? snprintf(address.sun_path, sizeof address.sun_path, "%s/native", place)
            : runtime ? snprintf(address.sun_path, sizeof address.sun_path, "%s/pulse/native", runtime)
                      : -1;
    ret[0] = '\0';
    if (n < 0 || (size_t)n >= sizeof address.sun_path)
        return;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
        getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
        snprintf(comm, sizeof comm, "/proc/%ld/comm", (long)peer.pid);
        FILE *f = fopen(comm, "re");
        if (!f || !fgets(ret, 64, f))
            strcpy(ret, "?");
        ret[strcspn(ret, "\n")] = '\0';
        if (f)
            fclose(f);
    }
    if (fd >= 0)
        close(fd);
}

static bool unit_is_active(struct doctor *d, const char *name) {
    struct systemd_unit unit;
    return d->systemd && systemd_unit(d->systemd, &unit, name, NULL) == 0 && strcmp(unit.active, "active") == 0;
}

/* With socket activation, systemd listens instead of PulseAudio. */
static bool pulseaudio_has_the_socket(struct doctor *d, const char *server) {
    return strcmp(server, "pulseaudio") == 0 ||
           (strcmp(server, "systemd") == 0 && unit_is_active(d, "pulseaudio.socket"));
}

static void check_sound_server(struct doctor *d) {
    const char *instead = either(
        d,
        "use PipeWire instead of PulseAudio (Debian: sudo apt install pipewire-audio), then: systemctl --user --now "
        "disable pulseaudio.socket pulseaudio.service; systemctl --user --now enable pipewire pipewire-pulse "
        "wireplumber",
        "use PipeWire instead of PulseAudio: have your session start pipewire, wireplumber and pipewire-pulse, and not "
        "pulseaudio; for now: pulseaudio --kill; pipewire & wireplumber & pipewire-pulse &");
    char server[64];
    struct err err = {0};
    int res = survey_open(&d->survey, &err);
    find_pulse_server(server);
    bool pulseaudio = pulseaudio_has_the_socket(d, server);
    if (res == -EHOSTDOWN && pulseaudio)
        tell(d, PROBLEM, "PipeWire", instead, "does not run; PulseAudio does, which PrimeKnet cannot use");
    else if (res == -EHOSTDOWN)
        tell(d, PROBLEM, "PipeWire",
             either(d,
                    "start PipeWire: {systemctl --user --now enable pipewire pipewire-pulse wireplumber} (Debian: "
                    "sudo apt install pipewire-audio first)",
                    "have your session start pipewire, wireplumber and pipewire-pulse; for now: pipewire & "
                    "wireplumber & pipewire-pulse &"),
             "does not run, or not for this user");
    else if (res)
        tell(d, PROBLEM, "PipeWire",
             either(d, "restart PipeWire: {systemctl --user restart pipewire}",
                    "end the process pipewire and start it "
                    "again"),
             "%s", res == -ETIMEDOUT ? _("PipeWire does not answer") : err.text);
    if (res)
        return;
    tell(d, FINE, "PipeWire", NULL, "%s runs", d->survey->version);
    if (pulseaudio)
        tell(d, PROBLEM, "applications", instead,
             "they use PulseAudio instead of PipeWire, so they do not see Enhanced Mic");
    else if (!server[0])
        tell(d, PROBLEM, "applications",
             either(d, "{systemctl --user --now enable pipewire-pulse} (Debian: sudo apt install pipewire-pulse first)",
                    "have your session start pipewire-pulse; for now: pipewire-pulse &"),
             "nothing serves PulseAudio's clients, such as browsers and most call programs");
    else
        tell(d, FINE, "applications", NULL, "PipeWire serves PulseAudio's clients");
    if (d->survey->has_session_manager)
        tell(d, FINE, "session manager", NULL, "it runs");
    else
        tell(d, PROBLEM, "session manager",
             either(d,
                    "start one: {systemctl --user --now enable wireplumber} (Debian: sudo apt install wireplumber "
                    "first)",
                    "have your session start one; for now: wireplumber &"),
             "none runs, so no application is connected to a microphone");
}

/* ---- the service ------------------------------------------------------------------------------------------------- */

/* The running daemon's settings may differ from the file's. */
static void use_running_settings(struct doctor *d) {
    static const int used[] = {SETTING_microphone, SETTING_engine, SETTING_gpu, SETTING_model};
    const json_t *running = json_object_get(d->status, "settings");
    for (unsigned i = 0; i < sizeof used / sizeof *used; i++) {
        const json_t *value = json_object_get(running, settings_name(used[i]));
        char number[32];
        snprintf(number, sizeof number, "%" JSON_INTEGER_FORMAT, json_integer_value(value));
        settings_set(&d->settings, used[i], json_is_integer(value) ? number : text_of(running, settings_name(used[i])),
                     NULL);
    }
    snprintf(d->settings.file, sizeof d->settings.file, "%s", text_of(running, "file"));
    snprintf(d->settings.saved, sizeof d->settings.saved, "%s", text_of(running, "saved"));
}

/* Reports lines of the user's file without effect: people edit it without checking the saved values. */
static void tell_hidden(struct doctor *d, const struct settings *read) {
    for (unsigned i = 0; i < read->n_hidden; i++) {
        const struct hidden *const h = &read->hidden[i];
        const char *const name = h->setting < 0 ? _("this profile") : settings_name(h->setting);
        char advice[128];
        snprintf(advice, sizeof advice, _("{primeknet unset %s}, or delete the line"), name);
        tell(d, NOTE, "settings", h->setting < 0 ? "delete it there, or in the other file" : advice,
             "%s:%d: %s has no effect, because %s:%d overrides it", read->file, h->line, name, read->saved,
             h->saved_line);
    }
}

/* Returns the fault in the user's language, after its place; the English line if there are no words for it. */
static const char *translate_fault(const struct err *err, char ret[640]) {
    const struct err_about *a = &err->about;
    const char *code = a->code ? a->code : "", *first = a->word, *second = a->meant;
    const char *sentence = sentence_for(a->why ? a->why : code);
    char line[16];
    snprintf(line, sizeof line, ":%d: ", a->line);
    const char *place = a->line ? strstr(err->text, line) : NULL;
    if (strcmp(code, CODE_BAD_VALUE) == 0 && a->setting) {
        sentence = "%s must be %s.";
        first = a->setting;
        second = _(settings_allowed(settings_meant(a->setting)));
    } else if (strcmp(code, CODE_UNKNOWN_SETTING) == 0) {
        sentence = a->meant && a->meant[0] ? "There is no setting \"%s\"; did you mean %s?"
                                           : "There is no setting \"%s\".";
    }
    const char *own = sentence ? _(sentence) : NULL;
    if (own == sentence || !place)
        return err->text;
    const int n = snprintf(ret, 640, "%.*s", (int)(place + strlen(line) - err->text), err->text);
    snprintf(ret + n, 640 - (size_t)n, own, first, second);
    return ret;
}

/* Returns the daemon's reason why its file is not in force. */
static struct err daemons_fault(const struct doctor *d) {
    struct err err = {0};
    const json_t *problem;
    size_t i;
    err_set(&err, 0, "%s", text_of(d->status, "refused"));
    json_array_foreach(json_object_get(d->status, "problems"), i, problem)
        if (strcmp(text_of(problem, "kind"), KIND_FILE) == 0) {
            err.about = (struct err_about){.code = text_of(problem, "code"),
                                           .why = json_string_value(json_object_get(problem, "why")),
                                           .setting = text_of(problem, "setting"),
                                           .meant = text_of(problem, "meant"),
                                           .line = (int)number_of(problem, "line")};
            snprintf(err.about.word, sizeof err.about.word, "%.40s", text_of(problem, "word"));
        }
    return err;
}

static void check_settings(struct doctor *d) {
    static const char *const others[] = {"those from before", "the last good ones", "the defaults"};
    char line[640];
    char files[sizeof d->settings.file + sizeof d->settings.saved];
    struct err err;
    const char *instead = text_of(d->status, "instead");
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strcmp(instead, others[i]) == 0)
            instead = _(others[i]);
    int res = settings_load(&d->settings, NULL, &err);
    if (res)
        settings_parse(&d->settings, "", 0, "", &(struct err){0});
    const struct settings read = d->settings;
    if (d->status)
        use_running_settings(d);
    if (res) {
        tell(d, PROBLEM, "settings",
             either(d, "correct that line (see primeknet.conf(5)), then: {systemctl --user reload primeknet}",
                    "correct that line (see primeknet.conf(5)), then: {primeknet setup}"),
             "%s%s%s", translate_fault(&err, line), instead[0] ? _("; in force: ") : "", instead);
    } else if (instead[0]) {
        const struct err fault = daemons_fault(d);
        tell(d, PROBLEM, "settings",
             either(d, "once the file is correct: {systemctl --user reload primeknet}",
                    "once the file is correct: {primeknet setup}"),
             "in force: %s, not the file: %s", instead, translate_fault(&fault, line));
    } else {
        settings_files(&d->settings, files, sizeof files);
        tell(d, FINE, "settings", NULL, "%s", files[0] ? files : _("the defaults (there is no file)"));
    }
    tell_hidden(d, &read);
}

static void check_service(struct doctor *d) {
    const struct systemd_unit *unit = &d->unit;
    const char *enable = "{primeknet setup}";
    char path[AUTOSTART_PATH];
    if (!d->systemd && autostart_is_enabled() && autostart_path(path))
        tell(d, FINE, "service", NULL, "desktops start primeknetd at login: %s",
             portal_is_needed() ? "org.freedesktop.portal.Background" : path);
    else if (!d->systemd)
        tell(d, NOTE, "service", enable, "no systemd runs for this user, and nothing else starts primeknetd at login");
    else if (strcmp(unit->load, "not-found") == 0)
        tell(d, PROBLEM, "service",
             "install PrimeKnet, with primeknet.service in a folder that systemd searches; "
             "then: systemctl --user daemon-reload; primeknet setup",
             "systemd knows no primeknet.service");
    else if (strcmp(unit->load, "loaded") != 0)
        tell(d, PROBLEM, "service", "systemctl --user unmask primeknet; primeknet setup", "its unit is %s", unit->load);
    else if (strcmp(unit->active, "failed") == 0)
        tell(d, PROBLEM, "service",
             "journalctl --user -u primeknet -n 20 says why; then: {systemctl --user restart primeknet}",
             "failed (%s, exit status %d)", unit->result, unit->status);
    else if (strcmp(unit->active, "active") != 0)
        tell(d, PROBLEM, "service", enable, "%s, %s", unit->active, unit->file[0] ? unit->file : "not enabled");
    else if (strcmp(unit->file, "enabled") != 0)
        tell(d, NOTE, "service", enable, "runs, but is not enabled, so it will not run after the next login");
    else
        tell(d, FINE, "service", NULL, "enabled and running");
    if (unit->restarts > 2)
        tell(d, NOTE, "service", "journalctl --user -u primeknet says why", "systemd has had to restart it %u times",
             unit->restarts);
}

static int ask_daemon(struct doctor *d, struct err *err) {
    int fd, res = control_connect(&fd, err);
    if (res == 0) {
        res = control_ask(fd, &d->status, json_pack("{s:s}", "command", COMMAND_STATUS), err);
        close(fd);
    }
    return res;
}

/* Returns the text for the daemon's state; for an unknown state, the word itself. */
static const char *words_for(const char *state) {
    static const char *const states[][2] = {
        {STATE_NO_PIPEWIRE, "waits for PipeWire"},
        {STATE_NO_MICROPHONE, "no microphone"},
        {STATE_IDLE, "idle: nobody records"},
        {STATE_WAITING, "waits for sound"},
        {STATE_ENGINE_LOST, "the engine failed, so the microphone is not enhanced"},
        {STATE_BYPASSED, "bypassed: the microphone is not enhanced"},
        {STATE_ENHANCING, "enhances the microphone"},
    };
    for (size_t i = 0; i < sizeof states / sizeof *states; i++)
        if (strcmp(states[i][0], state) == 0)
            return _(states[i][1]);
    return state;
}

static void check_daemon(struct doctor *d, int res, const char *why_not) {
    bool runs = res != -ENOENT && res != -ECONNREFUSED;
    char obstacle[CONTROL_MAX_PATH], advice[CONTROL_MAX_PATH + 64];
    if (!d->status && control_find_obstacle(obstacle)) {
        snprintf(advice, sizeof advice, _("remove it, which primeknetd notices within 5 s: {rm -r '%s'}"), obstacle);
        tell(d, PROBLEM, "daemon", advice, "cannot be reached: %s is in the place of its control socket", obstacle);
        return;
    }
    if (!runs && d->systemd && strcmp(d->unit.active, "active") != 0)
        return; /* the service's check reports it */
    if (!d->status)
        tell(d, PROBLEM, "daemon", restart(d), "%s",
             !runs               ? _("does not run")
             : res == -ETIMEDOUT ? _("primeknetd does not answer: it is stopped, or it hangs")
                                 : why_not);
    else if (strcmp(text_of(d->status, "version"), PACKAGE_VERSION) != 0)
        tell(d, NOTE, "daemon", restart(d), "version %s still runs; %s is installed", text_of(d->status, "version"),
             PACKAGE_VERSION);
    else
        tell(d, FINE, "daemon", NULL, "%s", words_for(text_of(d->status, "state")));
    if (json_is_true(json_object_get(d->status, "bypass")))
        tell(d, NOTE, "daemon", "{primeknet bypass off}",
             "bypass is on, so applications get the unprocessed microphone");
    else if (d->status && number_of(json_object_get(d->status, "settings"), "strength") <= 0)
        tell(d, NOTE, "daemon", "{primeknet set strength 1 --save}",
             "strength is 0, so applications get the unprocessed microphone");
}

/* ---- microphones ------------------------------------------------------------------------------------------------- */

static void check_bluetooth(struct doctor *d, const struct survey_source *mic) {
    bool narrow = strcasestr(mic->codec, "cvsd"), wide = strcasestr(mic->codec, "msbc");
    if (!strstr(mic->profile, "head") || strcasestr(mic->codec, "lc3"))
        return;
    tell(d, wide ? NOTE : PROBLEM, "Bluetooth",
         "use the computer's microphone or a wired one, and the headset only to listen: primeknet mics; "
         "primeknet "
         "use NAME --save",
         "%s sends %s, as in a telephone call; enhancement cannot restore the missing frequencies", mic->description,
         narrow ? _("8 kHz sound")
         : wide ? _("16 kHz sound")
                : _("8 or 16 kHz sound"));
}

/* Reports cards without a source: their profile has no input, or they are Bluetooth headsets in playback mode. */
static void tell_silent_cards(struct doctor *d) {
    const struct survey_device *device;
    const struct survey_source *source;
    for (device = d->survey->devices; device; device = device->next) {
        bool sends = false;
        for (source = d->survey->sources; source; source = source->next)
            sends |= source->device == device->id;
        if (!sends)
            tell(d, NOTE, "sound card",
                 "choose a profile with an input in the sound settings (pavucontrol: Configuration)",
                 "%s offers no microphone in its present profile", device->description);
    }
}

static bool is_chosen(const struct doctor *d, const struct survey_source *source) {
    return microphone_fits(d->settings.microphone, source->name, source->description) > 0;
}

/* Returns the microphone that the daemon uses or, without a daemon, would use. NULL if there is none. */
static const struct survey_source *find_microphone(const struct doctor *d) {
    const struct survey_source *source;
    if (d->status)
        return survey_find(d->survey, text_of(json_object_get(d->status, "microphone"), "name"));
    if (strcmp(d->settings.microphone, "default") == 0)
        return survey_find(d->survey, d->survey->default_source);
    for (source = d->survey->sources; source; source = source->next)
        if (is_chosen(d, source))
            return source;
    return NULL;
}

/* A command for properties that mixers and wpctl do not set. */
static void advise_props(char *ret, size_t size, const struct survey_source *source) {
    char ones[512] = "";
    for (unsigned i = 0; i < source->volume.n_channels; i++)
        snprintf(ones + strlen(ones), sizeof ones - strlen(ones), " 1.0");
    snprintf(ret, size, "{pw-cli set-param %u Props '{ softMute = false, volume = 1.0, softVolumes = [%s ] }'}",
             source->id, ones);
}

/* Whether a source or stream is neither muted nor at zero volume; reports it if it is. */
static bool is_open(struct doctor *d, const char *check, const struct survey_source *source) {
    const struct volume *volume = &source->volume;
    char advice[640];
    if (!volume->muted && volume->level >= VOLUME_LEAST)
        return true;
    if (volume->hidden)
        advise_props(advice, sizeof advice, source);
    else if (volume->muted)
        snprintf(advice, sizeof advice, _("{wpctl set-mute %u 0}, or unmute \"%.128s\" in the sound settings"),
                 source->id, source->description);
    else
        snprintf(advice, sizeof advice, _("{wpctl set-volume %u 1.0}, or turn \"%.128s\" up in the sound settings"),
                 source->id, source->description);
    if (volume->muted)
        tell(d, PROBLEM, check, advice, "%s is muted", source->description);
    else
        tell(d, PROBLEM, check, advice, "the volume of %s is zero", source->description);
    return false;
}

static bool check_sound(struct doctor *d, const char *check, const struct survey_source *source) {
    bool open = is_open(d, check, source);
    if (open)
        tell(d, FINE, check, NULL, "%s", source->description);
    return open;
}

/* Checks the daemon's own streams from microphones: session managers remember that one was muted, and mute the next
 * one, too. */
static bool check_inputs(struct doctor *d) {
    const struct survey_source *stream;
    bool open = true;
    for (stream = d->survey->streams; stream; stream = stream->next)
        if (text_begins(stream->name, "capture." ENHANCED_MIC) || strcmp(stream->name, "echo." ENHANCED_MIC) == 0)
            open &= is_open(d, "microphone", stream);
    return open;
}

static void check_microphone(struct doctor *d) {
    const struct survey_source *mic = find_microphone(d), *source;
    bool any = false, missing = strcmp(d->settings.microphone, "default") != 0;
    for (source = d->survey->sources; source; source = source->next) {
        any |= strcmp(source->name, ENHANCED_MIC) != 0;
        missing &= !is_chosen(d, source);
    }
    if (mic && strcmp(mic->name, ENHANCED_MIC) == 0)
        mic = NULL;
    if (!any) {
        tell(d, PROBLEM, "microphone", "plug one in or switch it on; laptops may have a key or a slider for it",
             "there is none");
        tell_silent_cards(d);
    } else if (missing) {
        tell(d, PROBLEM, "microphone", "plug it in, or choose another: primeknet mics; primeknet use NAME --save",
             "%s, the chosen one, is missing", d->settings.microphone);
    } else if (!mic && d->status) {
        tell(d, PROBLEM, "microphone", "choose one: primeknet mics; primeknet use NAME --save",
             "nothing is connected to Enhanced Mic's input");
    }
    const char *loop = text_of(d->status, "loop");
    if (loop[0])
        tell(d, mic ? NOTE : PROBLEM, "microphone",
             mic ? NULL : "choose the microphone itself as the input of the program that offers it",
             "%s carries the sound of Enhanced Mic itself, so Enhanced Mic does not use it", loop);
    bool audible = mic && check_sound(d, "microphone", mic);
    audible &= check_inputs(d);
    if (mic)
        check_bluetooth(d, mic);
    const json_t *level = json_object_get(d->status, "level_in_db");
    const double stalls = number_of(d->status, "stalls");
    if (strcmp(text_of(d->status, "state"), STATE_WAITING) == 0)
        tell(d, PROBLEM, "microphone",
             "unplug it and plug it in again, or choose another: primeknet mics; primeknet use NAME --save",
             "no sound comes from it, although an application records");
    else if (stalls > 0)
        tell(d, NOTE, "microphone",
             either(d, "journalctl --user -u primeknet says when; please report it", "please report it"),
             "its sound has stopped; primeknetd restarted its streams (restarts so far: %.0f)", stalls);
    else if (audible && json_is_null(level))
        tell(d, PROBLEM, "microphone",
             "look for a switch on it, or choose another channel: primeknet set channel NAME --save",
             "it sends digital silence");
}

/* Checks the streams of applications, which the user may have muted, or the session manager, which remembers that. */
static void check_recorders(struct doctor *d) {
    const struct survey_source *stream;
    for (stream = d->survey->streams; stream; stream = stream->next)
        if (stream->records_enhanced)
            is_open(d, "application", stream);
}

static void check_enhanced(struct doctor *d) {
    const struct survey_source *enhanced = survey_find(d->survey, ENHANCED_MIC);
    const char *by_default = d->survey->default_source;
    if (!enhanced) {
        if (d->status)
            tell(d, PROBLEM, "Enhanced Mic", restart(d), "is missing from PipeWire");
        return;
    }
    check_sound(d, "Enhanced Mic", enhanced);
    const struct survey_source *source = survey_find(d->survey, by_default);
    char line[512];
    const char *const missing = lacking(d, "transparent", line);
    const bool transparent = strcmp(text_of(json_object_get(d->status, "settings"), "transparent"), "true") == 0;
    if (transparent && missing[0])
        tell(d, PROBLEM, "transparent", "do without: {primeknet set transparent false --save}", "%s", missing);
    if (strcmp(by_default, ENHANCED_MIC) == 0)
        tell(d, FINE, "default source", NULL, "Enhanced Mic: applications use it by default");
    else if (transparent && !missing[0])
        tell(d, FINE, "default source", NULL, "applications that record the microphone hear Enhanced Mic");
    else
        tell(d, NOTE, "default source",
             d->survey->has_filters
                 ? "choose Enhanced Mic in your applications, or for all of them: {primeknet setup --transparent}"
                 : "choose Enhanced Mic in your applications, or for all of them: {primeknet setup --default}",
             source          ? "%s: applications use it by default"
             : by_default[0] ? "the sound played on %s: applications record that by default"
                             : "there is no default%s",
             source ? source->description : by_default);
}

static void check_speaker(struct doctor *d) {
    const json_t *stream;
    size_t i;
    json_array_foreach(json_object_get(d->status, "streams"), i, stream) {
        const char *loop = text_of(stream, "loop"), *output = text_of(json_object_get(stream, "output"), "description");
        if (strcmp(text_of(stream, "kind"), "speaker") != 0 || !loop[0])
            continue;
        const bool alone = strcmp(loop, output) == 0;
        tell(d, alone ? PROBLEM : NOTE, "speaker",
             "have the program behind it play on an output, not on Enhanced Speaker",
             "the sound of %s comes back to Enhanced Speaker, which %s%s", loop,
             alone ? _("has no other output") : _("plays on "), alone ? "" : output);
    }
}

/* A setting that is on has its effect, or a reason why not, and then advice. */
static void check_switch(struct doctor *d, const char *setting, const char *check, const char *advice,
                         const char *effect) {
    char line[512];
    const char *missing = lacking(d, setting, line);
    if (missing[0])
        tell(d, PROBLEM, check, advice, "%s", missing);
    else if (strcmp(text_of(json_object_get(d->status, "settings"), setting), "true") == 0)
        tell(d, FINE, check, NULL, "%s", _(effect));
}

/* ---- conclusion -------------------------------------------------------------------------------------------------- */

/* Omits notes while there are problems. */
static bool is_shown(const json_t *check, int n_problems) {
    return text_of(check, "advice")[0] && (!n_problems || strcmp(text_of(check, "result"), words[PROBLEM]) == 0);
}

/* Prints the advice; returns the exit status. */
static int conclude(const struct doctor *d) {
    const json_t *check, *said;
    size_t i, k;
    int n_problems = 0, n_advice = 0;
    json_array_foreach(d->checks, i, check)
        n_problems += strcmp(text_of(check, "result"), words[PROBLEM]) == 0;
    if (d->as_json) {
        cli_print_json(d->checks);
        return n_problems ? cli_failed : cli_done;
    }
    puts(n_problems ? _("\nWhat to do, in this order:") : _("\nNo problems found."));
    json_array_foreach(d->checks, i, check) {
        bool repeated = false;
        if (!is_shown(check, n_problems))
            continue;
        json_array_foreach(d->checks, k, said)
            repeated |= k < i && is_shown(said, n_problems) &&
                        strcmp(text_of(said, "advice"), text_of(check, "advice")) == 0;
        if (repeated)
            continue;
        if (n_problems)
            printf("  %d. %s: %s\n", ++n_advice, text_of(check, "title"), text_of(check, "advice"));
        else
            printf("  %s: %s\n", text_of(check, "title"), text_of(check, "advice"));
    }
    if (n_problems)
        puts(_("Then run primeknet doctor again."));
    return n_problems ? cli_failed : cli_done;
}

static void speak_the_users_language(void) {
    setlocale(LC_CTYPE, "");
    setlocale(LC_MESSAGES, "");
    bindtextdomain(GETTEXT_PACKAGE, LOCALEDIR);
    bind_textdomain_codeset(GETTEXT_PACKAGE, "UTF-8");
}

static int run_doctor(const struct cli_call *call) {
    struct doctor d = {.as_json = cli_option(call, 'j')};
    struct err why_not = {0};
    speak_the_users_language();
    int asked = ask_daemon(&d, &why_not);
    if (asked == -EPERM)
        return cli_fail("%s", why_not.text);
    d.checks = json_array();
    if (systemd_open(&d.systemd, NULL) == 0 && systemd_unit(d.systemd, &d.unit, UNIT, NULL) < 0)
        strcpy(d.unit.load, "unknown");
    const bool in_session = getenv("XDG_RUNTIME_DIR");
    if (!in_session)
        tell(&d, PROBLEM, "session", "log in as this user, or export XDG_RUNTIME_DIR=/run/user/$(id -u)",
             "XDG_RUNTIME_DIR is not set, as after su, with sudo and in cron: neither PipeWire nor primeknetd can be "
             "found");
    else
        check_sound_server(&d);
    check_settings(&d);
    check_models(&d);
    if (in_session) {
        check_service(&d);
        check_daemon(&d, asked, why_not.text);
    }
    if (d.survey) {
        check_microphone(&d);
        check_enhanced(&d);
        check_recorders(&d);
        check_switch(&d, "echo_cancel", "echo",
                     "install PipeWire's echo canceller (Debian: libspa-0.2-modules), or do without: "
                     "{primeknet set echo-cancel false --save}",
                     "the echo of the outputs is removed from the microphone");
        check_switch(&d, "my_voice", "my voice", "do without: {primeknet set my-voice false --save}",
                     "the voices of others are removed from the microphone");
        check_speaker(&d);
    }
    check_realtime(&d);
    check_gpu(&d);
    check_speed(&d);
    int res = conclude(&d);
    json_decref(d.status);
    json_decref(d.checks);
    survey_close(d.survey);
    systemd_close(d.systemd);
    return res;
}

const struct cli_command doctor_command = {
    .name = "doctor",
    .summary = "find problems and say how to fix them",
    .run = run_doctor,
    .options = {{'j', "json", .help = "an array of objects with check, result, text, advice and command"}},
    .about = "Finds what keeps Enhanced Mic from working, and says what to do. Changes nothing.\n"
             "Exit status: 0 no problems, 1 problems, 2 usage error.\n",
};
