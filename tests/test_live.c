/* The live path in a real PipeWire: every test starts a private session (tests/pipewire-session) with a fake
 * microphone, opens the node in this process, and looks at what others see of it, to the sample (tests/probe.h).
 *
 * An argument makes the tests longer: test-live 10 runs those that wait ten times as long. */
#include "config.h"

#include "model.h"
#include "node.h"
#include "probe.h"
#include "rt_guard.h"
#include "run.h"

#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <linux/capability.h>
#include <math.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <spawn.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SESSION SRCDIR "/tests/pipewire-session"
#define PEAK 0.25f
#define HOP 256u
#define ENGINE_DELAY 768u

/* PipeWire leaks a little in modules that it unloads, where nobody can name the leak. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

static unsigned patience = 1;
static char directory[64]; /* of all sessions; "s" in it is the present one's */
static struct model *model;
static struct node *node, *more[2]; /* those beside it share its worker */
static struct probe *probe;
static unsigned n_released;

/* ---- the guard around what PipeWire's data loop and the worker run of ours: the linker puts these in between ------- */

static _Atomic unsigned n_guarded_blocks, n_guarded_hops;

void __real_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
void __wrap_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
void __wrap_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    rt_guard_enter();
    __real_pump_process(p, in, n_in, out, n_out);
    rt_guard_leave();
    n_guarded_blocks++;
}

int __real_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs);
int __wrap_engine_process(struct engine *e, const struct engine_job *jobs, unsigned n_jobs) {
    rt_guard_enter();
    const int r = __real_engine_process(e, jobs, n_jobs);
    rt_guard_leave();
    n_guarded_hops++;
    return r;
}

void __real_engine_tail(const struct engine *e, unsigned stream, float *tail);
void __wrap_engine_tail(const struct engine *e, unsigned stream, float *tail);
void __wrap_engine_tail(const struct engine *e, unsigned stream, float *tail) {
    rt_guard_enter();
    __real_engine_tail(e, stream, tail);
    rt_guard_leave();
}

void __real_engine_reset(struct engine *e, unsigned stream);
void __wrap_engine_reset(struct engine *e, unsigned stream);
void __wrap_engine_reset(struct engine *e, unsigned stream) {
    rt_guard_enter();
    __real_engine_reset(e, stream);
    rt_guard_leave();
}

/* ---- session and node -------------------------------------------------------------------------------------------- */

__attribute__((format(printf, 1, 2))) static int shell(const char *format, ...) {
    char command[1024];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof command, format, args);
    va_end(args);
    const int status = system(command);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

static void start_session(const char *settings) {
    ck_assert_int_eq(shell("%s %s start %s/s", settings, SESSION, directory), 0);
    char command[256], line[512];
    snprintf(command, sizeof command, "%s env %s/s", SESSION, directory);
    FILE *const env = popen(command, "r");
    while (fgets(line, sizeof line, env)) {
        char name[64], value[400];
        if (sscanf(line, "export %63[^=]='%399[^']'", name, value) == 2)
            setenv(name, value, 1);
    }
    pclose(env);
    shell("pactl set-default-source enhanced_mic 2> /dev/null"); /* or the manager moves those who record it */
}

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void spin(double time) {
    const double end = seconds() + time;
    for (double left; (left = end - seconds()) > 0;) {
        struct node *const nodes[] = {node, more[0], more[1]};
        struct pollfd fds[3];
        for (int i = 0; i < 3; i++)
            fds[i] = (struct pollfd){.fd = nodes[i] ? node_fd(nodes[i]) : -1, .events = POLLIN};
        poll(fds, 3, (int)(left * 1000) + 1);
        for (int i = 0; i < 3; i++) {
            if (nodes[i] && fds[i].revents)
                ck_assert_int_eq(node_dispatch(nodes[i]), 0);
        }
    }
}

/* Dispatches until the condition holds; the machine may be slow, so this waits long before it gives up. */
#define spin_until(condition) \
    do { \
        const double end = seconds() + 15; \
        bool met; \
        while (!(met = (condition)) && seconds() < end) \
            spin(0.02); \
        ck_assert_msg(met, "not within 15 s: %s", #condition); \
    } while (0)

static void release(void *data, struct engine *engine) {
    (void)data;
    engine_close(engine);
    n_released++;
}

static struct engine *open_engine(const char *name) {
    struct engine *engine;
    struct err err;
    struct engine_options options = {.name = name, .n_streams = WORKER_STREAMS, .max_hops = 1};
    ck_assert_msg(engine_open(&engine, &options, model, &err) == 0, "%s", err.text);
    return engine;
}

static void open_node(const char *engine, unsigned hop_p99_us, const char *channel) {
    struct err err;
    const struct node_options o = {
        .engine = open_engine(engine), .hop_p99_us = hop_p99_us, .release = release, .channel = channel};
    ck_assert_msg(node_open(&node, &o, &err) == 0, "%s", err.text);
    pump_control(node_pump(node), (struct engine_controls){0});
}

static void open_speaker(void) {
    struct err err;
    const struct node_options o = {
        .kind = NODE_SPEAKER, .engine = open_engine("null"), .hop_p99_us = 1, .release = release};
    ck_assert_msg(node_open(&node, &o, &err) == 0, "%s", err.text);
    pump_control(node_pump(node), (struct engine_controls){0});
}

/* Beside the node, on its worker. */
static void open_more(unsigned i, enum node_kind kind, const char *microphone) {
    struct err err;
    const struct node_options o = {.kind = kind, .microphone = microphone, .worker = node_worker(node)};
    ck_assert_msg(node_open(&more[i], &o, &err) == 0, "%s", err.text);
    pump_control(node_pump(more[i]), (struct engine_controls){0});
}

static struct node_status status(void) {
    struct node_status s;
    node_status(node, &s);
    return s;
}

static struct pump_stats stats_of(const struct node *n) {
    struct pump_stats s;
    pump_stats(node_pump(n), &s);
    return s;
}

static struct pump_stats stats(void) {
    return stats_of(node);
}

/* The node dispatches on this thread, so the wait for a link must not stand in its way: PipeWire 1.4's pw-link ends when
 * the node has agreed. */
static int try_link(const char *from, const char *to) {
    char *const command[] = {"pw-link", (char *)from, (char *)to, NULL};
    pid_t pid;
    int code;
    if (posix_spawnp(&pid, *command, NULL, NULL, command, environ) != 0)
        return -1;
    while (waitpid(pid, &code, WNOHANG) == 0)
        spin(0.01);
    return code;
}

static void link_ports(const char *from, const char *to) {
    const double end = seconds() + 15;
    while (try_link(from, to) != 0) {
        spin(0.05);
        ck_assert_msg(seconds() < end, "no link from %s to %s", from, to);
    }
}

/* Noise into the fake microphone; the microphone and Enhanced Mic into the recorder. */
static void open_probe(void) {
    probe = probe_open(PEAK);
    ck_assert_ptr_nonnull(probe);
    link_ports("player:out", "fake_mic:input_MONO");
    link_ports("fake_mic:capture_MONO", "recorder:first");
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
}

/* Noise into the recorder, and into Enhanced Speaker; what the output then plays into the recorder, a quantum later:
 * a null sink has its monitor's samples ready in the next cycle. */
static void open_speaker_probe(void) {
    probe = probe_open(PEAK);
    ck_assert_ptr_nonnull(probe);
    link_ports("player:out", "recorder:first");
    link_ports("player:out", "enhanced_speaker:playback_MONO");
    link_ports("null_out:monitor_FL", "recorder:second");
}

static void setup(void) {
    node = more[0] = more[1] = NULL;
    probe = NULL;
    n_released = 0;
    atomic_store(&n_guarded_blocks, 0);
    atomic_store(&n_guarded_hops, 0);
}

static void teardown(void) {
    probe_close(probe);
    node_close(more[0]);
    node_close(more[1]);
    node_close(node);
    shell("%s stop %s/s", SESSION, directory);
}

/* ---- what others see --------------------------------------------------------------------------------------------- */

/* The latency that the node's port publishes, or -1. */
static long published_ns(void) {
    const bool speaker = node_kind(node) == NODE_SPEAKER;
    FILE *const dump = popen("pw-dump", "r");
    char port[400], line[512];
    bool ours = false, here = false;
    long ns = -1;
    snprintf(port, sizeof port, "\"port.alias\": \"%s:%s", node_title(node), speaker ? "playback_" : "capture_");
    while (fgets(line, sizeof line, dump)) {
        if (strstr(line, "\"port.alias\"") || strstr(line, "\"type\": \"PipeWire:")) /* of another object */
            ours = strstr(line, port) != NULL;
        if (strstr(line, "\"direction\":"))
            here = strstr(line, speaker ? "Input" : "Output") != NULL;
        const char *const at = strstr(line, "\"minNs\":");
        if (at && ours && here)
            ns = strtol(at + 8, NULL, 10);
    }
    pclose(dump);
    return ns;
}

static long in_ns(unsigned samples) {
    return lround(samples * (1e9 / PUMP_RATE));
}

/* Samples between what the recorder hears first and second, both found in the last third of a second, or -1. */
static int added_delay(float factor, double *error_db) {
    const unsigned length = probe_length(probe);
    for (unsigned back = 2048; back < 8 * 2048 && back + 16384 < length; back += 2048) {
        const int first = probe_delay(probe, 0, length - back, 1, NULL);
        const int second = first < 0 ? -1 : probe_delay(probe, 1, length - back, factor, error_db);
        if (second >= 0)
            return second - first;
    }
    return -1;
}

static unsigned gcd(unsigned a, unsigned b) {
    return b ? gcd(b, a % b) : a;
}

static unsigned expected_delay(unsigned quantum, bool waits) {
    return ENGINE_DELAY + HOP - gcd(HOP, quantum) + (waits ? 0 : quantum > HOP ? quantum : HOP);
}

/* The node adds the delay that it says, which is what it must be, and the graph so many samples more. A cycle that the
 * machine missed spoils a look, and so does a hop that it made late: the delay grows amid it, and within a second of a
 * change still allows for the longer blocks before. Then another, 15 s long. Returns what the node said. */
static struct pump_stats expect_delay(const struct node *n, unsigned more_samples, float factor, double *error_db) {
    for (int i = 0; i < 20; i++) {
        const struct pump_stats before = stats_of(n);
        spin(0.75);
        const int added = added_delay(factor, error_db);
        const struct pump_stats after = stats_of(n);
        if (added < 0 || after.delay != before.delay || after.delay != expected_delay(after.quantum, after.waits))
            continue;
        ck_assert_int_eq(added, (int)(after.delay + more_samples));
        return after;
    }
    ck_abort_msg("no delay found in 15 s, or never what it must be: %u", stats_of(n).delay);
}

/* From now on that quantum, and the delay that goes with it, in the sound as in what is published. */
static struct pump_stats expect_quantum(unsigned quantum, unsigned more_samples, double *error_db) {
    probe_quantum(probe, quantum);
    spin_until(stats().quantum == quantum);
    const struct pump_stats s = expect_delay(node, more_samples, 1, error_db);
    ck_assert_uint_eq(s.quantum, quantum);
    spin_until(published_ns() == in_ns(stats().delay));
    return s;
}

static const unsigned quanta[] = {256, 32, 64, 128, 480, 1024, 2048, 8192, 256};

/* The quantum changes while it runs, others record, and every time the delay is found to be what it must be. */
static void walk_quanta(void) {
    for (unsigned i = 0; i < sizeof quanta / sizeof *quanta; i++) {
        double error_db = 0;
        const struct pump_stats s = expect_quantum(quanta[i], 0, &error_db);
        printf("quantum %u: delay %u samples, error %.0f dB, %s, late hops %llu\n", quanta[i], s.delay, error_db,
                s.waits ? "waits" : "does not wait", (unsigned long long)s.late_hops);
        ck_assert_double_le(error_db, -100);
    }
}

/* With real-time priority, and where its hops leave it the time, a node waits for them (docs/live-path.md). One that
 * was late may have ended that for 10 s. */
static bool waits_where_it_may(void) {
    const struct pump_stats s = stats();
    return s.waits || !s.realtime || s.hop_p99_us >= 0.3e6 * s.quantum / PUMP_RATE;
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

START_TEST(delay_at_every_quantum) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    walk_quanta();
    spin_until(waits_where_it_may());
}
END_TEST

/* Takes the right to real-time priority from this thread and those that it starts, or gives it back. */
static void may_be_realtime(bool may) {
    struct __user_cap_header_struct header = {.version = _LINUX_CAPABILITY_VERSION_3};
    struct __user_cap_data_struct data[2];
    ck_assert_int_eq((int)syscall(SYS_capget, &header, data), 0);
    if (may)
        data[0].effective |= data[0].permitted & 1u << CAP_SYS_NICE;
    else
        data[0].effective &= ~(1u << CAP_SYS_NICE);
    ck_assert_int_eq((int)syscall(SYS_capset, &header, data), 0);
}

START_TEST(delay_at_every_quantum_without_priority) {
    start_session("");
    may_be_realtime(false);
    open_node("null", 1, NULL);
    may_be_realtime(true);
    ck_assert(!stats().realtime);
    open_probe();
    walk_quanta();
    ck_assert(!stats().waits);
}
END_TEST

/* Highest real-time priority of this process's threads, but for those of that name (if other) or of those alone. */
static int priority(const char *name, bool other) {
    DIR *const tasks = opendir("/proc/self/task");
    int highest = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], comm[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *const file = fopen(path, "r");
        struct sched_param param = {0};
        if (file && fgets(comm, sizeof comm, file) && (strncmp(comm, name, strlen(name)) != 0) == other)
            sched_getparam(atoi(task->d_name), &param);
        if (file)
            fclose(file);
        highest = param.sched_priority > highest ? param.sched_priority : highest;
    }
    closedir(tasks);
    return highest;
}

START_TEST(the_network_at_strength_0_is_the_delayed_microphone) {
    start_session("");
    open_node("cpu", 1000, NULL);
    const int worker = priority("primeknet hops", false), data_loop = priority("primeknet hops", true);
    printf("priorities: data loop %d, worker %d\n", data_loop, worker);
    if (stats().realtime)
        ck_assert_int_eq(worker, data_loop - 1);
    else
        ck_assert_int_lt(stats().refusal, 0);
    open_probe();
    double error_db = 0;
    const struct pump_stats s = expect_delay(node, 0, 1, &error_db);
    printf("CPU engine: delay %u samples, error %.0f dB, hop p50 %u us, p99 %u us\n", s.delay, error_db, s.hop_p50_us,
            s.hop_p99_us);
    if (s.waits)
        ck_assert_uint_eq(s.delay, ENGINE_DELAY);
    pump_control(node_pump(node), (struct engine_controls){.strength = 1});
    spin(0.5);
    ck_assert_uint_gt(n_guarded_blocks, 100);
    ck_assert_uint_gt(n_guarded_hops, 100);
}
END_TEST

/* Where the highest peak of the correlation of both sources lies, in fractions of a sample; NAN where the two are not the
 * same: the machine missed a cycle there. */
static double lag(unsigned index) {
    const float *const x = probe_recorded(probe, 0), *const y = probe_recorded(probe, 1);
    const int range = 4000, n = 8192;
    double *const c = calloc((size_t)range, sizeof *c);
    int best = 1;
    for (int d = 0; d < range; d++) {
        for (int i = 0; i < n; i++)
            c[d] += (double)x[(int)index + i - d] * y[(int)index + i];
        if (c[d] > c[best])
            best = d;
    }
    const double a = c[best - 1], b = c[best], e = c[best + 1];
    free(c);
    double of_x = 0, of_y = 0;
    for (int i = 0; i < n; i++) {
        of_x += (double)x[(int)index + i - best] * x[(int)index + i - best];
        of_y += (double)y[(int)index + i] * y[(int)index + i];
    }
    if (!(b > 0.6 * sqrt(of_x * of_y)))
        return NAN;
    return best + 0.5 * (a - e) / (a - 2 * b + e);
}

START_TEST(at_44100_the_delay_is_constant_and_as_published) {
    start_session("RATE=44100");
    open_node("null", 1, NULL);
    open_probe();
    spin_until(stats().quantum > 0 && probe_length(probe) > 44100);
    spin_until(waits_where_it_may());
    spin(1.5);
    double constant = NAN;
    for (unsigned n_same = 0, n_looks = 0; n_same < 6; n_looks++) {
        const struct pump_stats s = stats();
        ck_assert_msg(n_looks < 40, "never the same six times, delay %u", s.delay);
        spin(0.5);
        const double found = lag(probe_length(probe) - 9000), published = 1e-9 * (double)published_ns() * 44100;
        /* A cycle was missed or a hop late; else blocks of 255 and 256. */
        if (isnan(found) || stats().delay != s.delay || s.delay != expected_delay(1, s.waits) + 2) {
            n_same = 0;
            continue;
        }
        printf("44.1 kHz: delay %.2f samples, published %.2f\n", found, published);
        ck_assert_double_eq_tol(found, published, 2); /* the resamplers' blocks differ by one */
        /* One that slipped between the rates would be 0.92; a cycle missed between two looks may do so once. */
        if (!(fabs(found - constant) < 0.5)) {
            n_same = 0;
            constant = found;
        }
        n_same++;
    }
}
END_TEST

START_TEST(recorders_of_both_worlds_get_it) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    shell("timeout 4 parec --device=enhanced_mic --rate=44100 --channels=2 --format=float32le --latency-msec=50 "
            "> %s/parec & timeout 4 pw-record --target enhanced_mic --rate 44100 --channels 2 --format f32 %s/pw.wav &",
            directory, directory);
    spin(5);
    const char *const names[] = {"parec", "pw.wav"};
    for (int i = 0; i < 2; i++) {
        char path[128];
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        FILE *const file = fopen(path, "r");
        ck_assert_ptr_nonnull(file);
        float frame[2];
        double power = 0, difference = 0;
        unsigned n = 0;
        if (i == 1)
            fseek(file, 400, SEEK_SET); /* past any header */
        while (fread(frame, sizeof frame, 1, file) == 1) {
            power += frame[0] * frame[0];
            difference += fabsf(frame[0] - frame[1]);
            n++;
        }
        fclose(file);
        printf("%s: %u frames, rms %.4f\n", names[i], n, sqrt(power / n));
        ck_assert_uint_gt(n, 44100);
        ck_assert_double_gt(sqrt(power / n), 0.3 * PEAK);
        ck_assert_double_lt(sqrt(power / n), 0.65 * PEAK);
        ck_assert(difference == 0);
    }
}
END_TEST

/* The recorder goes on at the graph's pace for a while. Wide, and looked at more than once: the machine may miss cycles. */
static void expect_pace(double time) {
    double pace = 0;
    for (unsigned i = 0; i < 5 && !(pace > 0.7 && pace < 1.2); i++) {
        const uint64_t samples = probe_samples(probe);
        const double begin = seconds();
        spin(time);
        pace = (double)(probe_samples(probe) - samples) / (seconds() - begin) / probe_rate(probe);
        printf("pace %.3f\n", pace);
    }
    ck_assert_double_gt(pace, 0.7);
    ck_assert_double_lt(pace, 1.2);
}

/* Until the recorder hears Enhanced Mic, or no longer. */
static double until_heard(bool heard) {
    const double begin = seconds();
    probe_peak(probe);
    do {
        spin(0.05);
        ck_assert_msg(seconds() < begin + 15, "%s after 15 s", heard ? "silent" : "still sounds");
    } while ((probe_peak(probe) > 0.5f * PEAK) != heard);
    return seconds() - begin;
}

static void destroy(const char *name) {
    ck_assert_int_eq(shell("timeout 5 pw-cli destroy %s < /dev/null > /dev/null", name), 0);
}

START_TEST(a_microphone_that_goes_and_returns) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    until_heard(true);
    for (unsigned i = 0; i < 2 * patience; i++) {
        shell("%s remove-mic %s/s", SESSION, directory);
        spin_until(!status().has_microphone);
        until_heard(false);
        expect_pace(1);
        shell("%s add-mic %s/s", SESSION, directory);
        spin_until(status().has_microphone);
        const double begin = seconds();
        link_ports("player:out", "fake_mic:input_MONO");
        until_heard(true);
        printf("heard %.2f s after the microphone was linked\n", seconds() - begin);
        ck_assert_double_lt(seconds() - begin, 1);
    }
    ck_assert_uint_eq(status().n_consumers, 1);
    link_ports("fake_mic:capture_MONO", "recorder:first");
    expect_delay(node, 0, 1, NULL);
}
END_TEST

START_TEST(no_microphone_at_the_start) {
    start_session("MIC_POSITIONS=");
    open_node("null", 1, NULL);
    probe = probe_open(PEAK);
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(status().n_consumers == 1 && probe_cycles(probe) > 0);
    expect_pace(2 * patience);
    ck_assert(!status().has_microphone);
    shell("%s add-mic %s/s", SESSION, directory);
    link_ports("player:out", "fake_mic:input_MONO");
    until_heard(true);
    ck_assert(status().has_microphone);
    ck_assert_uint_eq(status().n_consumers, 1);
}
END_TEST

START_TEST(pipewire_goes_and_returns) {
    start_session("");
    open_node("null", 1, NULL);
    spin_until(status().has_microphone);
    for (unsigned i = 0; i < patience; i++) {
        shell("%s halt %s/s", SESSION, directory);
        spin_until(!status().connected);
        spin(0.5);
        ck_assert_int_eq(shell("%s resume %s/s", SESSION, directory), 0);
        spin_until(status().has_microphone);
        open_probe();
        until_heard(true);
        probe_close(probe);
        probe = NULL;
    }
}
END_TEST

START_TEST(pipewire_comes_late) {
    start_session("");
    shell("%s halt %s/s", SESSION, directory);
    open_node("null", 1, NULL);
    spin(0.5);
    ck_assert(!status().connected);
    shell("%s resume %s/s", SESSION, directory);
    spin_until(status().has_microphone);
}
END_TEST

/* Whatever somebody destroys comes back, and what sounded goes on where it can. */
START_TEST(nodes_that_are_destroyed_come_back) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    until_heard(true);
    const char *const parts[] = {"capture.enhanced_mic", "pacer.enhanced_mic"};
    for (unsigned i = 0; i < 2; i++) {
        destroy(parts[i]);
        until_heard(true);
        ck_assert_uint_eq(status().n_consumers, 1);
        expect_delay(node, 0, 1, NULL);
    }
    shell("%s remove-mic %s/s", SESSION, directory); /* only the pacer, the new one, drives the recorder now */
    spin_until(!status().has_microphone);
    const uint64_t cycles = probe_cycles(probe);
    spin_until(probe_cycles(probe) > cycles + 100);
    shell("%s add-mic %s/s", SESSION, directory);
    link_ports("player:out", "fake_mic:input_MONO");
    until_heard(true);
    destroy("enhanced_mic");
    spin_until(status().n_consumers == 0);
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    until_heard(true);
    spin_until(status().n_consumers == 1);
}
END_TEST

START_TEST(nodes_of_the_others_come_back) {
    start_session("");
    open_node("null", 1, NULL);
    shell("%s add-mic %s/s usb_mic", SESSION, directory);
    open_more(0, NODE_SPEAKER, NULL);
    open_more(1, NODE_MORE_MIC, "usb_mic");
    const char *const parts[2][3] = {{"enhanced_speaker", "playback.enhanced_speaker", "pacer.enhanced_speaker"},
        {"enhanced_mic.usb_mic", "capture.enhanced_mic.usb_mic", "pacer.enhanced_mic.usb_mic"}};
    struct node_status s;
    for (unsigned i = 0; i < 2; i++) {
        for (unsigned k = 0; k < 3; k++) {
            spin_until((node_status(more[i], &s), s.has_microphone));
            destroy(parts[i][k]);
        }
        spin_until((node_status(more[i], &s), s.has_microphone));
    }
    probe = probe_open(PEAK);
    link_ports("player:out", "usb_mic:input_MONO");
    link_ports("enhanced_mic.usb_mic:capture_MONO", "recorder:second");
    until_heard(true);
    shell("pw-link -d enhanced_mic.usb_mic:capture_MONO recorder:second");
    until_heard(false);
    link_ports("player:out", "enhanced_speaker:playback_MONO");
    link_ports("null_out:monitor_FL", "recorder:second");
    until_heard(true);
}
END_TEST

/* Links come and go all the while. */
START_TEST(a_busy_graph_does_not_hold_up_another_microphone) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    shell("%s add-mic %s/s other", SESSION, directory);
    link_ports("player:out", "other:input_MONO");
    until_heard(true);
    shell("while pw-link fake_mic:capture_MONO other:input_MONO; do pw-link -d fake_mic:capture_MONO other:input_MONO; done "
            "> /dev/null 2>&1 &");
    struct err err;
    for (unsigned i = 0; i < 4; i++) {
        const char *const name = i % 2 ? "fake_mic" : "other";
        ck_assert_int_eq(node_microphone(node, name, NULL, &err), 0);
        spin_until(strcmp(status().microphone_name, name) == 0);
        until_heard(true);
    }
}
END_TEST

/* PipeWire goes amid the fade to another microphone: what comes after its return is not muted. */
START_TEST(pipewire_goes_amid_a_change) {
    start_session("");
    open_node("null", 1, NULL);
    spin_until(status().has_microphone);
    struct err err;
    ck_assert_int_eq(node_microphone(node, "other", NULL, &err), 0);
    shell("kill -9 $(cat %s/s/pipewire.pid)", directory);
    spin_until(!status().connected);
    spin(1); /* longer than the fade takes */
    shell("%s halt %s/s", SESSION, directory);
    ck_assert_int_eq(shell("%s resume %s/s", SESSION, directory), 0);
    spin_until(status().has_microphone);
    open_probe();
    until_heard(true);
}
END_TEST

/* With too few open files, at whatever point they run out, node_open says so or the node comes up. */
START_TEST(what_keeps_a_node_from_opening_is_told) {
    struct err err = {""};
    const struct node_options o = {.hop_p99_us = 1, .release = release};
    struct node_options options = o;
    start_session("");
    setenv("PIPEWIRE_CONFIG_DIR", "/nowhere", 1);
    options.engine = open_engine("null");
    ck_assert_int_lt(node_open(&node, &options, &err), 0);
    printf("%s\n", err.text);
    ck_assert_ptr_nonnull(strstr(err.text, CLIENT_CONF));
    ck_assert_uint_eq(n_released, 1);
    unsetenv("PIPEWIRE_CONFIG_DIR");

    struct rlimit all, few;
    ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
    few = all;
    bool opened = false;
    for (few.rlim_cur = 3; !opened; few.rlim_cur++) {
        ck_assert_uint_lt(few.rlim_cur, 100);
        options.engine = open_engine("null");
        const unsigned released = n_released;
        err.text[0] = '\0';
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &few), 0);
        opened = node_open(&node, &options, &err) == 0;
        ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
        if (opened)
            break;
        ck_assert_ptr_nonnull(strchr(err.text, ':'));
        ck_assert_uint_eq(n_released, released + 1);
        node = NULL;
    }
    spin_until(status().has_microphone);
}
END_TEST

/* The streams and the pacer of a node share a data loop, so that one waits for the right one. PipeWire 1.2 and later. */
START_TEST(one_data_loop_of_several) {
    start_session("");
    shell("mkdir -p $XDG_CONFIG_HOME/pipewire/%s.d; echo 'context.properties = { context.num-data-loops = 2 }' > "
            "$XDG_CONFIG_HOME/pipewire/%s.d/loops.conf", CLIENT_CONF, CLIENT_CONF);
    open_node("null", 1, NULL);
    spin_until(status().has_microphone);
    DIR *const tasks = opendir("/proc/self/task");
    unsigned n_loops = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        char path[300], comm[32] = "";
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", task->d_name);
        FILE *const file = fopen(path, "r");
        n_loops += file && fgets(comm, sizeof comm, file) && strncmp(comm, "data-loop", 9) == 0;
        if (file)
            fclose(file);
    }
    closedir(tasks);
    ck_assert_uint_le(n_loops, 1);
    shell("%s add-mic %s/s other", SESSION, directory);
    open_probe();
    link_ports("player:out", "other:input_MONO");
    struct err err;
    for (unsigned i = 0; i < 4 * patience; i++) {
        ck_assert_int_eq(node_microphone(node, i % 2 ? "fake_mic" : "other", NULL, &err), 0);
        spin_until(strcmp(status().microphone_name, i % 2 ? "fake_mic" : "other") == 0);
        until_heard(true);
    }
}
END_TEST

START_TEST(the_default_microphone_is_followed_or_the_configured_one) {
    start_session("");
    shell("pactl set-default-source fake_mic");
    open_node("null", 1, NULL);
    open_probe();
    spin_until(strcmp(status().microphone, "Fake microphone fake_mic") == 0);
    shell("%s add-mic %s/s other", SESSION, directory);
    shell("pactl set-default-source other");
    spin_until(strcmp(status().microphone, "Fake microphone other") == 0);
    ck_assert_int_eq(node_microphone(node, "fake_mic", NULL, NULL), 0);
    spin_until(strcmp(status().microphone, "Fake microphone fake_mic") == 0);
    until_heard(true);
    ck_assert_uint_eq(status().n_consumers, 1);
    expect_delay(node, 0, 1, NULL);
}
END_TEST

START_TEST(two_channels_are_mixed_or_one_is_chosen) {
    start_session("MIC_POSITIONS='FL FR'");
    open_node("null", 1, NULL);
    probe = probe_open(PEAK);
    ck_assert_ptr_nonnull(probe);
    link_ports("player:out", "fake_mic:input_FL");
    link_ports("player:out", "fake_mic:input_FR");
    link_ports("fake_mic:capture_FL", "recorder:first");
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    expect_delay(node, 0, 1, NULL); /* twice the same is no louder */
    shell("pw-link -d player:out fake_mic:input_FR");
    expect_delay(node, 0, 0.5f, NULL);
    struct err err;
    ck_assert_int_eq(node_microphone(node, NULL, "1", &err), 0);
    expect_delay(node, 0, 1, NULL);
    ck_assert_int_eq(node_microphone(node, NULL, "2", &err), 0);
    until_heard(false);
    ck_assert_int_eq(node_microphone(node, NULL, "FL", &err), 0);
    expect_delay(node, 0, 1, NULL);
    ck_assert_int_eq(node_microphone(node, NULL, "left", &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "left"));
    ck_assert_uint_eq(status().n_consumers, 1);
    expect_pace(0.5);
}
END_TEST

START_TEST(an_engine_is_exchanged_without_a_gap) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    expect_delay(node, 0, 1, NULL);
    /* A cycle that the machine missed, or a hop that it made late, spoils an exchange: then another one. */
    unsigned n_bad = 1;
    for (unsigned i = 0; i < 15 && n_bad; i++) {
        const struct pump_stats s = stats();
        const unsigned from = probe_length(probe), delay = expected_delay(s.quantum, s.waits);
        ck_assert_int_eq(worker_engine(node_worker(node), open_engine("null"), 1), 0);
        spin_until(n_released == i + 1 && !stats().swapping);
        spin(0.5);
        const unsigned to = probe_length(probe);
        const int raw = probe_delay(probe, 0, from, 1, NULL);
        ck_assert_uint_gt(to - from, PUMP_RATE * 3 / 10);
        n_bad = 0;
        for (unsigned k = from; k < to; k++)
            n_bad += !(fabsf(probe_noise(probe, (int64_t)k - raw - (int)delay) - probe_recorded(probe, 1)[k]) < 1e-5f);
        printf("exchange: %u samples of %u differ\n", n_bad, to - from);
    }
    ck_assert_uint_eq(n_bad, 0);
}
END_TEST

static unsigned long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (unsigned long)(usage.ru_nvcsw + usage.ru_nivcsw);
}

/* ThreadSanitizer has a thread of its own, which wakes ten times a second. */
#ifdef __SANITIZE_THREAD__
enum { FEW_SWITCHES = 50 };
#else
enum { FEW_SWITCHES = 20 };
#endif

/* All is in place, and nothing runs. */
static void expect_idle(void) {
    spin_until(status().has_microphone);
    spin(1);
    const unsigned long idle = switches();
    spin(1);
    printf("idle: %lu context switches a second\n", switches() - idle);
    ck_assert_uint_lt(switches() - idle, FEW_SWITCHES);
}

START_TEST(nothing_runs_while_nobody_records) {
    start_session("");
    open_node("null", 1, NULL);
    expect_idle();
    /* Somebody records the microphone itself: we are woken, but compute nothing. */
    shell("timeout 2 pw-record --target fake_mic %s/raw.wav &", directory);
    spin(2.5);
    ck_assert_uint_eq(stats().hops, 0);
    /* After a pause the old sound must not come again. */
    open_probe();
    until_heard(true);
    ck_assert_uint_gt(stats().hops, 0);
}
END_TEST

START_TEST(the_speaker_delays_what_is_played) {
    start_session("");
    open_speaker();
    open_speaker_probe();
    const unsigned some[] = {256, 480, 1024};
    for (unsigned i = 0; i < 3; i++)
        expect_quantum(some[i], some[i], NULL);
    ck_assert_str_eq(status().microphone, "Null output");
    ck_assert_uint_eq(status().n_consumers, 1);
    shell("pactl set-sink-volume enhanced_speaker 50%% &"); /* the cube of it, as people hear */
    expect_delay(node, 1024, 0.125f, NULL);
    shell("pactl set-sink-mute enhanced_speaker 1 &");
    until_heard(false);
    shell("(pactl set-sink-mute enhanced_speaker 0; pactl set-sink-volume enhanced_speaker 100%%) &");
    until_heard(true);
}
END_TEST

START_TEST(the_speaker_follows_the_output_and_never_itself) {
    start_session("");
    open_speaker();
    open_speaker_probe();
    until_heard(true);
    shell("pactl load-module module-null-sink sink_name=other_out sink_properties=device.description=Other > /dev/null");
    shell("pactl set-default-sink other_out &");
    spin_until(strcmp(status().microphone, "Other") == 0);
    until_heard(false);
    link_ports("other_out:monitor_FL", "recorder:second");
    until_heard(true);
    shell("pactl set-default-sink enhanced_speaker &");
    spin(1);
    ck_assert(status().has_microphone);
    ck_assert_str_ne(status().microphone_name, "enhanced_speaker");
    shell("pactl set-default-sink null_out &");
    spin_until(strcmp(status().microphone, "Null output") == 0);
    until_heard(true);
}
END_TEST

START_TEST(the_speaker_stands_while_nobody_plays) {
    start_session("");
    open_speaker();
    expect_idle();
    shell("timeout 2 pw-play --target null_out %s/none.wav 2> /dev/null", directory); /* others play past it */
    ck_assert_uint_eq(stats().hops, 0);
    open_speaker_probe();
    until_heard(true);
    shell("pw-link -d player:out enhanced_speaker:playback_MONO");
    spin_until(status().n_consumers == 0);
    spin(0.2);
    const uint64_t hops = stats().hops;
    spin(0.5);
    ck_assert_uint_eq(stats().hops, hops);
}
END_TEST

/* Two microphones and the speaker, on one worker: each sounds as it would alone, and none notices that others go. */
START_TEST(several_at_once) {
    start_session("");
    open_node("null", 1, NULL);
    shell("%s add-mic %s/s usb_mic", SESSION, directory);
    open_more(0, NODE_SPEAKER, NULL);
    open_more(1, NODE_MORE_MIC, "usb_mic");
    open_probe();
    link_ports("player:out", "enhanced_speaker:playback_MONO");
    link_ports("player:out", "usb_mic:input_MONO");
    shell("timeout 60 pw-record --target enhanced_mic.usb_mic %s/usb.wav 2> /dev/null &", directory);
    struct node_status n;
    for (unsigned i = 0; i < 2; i++)
        spin_until(stats_of(more[i]).hops > 500);
    expect_delay(node, 0, 1, NULL);
    node_status(more[0], &n);
    ck_assert_str_eq(n.microphone_name, "null_out");
    node_status(more[1], &n);
    ck_assert_str_eq(n.microphone_name, "usb_mic");
    ck_assert_str_eq(node_title(more[1]), "Enhanced Mic: Fake microphone usb_mic");
    for (unsigned i = 0; i < 2; i++) {
        node_close(more[i]);
        more[i] = NULL;
        expect_delay(node, 0, 1, NULL);
    }
    ck_assert_uint_eq(status().n_consumers, 1);
    ck_assert_uint_eq(n_released, 0);

    shell("%s remove-mic %s/s usb_mic", SESSION, directory);
    open_more(1, NODE_MORE_MIC, "usb_mic"); /* waits for it, and takes no other */
    spin(1);
    node_status(more[1], &n);
    ck_assert(n.connected && !n.has_microphone);
    shell("%s add-mic %s/s usb_mic", SESSION, directory);
    spin_until((node_status(more[1], &n), n.has_microphone));
    link_ports("player:out", "usb_mic:input_MONO");
    /* Who follows the default does not take what is enhanced already. */
    shell("pactl set-default-source enhanced_mic.usb_mic &");
    spin_until(strcmp(status().microphone_name, "usb_mic") == 0);
    shell("pactl set-default-source fake_mic &");
    spin_until(strcmp(status().microphone_name, "fake_mic") == 0);
    shell("pw-link -d fake_mic:capture_MONO recorder:first; pw-link -d enhanced_mic:capture_MONO recorder:second");
    link_ports("usb_mic:capture_MONO", "recorder:first");
    link_ports("enhanced_mic.usb_mic:capture_MONO", "recorder:second");
    spin(1);
    expect_delay(more[1], 0, 1, NULL);
}
END_TEST

/* ---- frame ------------------------------------------------------------------------------------------------------- */

static int run(void) {
    struct err err;
    if (model_load(&model, SRCDIR "/models/small.safetensors", &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    Suite *const s = suite_create("live");
    TCase *const c = tcase_create("live");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, delay_at_every_quantum);
    tcase_add_test(c, delay_at_every_quantum_without_priority);
    tcase_add_test(c, the_network_at_strength_0_is_the_delayed_microphone);
    tcase_add_test(c, at_44100_the_delay_is_constant_and_as_published);
    tcase_add_test(c, recorders_of_both_worlds_get_it);
    tcase_add_test(c, a_microphone_that_goes_and_returns);
    tcase_add_test(c, no_microphone_at_the_start);
    tcase_add_test(c, pipewire_goes_and_returns);
    tcase_add_test(c, pipewire_comes_late);
    tcase_add_test(c, the_default_microphone_is_followed_or_the_configured_one);
    tcase_add_test(c, two_channels_are_mixed_or_one_is_chosen);
    tcase_add_test(c, an_engine_is_exchanged_without_a_gap);
    tcase_add_test(c, nothing_runs_while_nobody_records);
    suite_add_tcase(s, c);
    TCase *const several = tcase_create("several");
    tcase_add_checked_fixture(several, setup, teardown);
    tcase_add_test(several, the_speaker_delays_what_is_played);
    tcase_add_test(several, the_speaker_follows_the_output_and_never_itself);
    tcase_add_test(several, the_speaker_stands_while_nobody_plays);
    tcase_add_test(several, several_at_once);
    suite_add_tcase(s, several);
    TCase *const faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_test(faults, nodes_that_are_destroyed_come_back);
    tcase_add_test(faults, nodes_of_the_others_come_back);
    tcase_add_test(faults, a_busy_graph_does_not_hold_up_another_microphone);
    tcase_add_test(faults, pipewire_goes_amid_a_change);
    tcase_add_test(faults, what_keeps_a_node_from_opening_is_told);
    tcase_add_test(faults, one_data_loop_of_several);
    suite_add_tcase(s, faults);
    /* PipeWire's threads would not be in the fork; the session is ended below */
    const int failed = run_suite(s, CK_NOFORK);
    model_free(model);
    return failed != 0;
}

int main(int argc, char **argv) {
    if (argc > 1)
        patience = (unsigned)strtoul(argv[1], NULL, 10);
    setvbuf(stdout, NULL, _IOLBF, 0);
    const int missing = shell("%s check", SESSION);
    if (missing)
        return missing;
    snprintf(directory, sizeof directory, "/tmp/test-live.XXXXXX");
    if (!mkdtemp(directory))
        return 1;
    /* However the tests end, nothing of theirs goes on. */
    const pid_t child = fork();
    if (child == 0) {
        alarm(300 * patience);
        exit(run());
    }
    int status_of_child = 1;
    waitpid(child, &status_of_child, 0);
    if (shell("test -d %s/s && %s stop %s/s", directory, SESSION, directory) == 0)
        fprintf(stderr, "a test left its session behind\n");
    shell("rm -rf %s", directory);
    if (WIFSIGNALED(status_of_child))
        fprintf(stderr, "ended by signal %d\n", WTERMSIG(status_of_child));
    return WIFEXITED(status_of_child) ? WEXITSTATUS(status_of_child) : 1;
}
