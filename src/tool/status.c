/* primeknet status and monitor: show what primeknetd does, once or continuously. */
#include "config.h"

#include "tool/cli.h"

#include "control/client.h"
#include "net/bands.h"
#include "tool/listen.h"

#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <termios.h>
#include <unistd.h>

enum { FRAME_MS = 100, AGAIN_MS = 1000, METER_WIDTH = 48, METER_DB = 60, COLUMNS = 32 };

static bool is_number(const json_t *object, const char *key) {
    return json_is_number(json_object_get(object, key));
}

static bool is_true(const json_t *object, const char *key) {
    return json_is_true(json_object_get(object, key));
}

static json_t *ask_status(int fd, struct err *err) {
    json_t *answer = NULL;
    return control_ask(fd, &answer, json_pack("{s:s, s:b}", "command", COMMAND_STATUS, "bands", true), err) < 0
               ? NULL
               : answer;
}

/* ---- as text ----------------------------------------------------------------------------------------------------- */

static void print_users(FILE *f, const json_t *s, const char *key) {
    const json_t *recorders = json_object_get(s, key);
    json_t *name;
    size_t i;
    if (json_array_size(recorders) == 0)
        fputs("nobody", f);
    json_array_foreach(recorders, i, name)
        fprintf(f, "%s%s", i ? ", " : "", json_string_value(name));
}

static void print_microphone(FILE *f, const json_t *s) {
    const json_t *microphone = json_object_get(s, "microphone");
    const char *chosen = text_of(json_object_get(s, "settings"), "microphone");
    if (json_is_null(microphone))
        fprintf(f, "none; waiting for %s", strcmp(chosen, "default") ? chosen : "one");
    else
        fputs(text_of(microphone, "description"), f);
}

static void print_controls(FILE *f, const json_t *s) {
    const json_t *settings = json_object_get(s, "settings");
    fprintf(f, "%s: strength %.4g", text_of(settings, "preset"), number_of(settings, "strength"));
    if (is_number(settings, "floor_db"))
        fprintf(f, ", floor %.4g dB", number_of(settings, "floor_db"));
    if (number_of(settings, "low_cut_hz") > 0)
        fprintf(f, ", low cut %.4g Hz", number_of(settings, "low_cut_hz"));
    if (is_number(settings, "level"))
        fprintf(f, ", level %.4g LUFS", number_of(settings, "level"));
    if (strcmp(text_of(settings, "echo_cancel"), "true") == 0 &&
        !json_object_get(json_object_get(s, "missing"), "echo_cancel"))
        fputs(", echo cancelled", f);
    if (json_is_string(json_object_get(s, "profile")))
        fprintf(f, "; the profile of %s", text_of(s, "profile"));
    if (json_is_string(json_object_get(s, "profile_refused")))
        fprintf(f, "; the profile of %s is not used: %s", text_of(json_object_get(s, "microphone"), "description"),
                text_of(s, "profile_refused"));
    if (is_true(s, "bypass"))
        fputs("; bypassed: the microphone unchanged", f);
}

/* Prints the delay, and what adds to the network's own (docs/live-path.md). */
static void print_delay(FILE *f, const json_t *s) {
    const unsigned quantum = (unsigned)number_of(s, "quantum");
    const unsigned hop = (unsigned)lround(number_of(s, "hop_us") * 48e-3);
    fprintf(f, "%.1f ms", number_of(s, "delay_ms"));
    if (quantum && hop && quantum % hop)
        fprintf(f, "; %u-sample blocks of the graph end within the model's hops of %u", quantum, hop);
    if (quantum && !is_true(s, "waits"))
        fputs("; a block of it because the audio thread does not wait for the model: no real-time priority, or the "
              "model was too slow",
              f);
}

static void print_hops(FILE *f, const json_t *s) {
    if (number_of(s, "hops") == 0) {
        fputs("none yet", f);
        return;
    }
    if (is_number(s, "hop_p50_us")) /* else none of this model's */
        fprintf(f, "p50 %.0f us, p99 %.0f us of %.0f, ", number_of(s, "hop_p50_us"), number_of(s, "hop_p99_us"),
                number_of(s, "hop_us"));
    fprintf(f, "%.0f late of %.0f%s", number_of(s, "late_hops"), number_of(s, "hops"),
            is_true(s, "realtime") ? "" : ", no real-time priority");
    if (is_number(s, "realtime_limit_ms"))
        fprintf(f, " (%s)", text_of(s, "realtime_refusal"));
}

/* Prints a node other than the first microphone, in one or two lines. */
static int print_stream(FILE *f, const json_t *s, const char *end) {
    bool speaker = strcmp(text_of(s, "kind"), "speaker") == 0;
    fprintf(f, "%s: %s; ", text_of(s, "title"), text_of(s, "state"));
    const json_t *device = json_object_get(s, speaker ? "output" : "microphone");
    if (speaker)
        fprintf(f, "on %s, ", json_is_null(device) ? "no output" : text_of(device, "description"));
    fputs(speaker ? "played to by " : "recorded by ", f);
    print_users(f, s, speaker ? "players" : "recorders");
    fputs(end, f);
    if (!json_object_get(s, "level_in_db"))
        return 1;
    fprintf(f, "%-12s delay %.1f ms, %.0f late of %.0f hops", "", number_of(s, "delay_ms"), number_of(s, "late_hops"),
            number_of(s, "hops"));
    if (is_number(s, "level_in_db"))
        fprintf(f, ", %.1f dBFS in", number_of(s, "level_in_db"));
    if (is_number(s, "level_out_db"))
        fprintf(f, ", %.1f out", number_of(s, "level_out_db"));
    fputs(end, f);
    return 2;
}

/* Prints one line per fact, each ended by `end`. Returns the number of lines. */
static int print_status(FILE *f, const json_t *s, bool with_levels, const char *end) {
    int n_lines = 0;
#define LINE(label, ...) (fprintf(f, "%-12s ", label), __VA_ARGS__, fputs(end, f), n_lines++)
    const json_t *settings = json_object_get(s, "settings"), *silenced = json_object_get(s, "silenced");
    LINE("Enhanced Mic", fputs(text_of(s, "state"), f));
    LINE("microphone", print_microphone(f, s));
    if (json_is_object(silenced))
        LINE("silent", fprintf(f, is_true(silenced, "turned_down") ? "the volume of %s is zero" : "%s is muted",
                               text_of(silenced, "description")));
    LINE("recorded by", print_users(f, s, "recorders"));
    if (json_array_size(json_object_get(s, "brought_back")) > 0)
        LINE("reconnected", print_users(f, s, "brought_back"));
    LINE("model", fprintf(f, "%s on %s%s", text_of(s, "model"), text_of(s, "engine"),
                          is_true(s, "measuring")  ? ", while this processor is being measured"
                          : is_true(s, "swapping") ? ", another is being loaded"
                                                   : ""));
    LINE("controls", print_controls(f, s));
    const char *setting;
    json_t *missing;
    json_object_foreach(json_object_get(s, "missing"), setting, missing)
        LINE("missing", fprintf(f, "%s: %s", setting, json_string_value(missing)));
    if (number_of(s, "stalls") > 0)
        LINE("stalls", fprintf(f, "the sound stopped; primeknetd restarted its streams (restarts so far: %.0f)",
                               number_of(s, "stalls")));
    if (with_levels && is_number(s, "level_in_db"))
        LINE("level", fprintf(f, "%.1f dBFS in, ", number_of(s, "level_in_db")),
             is_number(s, "level_out_db") ? fprintf(f, "%.1f dBFS out", number_of(s, "level_out_db"))
                                          : fprintf(f, "silence out"),
             fputs(is_true(s, "clips") ? "; too loud, so it clips" : "", f));
    else if (with_levels && json_object_get(s, "level_in_db"))
        LINE("level", fputs("silence", f));
    if (is_number(s, "noise_reduction_db"))
        LINE("noise", fprintf(f, "%.0f dBFS in, reduced by %.0f dB", number_of(s, "noise_in_db"),
                              number_of(s, "noise_reduction_db")));
    else if (json_object_get(s, "noise_reduction_db"))
        LINE("noise", fputs("-", f));
    if (with_levels && is_number(s, "voice"))
        LINE("voice",
             fprintf(f, "%s, probability %.2f", is_true(s, "voice_active") ? "speech" : "none", number_of(s, "voice")));
    if (number_of(s, "delay_ms") > 0)
        LINE("delay", print_delay(f, s));
    LINE("hops", print_hops(f, s));
    const json_t *stream;
    size_t i;
    json_array_foreach(json_object_get(s, "streams"), i, stream)
        n_lines += print_stream(f, stream, end);
    LINE("memory", fprintf(f, "%.0f MiB", number_of(s, "memory_mib")));
    const char *const file = text_of(settings, "file"), *const saved = text_of(settings, "saved");
    LINE("settings", fprintf(f, "%s%s%s", file[0] || saved[0] ? file : "the defaults (there is no file)",
                             file[0] && saved[0] ? ", " : "", saved));
    if (!json_is_null(json_object_get(s, "refused")))
        LINE("", fprintf(f, "not in force; in force: %s, because %s", text_of(s, "instead"), text_of(s, "refused")));
#undef LINE
    return n_lines;
}

static int run_status(const struct cli_call *call) {
    json_t *s = cli_ask(json_pack("{s:s}", "command", COMMAND_STATUS));
    if (!s)
        return cli_failed;
    if (cli_option(call, 'j'))
        cli_print_json(s);
    else
        print_status(stdout, s, true, "\n");
    json_decref(s);
    return cli_done;
}

const struct cli_command status_command = {
    .name = "status",
    .summary = "show what Enhanced Mic is doing",
    .run = run_status,
    .options = {{'j', "json", .help = "as one JSON object, for scripts; see primeknet(1)"}},
    .about = "Shows what the running primeknetd is doing.\n",
};

/* ---- live -------------------------------------------------------------------------------------------------------- */

static void print_meter(FILE *f, const char *label, const json_t *s, const char *key) {
    double db = is_number(s, key) ? number_of(s, key) : -INFINITY;
    int n = (int)lround(METER_WIDTH * (1 + fmax(db, -METER_DB) / METER_DB));
    fprintf(f, "%-12s ", label);
    for (int i = 0; i < METER_WIDTH; i++)
        fputs(i < n ? "█" : "·", f);
    if (isfinite(db))
        fprintf(f, " %5.1f dBFS", db);
    fputs("\033[K\n", f);
}

/* The colour of each band in the last COLUMNS frames, before and after. */
struct strip {
    unsigned char colour[2][COLUMNS][BANDS];
    unsigned at; /* the oldest column, which is written next */
};

/* Of 256 colours: black, violet, orange, light yellow, in steps of 6 dB from -90 dBFS. */
static const unsigned char palette[] = {16, 17, 54, 90, 126, 162, 203, 209, 215, 221, 229};

static void add_column(struct strip *strip, const json_t *s) {
    for (int side = 0; side < 2; side++) {
        const json_t *bands = json_object_get(s, side ? "bands_out_db" : "bands_in_db");
        for (size_t band = 0; band < BANDS; band++) {
            const json_t *db = json_array_get(bands, band);
            long step = db ? lround((json_number_value(db) + 90) / 6) : 0, last = sizeof palette - 1;
            strip->colour[side][strip->at][band] = palette[step < 0 ? 0 : step > last ? last : step];
        }
    }
    strip->at = (strip->at + 1) % COLUMNS;
}

/* Prints two bands per line: half blocks in one colour on a background of another. */
static int print_strip(FILE *f, const struct strip *strip) {
    fprintf(f, "%-12s %-*s  %s\033[K\n", "spectrum", COLUMNS, "before", "after");
    for (int band = BANDS - 2; band >= 0; band -= 2) {
        fprintf(f, "%9.0f Hz ", round(bands_edge(band) / 10) * 10);
        for (int side = 0; side < 2; side++) {
            int upper = -1, lower = -1;
            for (int i = 0; i < COLUMNS; i++) {
                const unsigned char *column = strip->colour[side][(strip->at + (unsigned)i) % COLUMNS];
                if (column[band + 1] != upper)
                    fprintf(f, "\033[38;5;%dm", upper = column[band + 1]);
                if (column[band] != lower)
                    fprintf(f, "\033[48;5;%dm", lower = column[band]);
                fputs("▀", f);
            }
            fputs(side ? "\033[0m\033[K\n" : "\033[0m  ", f);
        }
    }
    return 1 + BANDS / 2;
}

/* Draws over the previous frame of n_lines. Returns the number of lines drawn. */
static int draw(const json_t *s, const char *problem, struct strip *strip, int n_lines) {
    if (n_lines)
        printf("\033[%dA", n_lines);
    fputs("\033[?7l", stdout); /* let a narrow terminal cut lines: wrapped ones would spoil the count */
    if (s) {
        n_lines = print_status(stdout, s, false, "\033[K\n") + 2;
        print_meter(stdout, "before", s, "level_in_db");
        print_meter(stdout, "after", s, "level_out_db");
        add_column(strip, s);
        struct winsize size;
        if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) < 0 || size.ws_row > n_lines + 1 + BANDS / 2)
            n_lines += print_strip(stdout, strip);
    } else {
        printf("%s\033[K\n", problem);
        n_lines = 1;
    }
    fputs("\033[J\033[?7h", stdout);
    fflush(stdout);
    return n_lines;
}

static int run_monitor(const struct cli_call *call) {
    struct termios before, raw;
    bool keys = tcgetattr(STDIN_FILENO, &before) == 0;
    if (!isatty(STDOUT_FILENO))
        return cli_fail("monitor needs a terminal; scripts can use primeknet status --json");

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigaddset(&set, SIGHUP);
    sigprocmask(SIG_BLOCK, &set, NULL);
    struct listen *listening = NULL;
    struct err err = {0};
    if (cli_option(call, 'l') && listen_open(&listening, &err) < 0)
        return cli_fail("%s", err.text);
    struct pollfd fds[] = {{.fd = signalfd(-1, &set, SFD_CLOEXEC), .events = POLLIN},
                           {.fd = keys ? STDIN_FILENO : -1, .events = POLLIN}};
    if (keys) {
        raw = before;
        raw.c_lflag &= ~(tcflag_t)(ICANON | ECHO);
        tcsetattr(STDIN_FILENO, TCSANOW, &raw);
    }
    fputs("\033[?25l", stdout);

    struct strip strip = {0};
    int fd = -1, n_lines = 0;
    char key = '\0';
    while (key != 'q' && !fds[0].revents) {
        json_t *s = fd >= 0 || control_connect(&fd, &err) == 0 ? ask_status(fd, &err) : NULL;
        if (!s && fd >= 0) { /* the daemon may come back */
            close(fd);
            fd = -1;
        }
        n_lines = draw(s, err.text, &strip, n_lines);
        if (poll(fds, 2, s ? FRAME_MS : AGAIN_MS) > 0 && fds[1].revents && read(STDIN_FILENO, &key, 1) <= 0)
            fds[1].fd = -1;
        json_decref(s);
    }
    listen_close(listening);
    fputs("\033[?25h", stdout);
    fflush(stdout);
    if (keys)
        tcsetattr(STDIN_FILENO, TCSANOW, &before);
    if (fd >= 0)
        close(fd);
    close(fds[0].fd);
    return cli_done;
}

const struct cli_command monitor_command = {
    .name = "monitor",
    .summary = "show the same live, with level meters",
    .run = run_monitor,
    .options = {{'l', "listen", .help = "also play Enhanced Mic on the default output; use headphones"}},
    .about = "Shows live what the running primeknetd is doing, with level meters and the spectra before and after,\n"
             "in 80 columns and 24 lines; q or Ctrl-C quits.\n",
};
