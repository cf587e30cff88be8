/* The live path in a real PipeWire. Every test starts a private session (tests/pipewire-session) with a fake
 * microphone, opens the node in this process, and checks its output to the sample (tests/support/probe.h).
 *
 * A busy machine misses cycles of the graph. The recorder knows from the graph's clock which ones, and samples are
 * compared only in stretches without a missed cycle. Hops are never late, because the pump runs by the graph's clock,
 * and gets its next block only when the worker has finished the previous ones. So nothing is tried twice; a test waits
 * only for events that must happen.
 *
 * More than 700 lines, because every case needs the session, the node and the recorder.
 *
 * An argument multiplies the time that tests run or wait: "test-live 10". */
#include "config.h"

#include "base/gcd.h"
#include "graph/node.h"
#include "graph/pipewire.h"
#include "model/model.h"
#include "tests/support/manager.h"
#include "tests/support/probe.h"
#include "tests/support/rt_guard.h"
#include "tests/support/run.h"

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
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SESSION SRCDIR "/tests/pipewire-session"
#define PEAK 0.25f
#define HOP 512u /* of the model small; the other model's is 256 */
#define WINDOW 1024u

/* PipeWire leaks a little in modules that it unloads, whose functions LeakSanitizer can no longer name. */
const char *__asan_default_options(void);
const char *__asan_default_options(void) {
    return "detect_leaks=0";
}

static unsigned patience = 1;
static char directory[64]; /* of all sessions; "s" in it is the present one's */
static struct model *model, *other;
static struct node *node, *more[2]; /* those beside it share its worker */
static struct probe *probe;
static const char *probe_links[3][2]; /* from, to; or NULL */
static double relinked;               /* when one of them was last restored */
static struct manager *manager;
static unsigned n_released;

/* ---- the linker puts these in between: the graph's clock, and a guard around what PipeWire's data loop and the worker
 * run of ours ------------------------------------------------------------------------------------------------------ */

static _Atomic unsigned n_guarded_blocks, n_guarded_hops;
static _Atomic uint64_t graph_ns = 10000000000; /* no block is of yesterday: 0 is long ago */

static _Atomic uint64_t passed_ns; /* since then: the clock stands while a hop is computed */

static void on_cycle(unsigned n, unsigned rate) {
    atomic_fetch_add(&passed_ns, n * 1000000000ull / rate);
}

int __real_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t);
int __wrap_clock_gettime(clockid_t id, struct timespec *t) {
    (void)id;
    const uint64_t ns = atomic_load(&graph_ns);
    *t = (struct timespec){.tv_sec = (time_t)(ns / 1000000000u), .tv_nsec = (long)(ns % 1000000000u)};
    return 0;
}

static double seconds(void) {
    struct timespec t;
    __real_clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

void __real_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
void __wrap_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out);
void __wrap_pump_process(struct pump *p, const float *in, unsigned n_in, float *out, unsigned n_out) {
    while (!pump_alive(p))
        nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    atomic_fetch_add(&graph_ns, atomic_exchange(&passed_ns, 0));
    rt_guard_enter();
    __real_pump_process(p, in, n_in, out, n_out);
    rt_guard_leave();
    pump_alive(p); /* what is due now must be done next time */
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

void __real_engine_pause(struct engine *e, unsigned stream);
void __wrap_engine_pause(struct engine *e, unsigned stream);
void __wrap_engine_pause(struct engine *e, unsigned stream) {
    rt_guard_enter();
    __real_engine_pause(e, stream);
    rt_guard_leave();
}

/* The source's events, for tests that send it false ones. */
static const struct pw_stream_events *source_events;
static void *source_data;

void __real_pw_stream_add_listener(struct pw_stream *stream, struct spa_hook *hook,
                                   const struct pw_stream_events *events, void *data);
void __wrap_pw_stream_add_listener(struct pw_stream *stream, struct spa_hook *hook,
                                   const struct pw_stream_events *events, void *data);
void __wrap_pw_stream_add_listener(struct pw_stream *stream, struct spa_hook *hook,
                                   const struct pw_stream_events *events, void *data) {
    if (events->io_changed) {
        source_events = events;
        source_data = data;
    }
    __real_pw_stream_add_listener(stream, hook, events, data);
}

/* How many of the node's next attempts fail. */
static unsigned n_failing_streams, n_failing_connections;
static bool dispatching;

struct pw_stream *__real_pw_stream_new(struct pw_core *core, const char *name, struct pw_properties *props);
struct pw_stream *__wrap_pw_stream_new(struct pw_core *core, const char *name, struct pw_properties *props);
struct pw_stream *__wrap_pw_stream_new(struct pw_core *core, const char *name, struct pw_properties *props) {
    if (n_failing_streams == 0)
        return __real_pw_stream_new(core, name, props);
    n_failing_streams--;
    pw_properties_free(props);
    errno = EMFILE;
    return NULL;
}

struct pw_core *__real_pw_context_connect(struct pw_context *context, struct pw_properties *props, size_t size);
struct pw_core *__wrap_pw_context_connect(struct pw_context *context, struct pw_properties *props, size_t size);
struct pw_core *__wrap_pw_context_connect(struct pw_context *context, struct pw_properties *props, size_t size) {
    if (n_failing_connections == 0 || !dispatching)
        return __real_pw_context_connect(context, props, size);
    n_failing_connections--;
    errno = EMFILE;
    return NULL;
}

/* ---- session and node -------------------------------------------------------------------------------------------- */

static void spin(double time) {
    const double end = seconds() + time;
    for (double left; (left = end - seconds()) > 0;) {
        struct node *const nodes[] = {node, more[0], more[1]};
        struct pollfd fds[3];
        for (int i = 0; i < 3; i++)
            fds[i] = (struct pollfd){.fd = nodes[i] ? node_fd(nodes[i]) : -1, .events = POLLIN};
        poll(fds, 3, (int)(left * 1000) + 1);
        for (int i = 0; i < 3; i++) {
            dispatching = true;
            if (nodes[i] && fds[i].revents)
                ck_assert_int_eq(node_dispatch(nodes[i]), 0);
            dispatching = false;
        }
    }
}

/* Runs a command while the nodes dispatch: a session manager may wait for their answer, and the command for the session
 * manager. Returns its exit status, or -1 if it had to be killed after a minute. */
__attribute__((format(printf, 1, 2))) static int shell(const char *format, ...) {
    char text[1024];
    char *const command[] = {"sh", "-c", text, NULL};
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    pid_t pid;
    int code;
    if (posix_spawnp(&pid, *command, NULL, NULL, command, environ) != 0)
        return -1;
    for (const double end = seconds() + 60; waitpid(pid, &code, WNOHANG) == 0; spin(0.005))
        if (seconds() > end && kill(pid, SIGKILL) == 0)
            fprintf(stderr, "not within 60 s: %s\n", text);
    return WIFEXITED(code) ? WEXITSTATUS(code) : -1;
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

/* Dispatches until the condition holds; the machine may be slow, so this waits long before it gives up: a minute. */
#define spin_until(condition) \
    do { \
        const double end = seconds() + 60; \
        bool met; \
        while (!(met = (condition)) && seconds() < end) \
            spin(0.02); \
        ck_assert_msg(met, "not within 60 s: %s", #condition); \
    } while (0)

static void release(void *data, struct engine *engine) {
    (void)data;
    engine_close(engine);
    n_released++;
}

static struct engine *engine_of(const char *name, const struct model *of) {
    struct engine *engine;
    struct err err;
    struct engine_options options = {.name = name, .n_streams = WORKER_STREAMS, .max_hops = 1};
    ck_assert_msg(engine_open(&engine, &options, of, &err) == 0, "%s", err.text);
    return engine;
}

static struct engine *open_engine(const char *name) {
    return engine_of(name, model);
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

/* Opens a further node, on the first one's worker. */
static void open_more(unsigned i, enum node_kind kind, const char *microphone) {
    struct err err;
    const struct node_options o = {.kind = kind, .microphone = microphone, .worker = node_worker(node)};
    ck_assert_msg(node_open(&more[i], &o, &err) == 0, "%s", err.text);
    pump_control(node_pump(more[i]), (struct engine_controls){0});
}

/* A session with every kind of node, and a second microphone, usb_mic. */
static void start_all(void) {
    start_session("");
    open_node("null", 1, NULL);
    shell("%s add-mic %s/s usb_mic", SESSION, directory);
    open_more(0, NODE_MORE_MIC, "usb_mic");
    open_more(1, NODE_SPEAKER, NULL);
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

static bool has_port(const char *name) {
    return shell("pw-link -io | grep -qx '%s'", name) == 0;
}

static bool are_linked(const char *from, const char *to) {
    return shell("pw-link -l '%s' | grep -qx '  |-> %s'", from, to) == 0;
}

/* pw-link waits for ever if one of the ports disappears before the link is ready. */
static void link_ports(const char *from, const char *to) {
    spin_until(has_port(from) && has_port(to));
    spin_until(shell("timeout 2 pw-link '%s' '%s'", from, to) == 0 || are_linked(from, to));
}

static void link_probe(unsigned i, const char *from, const char *to) {
    probe_links[i][0] = from;
    probe_links[i][1] = to;
    link_ports(from, to);
}

/* To force a quantum, PipeWire 1.4 suspends all streams. It may fail to start one again, and then its links are lost:
 * the node and the session manager restore theirs within some seconds, and this function those of the probe. */
static void relink(void) {
    for (unsigned i = 0; i < 3 && probe_links[i][0]; i++) {
        if (are_linked(probe_links[i][0], probe_links[i][1]))
            continue;
        link_ports(probe_links[i][0], probe_links[i][1]);
        relinked = seconds();
    }
}

/* Waits until the recorder hears Enhanced Mic, or no longer does. */
static void until_heard(bool heard) {
    const double begin = seconds();
    probe_peak(probe);
    do {
        spin(0.05);
        if (seconds() < begin + 60)
            continue;
        shell("{ pw-link -l; pw-dump | grep -E '\"(state|node.name|error|output-node-id|input-node-id)\":'; } >&2");
        ck_abort_msg("%s after 60 s", heard ? "silent" : "still sounds");
    } while ((probe_peak(probe) > 0.5f * PEAK) != heard);
}

/* Noise into the fake microphone; the microphone and Enhanced Mic into the recorder. Enhanced Mic's port stays once the
 * session manager has configured the node, which it does before it links the node to its microphone. */
static void open_probe(void) {
    spin_until(status().settled);
    probe = probe_open(PEAK, on_cycle);
    ck_assert_ptr_nonnull(probe);
    link_probe(0, "player:out", "fake_mic:input_MONO");
    link_probe(1, "fake_mic:capture_MONO", "recorder:first");
    link_probe(2, "enhanced_mic:capture_MONO", "recorder:second");
    until_heard(true);
}

/* Noise into the recorder, and into Enhanced Speaker; what the output then plays into the recorder, a quantum later:
 * a null sink has its monitor's samples ready in the next cycle. */
static void open_speaker_probe(void) {
    probe = probe_open(PEAK, on_cycle);
    ck_assert_ptr_nonnull(probe);
    link_probe(0, "player:out", "recorder:first");
    link_probe(1, "player:out", "enhanced_speaker:playback_MONO");
    link_probe(2, "null_out:monitor_FL", "recorder:second");
    until_heard(true);
}

static void setup(void) {
    node = more[0] = more[1] = NULL;
    probe = NULL;
    manager = NULL;
    memset(probe_links, 0, sizeof probe_links);
    relinked = -INFINITY;
    n_released = 0;
    atomic_store(&n_guarded_blocks, 0);
    atomic_store(&n_guarded_hops, 0);
}

static void teardown(void) {
    probe_close(probe);
    node_close(more[0]);
    node_close(more[1]);
    node_close(node);
    node = more[0] = more[1] = NULL; /* shell dispatches those that are open */
    manager_close(manager);
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

static unsigned expected_delay(unsigned hop, unsigned quantum, bool waits) {
    return WINDOW - gcd(hop, quantum) + (waits ? 0 : quantum > hop ? quantum : hop);
}

/* Waits until the recorder has n more samples. */
static void record(unsigned n) {
    const uint64_t samples = probe_samples(probe);
    spin_until(probe_samples(probe) >= samples + n);
}

/* Waits until the recorder has n new samples without a gap. Returns the index of the last. */
static unsigned record_whole(unsigned n) {
    const unsigned from = probe_length(probe);
    spin_until(probe_whole(probe) >= n && probe_length(probe) >= from + n);
    return probe_length(probe) - 1;
}

static bool has_its_delay(const struct node *n) {
    const struct pump_stats s = stats_of(n);
    return s.quantum && s.delay == expected_delay(s.hop, s.quantum, s.waits);
}

/* Waits until the node adds and reports the delay that it should, and the graph adds more_samples. Returns the node's
 * statistics. */
static struct pump_stats expect_delay(const struct node *n, unsigned more_samples, float factor, double *error_db) {
    struct pump_stats s;
    unsigned index, n_torn = 0;
    int first, second;
    bool again;
    do { /* a stretch amid which it says nothing else, and which came whole through PipeWire alone */
        spin_until(has_its_delay(n) || (relink(), false));
        s = stats_of(n);
        index = record_whole(4096 + s.delay + 2 * s.quantum) - 2047;
        first = probe_delay(probe, 0, index, 1, NULL);
        second = probe_delay(probe, 1, index, factor, error_db);
        again = stats_of(n).delay != s.delay;
        if ((first < 0 || second < 0) && n_torn++ < 10) {
            spin(0.5); /* a failed stream is reopened within that time, and its link is lost */
            relink();
            again |= first < 0 || seconds() < relinked + 5;
        }
    } while (again);
    ck_assert_int_ge(first, 0);
    ck_assert_msg(second - first == (int)(s.delay + more_samples),
                  "found at %d and %d, delay %u and %u, hop %u, quantum %u, whole %u of %u", first, second, s.delay,
                  more_samples, s.hop, s.quantum, probe_whole(probe), probe_length(probe));
    return s;
}

/* Forces a quantum, and expects its delay in the sound and in the published latency. */
static struct pump_stats expect_quantum(unsigned quantum, unsigned more_samples, double *error_db) {
    probe_quantum(probe, quantum);
    spin_until(stats().quantum == quantum || (relink(), false));
    const struct pump_stats s = expect_delay(node, more_samples, 1, error_db);
    ck_assert_uint_eq(s.quantum, quantum);
    spin_until(published_ns() == in_ns(stats().delay));
    return s;
}

static const unsigned quanta[] = {256, 32, 64, 128, 480, 1024, 2048, 8192, 256};

/* Changes the quantum while clients record, and checks the delay each time. */
static void walk_quanta(void) {
    for (unsigned i = 0; i < sizeof quanta / sizeof *quanta; i++) {
        double error_db = 0;
        const struct pump_stats s = expect_quantum(quanta[i], 0, &error_db);
        printf("quantum %u: delay %u samples, error %.0f dB, %s, late hops %llu\n", quanta[i], s.delay, error_db,
               s.waits ? "waits" : "does not wait", (unsigned long long)s.late_hops);
        ck_assert_double_le(error_db, -100);
    }
}

/* ---- tests ------------------------------------------------------------------------------------------------------- */

START_TEST(delay_at_every_quantum) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    walk_quanta();
    spin_until(stats().waits == stats().realtime);
}
END_TEST

static bool is_worker(pid_t tid) {
    char path[64], comm[32] = "";
    snprintf(path, sizeof path, "/proc/self/task/%ld/comm", (long)tid);
    FILE *const file = fopen(path, "r");
    if (file && !fgets(comm, sizeof comm, file))
        comm[0] = '\0';
    if (file)
        fclose(file);
    return strcmp(comm, "primeknet hops\n") == 0;
}

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

/* Gives real-time priority to all threads of this process except this one and the worker, if the limits allow it: with
 * fewer missed cycles, a stretch without one comes sooner. */
static void raise_data_loops(void) {
    DIR *const tasks = opendir("/proc/self/task");
    for (struct dirent *task; (task = readdir(tasks));) {
        const pid_t tid = atoi(task->d_name);
        if (tid > 0 && tid != getpid() && !is_worker(tid))
            sched_setscheduler(tid, SCHED_FIFO | SCHED_RESET_ON_FORK, &(struct sched_param){.sched_priority = 50});
    }
    closedir(tasks);
}

START_TEST(delay_at_every_quantum_without_priority) {
    start_session("");
    may_be_realtime(false);
    open_node("null", 1, NULL);
    may_be_realtime(true);
    raise_data_loops();
    ck_assert(!stats().realtime);
    open_probe();
    walk_quanta();
    ck_assert(!stats().waits);
}
END_TEST

/* Highest real-time priority of this process's threads, of the worker or of the others. */
static int priority(bool worker) {
    DIR *const tasks = opendir("/proc/self/task");
    int highest = 0;
    for (struct dirent *task; (task = readdir(tasks));) {
        struct sched_param param = {0};
        if (is_worker(atoi(task->d_name)) == worker)
            sched_getparam(atoi(task->d_name), &param);
        highest = param.sched_priority > highest ? param.sched_priority : highest;
    }
    closedir(tasks);
    return highest;
}

START_TEST(the_network_at_strength_0_is_the_delayed_microphone) {
    start_session("");
    open_node("cpu", 1000, NULL);
    const int worker = priority(true), data_loop = priority(false);
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
        ck_assert_uint_eq(s.delay, WINDOW - HOP);
    pump_control(node_pump(node), (struct engine_controls){.strength = 1});
    spin(1.5);
    ck_assert_uint_gt(n_guarded_blocks, 100);
    ck_assert_uint_gt(n_guarded_hops, 100);
}
END_TEST

static double sample(unsigned which, int index) {
    return probe_recorded(probe, which, (unsigned)index);
}

/* Returns the lag between both sources, by the highest peak of their correlation, to fractions of a sample; NAN if they
 * are not the same signal. */
static double lag(unsigned index) {
    const int range = 4000, n = 8192;
    double *const c = calloc((size_t)range, sizeof *c);
    int best = 1;
    for (int d = 0; d < range; d++) {
        for (int i = 0; i < n; i++)
            c[d] += sample(0, (int)index + i - d) * sample(1, (int)index + i);
        if (c[d] > c[best])
            best = d;
    }
    const double a = c[best - 1], b = c[best], e = c[best + 1];
    free(c);
    double of_x = 0, of_y = 0;
    for (int i = 0; i < n; i++) {
        of_x += pow(sample(0, (int)index + i - best), 2);
        of_y += pow(sample(1, (int)index + i), 2);
    }
    if (!(b > 0.6 * sqrt(of_x * of_y)))
        return NAN;
    return best + 0.5 * (a - e) / (a - 2 * b + e);
}

START_TEST(at_44100_the_delay_is_constant_and_as_reported) {
    start_session("RATE=44100");
    open_node("null", 1, NULL);
    open_probe();
    /* The resamplers' blocks are of 278 and 279 samples, and differ by one in and out. */
    spin_until(stats().quantum > 0 && stats().delay == expected_delay(HOP, 1, stats().waits) + 2);
    record(44100);
    const unsigned delay = stats().delay, end = record_whole(66150);
    const double published = 1e-9 * (double)published_ns() * 44100, last = lag(end - 8192);
    for (unsigned i = 0; i < 6; i++) {
        const double found = lag(end - 8192 - i * 8000);
        printf("44.1 kHz: delay %.2f samples, published %.2f\n", found, published);
        ck_assert_double_eq_tol(found, published, 4); /* PipeWire 1.4 counts 3 more in its resamplers than they add */
        ck_assert_double_eq_tol(found, last, 0.5);    /* one that slipped between the rates would be 0.92 */
    }
    ck_assert_uint_eq(stats().delay, delay);
}
END_TEST

static bool has_size(const char *name, long size) {
    char path[128];
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", directory, name);
    return stat(path, &st) == 0 && st.st_size >= size;
}

START_TEST(pipewire_and_pulseaudio_clients_record) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    shell("timeout 60 parec --device=enhanced_mic --rate=44100 --channels=2 --format=float32le --latency-msec=50 "
          "> %s/parec & timeout 60 pw-record --target enhanced_mic --rate 44100 --channels 2 --format f32 %s/pw.wav &",
          directory, directory);
    spin_until(has_size("parec", 1000000) && has_size("pw.wav", 1000000)); /* 2.8 s */
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

/* Returns the node's serial number, which is unique; 0: there is no such node. */
static unsigned serial_of(const char *name) {
    char command[256];
    unsigned serial = 0;
    snprintf(command, sizeof command,
             "timeout 5 pw-cli info %s < /dev/null 2> /dev/null | sed -n 's/.*object.serial = \"\\(.*\\)\"/\\1/p'",
             name);
    FILE *const info = popen(command, "r");
    if (fscanf(info, "%u", &serial) != 1)
        serial = 0;
    pclose(info);
    return serial;
}

/* Destroys a node, and waits for its replacement. */
static void destroy(const char *name) {
    unsigned before, now = 0;
    spin_until((before = serial_of(name)) != 0);
    ck_assert_int_eq(shell("timeout 5 pw-cli destroy %s < /dev/null > /dev/null", name), 0);
    spin_until((now = serial_of(name)) != 0 && now != before);
}

START_TEST(a_microphone_disappears_and_returns) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    until_heard(true);
    for (unsigned i = 0; i < 2 * patience; i++) {
        shell("%s remove-mic %s/s", SESSION, directory);
        spin_until(!status().has_microphone);
        until_heard(false);
        record(PUMP_RATE); /* the pacer's doing */
        shell("%s add-mic %s/s", SESSION, directory);
        spin_until(status().has_microphone);
        link_ports("player:out", "fake_mic:input_MONO");
        until_heard(true);
    }
    ck_assert_uint_eq(status().n_consumers, 1);
    link_ports("fake_mic:capture_MONO", "recorder:first");
    expect_delay(node, 0, 1, NULL);
}
END_TEST

START_TEST(no_microphone_at_the_start) {
    start_session("MIC_POSITIONS=");
    open_node("null", 1, NULL);
    probe = probe_open(PEAK, on_cycle);
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(status().n_consumers == 1);
    record(2 * patience * PUMP_RATE);
    ck_assert(!status().has_microphone);
    shell("%s add-mic %s/s", SESSION, directory);
    link_ports("player:out", "fake_mic:input_MONO");
    until_heard(true);
    ck_assert(status().has_microphone);
    ck_assert_uint_eq(status().n_consumers, 1);
}
END_TEST

START_TEST(pipewire_ends_and_restarts) {
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

START_TEST(pipewire_starts_late) {
    start_session("");
    shell("%s halt %s/s", SESSION, directory);
    open_node("null", 1, NULL);
    spin(0.5);
    ck_assert(!status().connected);
    shell("%s resume %s/s", SESSION, directory);
    spin_until(status().has_microphone);
}
END_TEST

/* Destroyed nodes are reopened, and the sound continues where possible. */
START_TEST(destroyed_nodes_are_recreated) {
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
    record(PUMP_RATE);
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

/* PipeWire before 1.2 may pass a clock that does not advance, if a new microphone's memory has the same file descriptor
 * number as that of one that is gone. */
START_TEST(a_stopped_clock_is_replaced) {
    static struct spa_io_position gone = {.clock = {.rate = {1, PUMP_RATE}, .duration = HOP}};
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    until_heard(true);
    source_events->io_changed(source_data, SPA_IO_Position, &gone, sizeof gone);
    spin_until(status().n_consumers == 0);
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    until_heard(true);
}
END_TEST

/* All nodes run, because WirePlumber 0.4 exits when an idle node disappears. */
START_TEST(further_nodes_are_recreated) {
    start_all();
    probe = probe_open(PEAK, on_cycle);
    const struct {
        const char *parts[3];
        const char *links[2][2]; /* the first is lost with the first part */
    } all[2] = {{{"enhanced_mic.usb_mic", "capture.enhanced_mic.usb_mic", "pacer.enhanced_mic.usb_mic"},
                 {{"enhanced_mic.usb_mic:capture_MONO", "recorder:second"}, {"player:out", "usb_mic:input_MONO"}}},
                {{"enhanced_speaker", "playback.enhanced_speaker", "pacer.enhanced_speaker"},
                 {{"player:out", "enhanced_speaker:playback_MONO"}, {"null_out:monitor_FL", "recorder:second"}}}};
    for (unsigned i = 0; i < 2; i++) {
        link_ports(all[i].links[0][0], all[i].links[0][1]);
        link_ports(all[i].links[1][0], all[i].links[1][1]);
        until_heard(true);
        for (unsigned k = 0; k < 3; k++) {
            destroy(all[i].parts[k]);
            if (k == 0)
                link_ports(all[i].links[0][0], all[i].links[0][1]);
            until_heard(true);
        }
        shell("pw-link -d enhanced_mic.usb_mic:capture_MONO recorder:second");
    }
}
END_TEST

/* Recorders that chose a destroyed node are linked to its replacement. */
START_TEST(recorders_of_a_destroyed_node_are_brought_back) {
    start_all();
    shell("pactl set-default-source fake_mic"); /* who follows the default is the session manager's to bring back */
    spin(1); /* it may forget a stream that comes while it moves others to a new default */
    shell("timeout 100 pw-record --target enhanced_mic %s/first.wav 2> /dev/null & "
          "timeout 100 pw-record --target enhanced_mic.usb_mic %s/second.wav 2> /dev/null & "
          "head -c 40000000 /dev/zero | timeout 100 pacat --playback --device=enhanced_speaker &",
          directory, directory);
    const struct node *const nodes[] = {node, more[0], more[1]};
    const char *const names[] = {"enhanced_mic", "enhanced_mic.usb_mic", "enhanced_speaker"};
    struct node_status n;
    for (unsigned i = 0; i < 3; i++)
        spin_until((node_status(nodes[i], &n), n.n_recorders == 1));
    for (unsigned i = 0; i < 3; i++) {
        destroy(names[i]);
        spin_until((node_status(nodes[i], &n), n.n_recorders == 1 && n.n_brought_back == 1));
    }
    for (unsigned i = 0; i < 3; i++) /* and nobody else is taken from where they are */
        spin_until((node_status(nodes[i], &n), n.n_recorders == 1 && n.n_brought_back == 1));
}
END_TEST

/* Links appear and disappear throughout. */
START_TEST(a_busy_graph_does_not_delay_another_microphone) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    shell("%s add-mic %s/s other", SESSION, directory);
    link_ports("player:out", "other:input_MONO");
    until_heard(true);
    shell(
        "link='timeout 5 pw-link'; "
        "while $link fake_mic:capture_MONO other:input_MONO; do $link -d fake_mic:capture_MONO other:input_MONO; done "
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

/* PipeWire ends during the fade to another microphone. The sound after its return is not muted. */
START_TEST(pipewire_ends_during_a_change) {
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

/* If file descriptors run out, at any point, node_open reports that or the node opens. */
START_TEST(the_reason_why_a_node_does_not_open_is_reported) {
    struct err err = {0};
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
    if (strverscmp(pw_get_library_version(), "1.6") >= 0)
        return; /* it aborts where it finds too few files */

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

/* The streams and the pacer of a node share a data loop, so that they wait for the right one. PipeWire 1.2 and
 * later. */
START_TEST(one_data_loop_of_several) {
    start_session("");
    shell("mkdir -p $XDG_CONFIG_HOME/pipewire/%s.d; echo 'context.properties = { context.num-data-loops = 2 }' > "
          "$XDG_CONFIG_HOME/pipewire/%s.d/loops.conf",
          CLIENT_CONF, CLIENT_CONF);
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
    /* One that is chosen while it is the default stays when the default changes. */
    ck_assert_int_eq(node_microphone(node, NULL, NULL, NULL), 0);
    spin_until(strcmp(status().microphone, "Fake microphone other") == 0);
    ck_assert_int_eq(node_microphone(node, "other", NULL, NULL), 0);
    spin(1); /* longer than the fade takes */
    shell("pactl set-default-source fake_mic");
    spin(1);
    spin_until(strcmp(status().microphone, "Fake microphone other") == 0);
}
END_TEST

START_TEST(two_channels_are_mixed_or_one_is_chosen) {
    start_session("MIC_POSITIONS='FL FR'");
    open_node("null", 1, NULL);
    probe = probe_open(PEAK, on_cycle);
    ck_assert_ptr_nonnull(probe);
    link_ports("player:out", "fake_mic:input_FL");
    link_ports("player:out", "fake_mic:input_FR");
    link_ports("fake_mic:capture_FL", "recorder:first");
    link_ports("enhanced_mic:capture_MONO", "recorder:second");
    until_heard(true);
    expect_delay(node, 0, 1, NULL); /* twice the same is no louder */
    shell("pw-link -d player:out fake_mic:input_FR");
    until_heard(false); /* half as loud at most */
    expect_delay(node, 0, 0.5f, NULL);
    struct err err;
    ck_assert_int_eq(node_microphone(node, NULL, "1", &err), 0);
    until_heard(true);
    expect_delay(node, 0, 1, NULL);
    ck_assert_int_eq(node_microphone(node, NULL, "2", &err), 0);
    until_heard(false);
    ck_assert_int_eq(node_microphone(node, NULL, "FL", &err), 0);
    until_heard(true);
    expect_delay(node, 0, 1, NULL);
    ck_assert_int_eq(node_microphone(node, NULL, "left", &err), -EINVAL);
    ck_assert_ptr_nonnull(strstr(err.text, "left"));
    ck_assert_uint_eq(status().n_consumers, 1);
}
END_TEST

START_TEST(an_engine_is_swapped_without_a_gap) {
    start_session("");
    open_node("null", 1, NULL);
    open_probe();
    expect_delay(node, 0, 1, NULL);
    const unsigned delay = stats().delay;
    unsigned from, to;
    do { /* one amid which no cycle was missed */
        from = record_whole(PUMP_RATE / 8) + 1;
        const unsigned released = n_released;
        ck_assert_uint_lt(released, 30);
        ck_assert_int_eq(worker_engine(node_worker(node), open_engine("null"), 1), 0);
        spin_until(n_released == released + 1 && !stats().swapping);
        record(4096);
        to = probe_length(probe);
    } while (probe_whole(probe) < to - from);
    unsigned n_bad = 0;
    for (unsigned k = from; k < to; k++)
        n_bad += !(fabsf(probe_recorded(probe, 0, k - delay) - probe_recorded(probe, 1, k)) < 1e-5f);
    printf("exchange: %u samples of %u differ\n", n_bad, to - from);
    ck_assert_uint_eq(n_bad, 0);
}
END_TEST

/* Whether Enhanced Mic requests blocks of this hop from the graph. */
static bool asks_for(unsigned hop) {
    char line[1024], wanted[64];
    bool asks = false;
    FILE *const dump = popen("pw-dump enhanced_mic", "r");
    ck_assert_ptr_nonnull(dump);
    snprintf(wanted, sizeof wanted, "\"node.latency\": \"%u/%u\"", hop, PUMP_RATE);
    while (fgets(line, sizeof line, dump))
        asks |= strstr(line, wanted) != NULL;
    pclose(dump);
    return asks;
}

/* From hops of 512 to hops of 256 and back, at several quanta. During a swap, every sample is the microphone's at one
 * of the delays involved, or belongs to a fade between them. Afterwards the sound and the published latency have the
 * right delay. */
START_TEST(engines_with_two_hop_lengths_alternate) {
    const unsigned some[] = {256, 512, 1024, 480};
    start_session("");
    open_node(_i ? "cpu" : "null", 1, NULL);
    open_probe();
    for (unsigned i = 0; i < 2 * sizeof some / sizeof *some; i++) {
        const unsigned hop = i % 2 ? HOP : HOP / 2;
        expect_quantum(some[i / 2], 0, NULL);
        unsigned delays[16], n_delays = 1, from, to;
        do { /* an exchange amid which no cycle was missed */
            const unsigned released = n_released;
            struct engine *const engine = engine_of(_i ? "cpu" : "null", hop == HOP ? model : other);
            ck_assert_uint_lt(released, 60);
            from = record_whole(PUMP_RATE / 8) + 1;
            delays[0] = stats().delay;
            n_delays = 1;
            ck_assert_int_eq(worker_engine(node_worker(node), engine, 1), 0);
            while (n_released == released || stats().swapping || !has_its_delay(node)) {
                spin(0.001);
                if (n_delays < 16 && stats().delay != delays[n_delays - 1])
                    delays[n_delays++] = stats().delay;
            }
            if (n_delays < 16)
                delays[n_delays++] = stats().delay;
            record(4096);
            to = probe_length(probe);
        } while (probe_whole(probe) < to - from);
        unsigned n_faded = 0;
        for (unsigned k = from; k < to; k++) {
            bool is_one = false;
            for (unsigned d = 0; d < n_delays; d++)
                is_one |= fabsf(probe_recorded(probe, 0, k - delays[d]) - probe_recorded(probe, 1, k)) < 1e-5f;
            n_faded += !is_one;
        }
        const struct pump_stats s = expect_delay(node, 0, 1, NULL);
        printf("to hops of %u at a quantum of %u: delay %u, then %u; %u samples of %u in fades\n", hop, some[i / 2],
               delays[0], s.delay, n_faded, to - from);
        ck_assert_uint_eq(s.hop, hop);
        ck_assert_uint_le(n_faded, 3 * PUMP_RATE / 100);
        spin_until(published_ns() == in_ns(stats().delay));
        spin_until(asks_for(hop));
    }
}
END_TEST

static unsigned long switches(void) {
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (unsigned long)usage.ru_nvcsw;
}

/* ThreadSanitizer has a thread of its own, which wakes ten times a second. */
#ifdef __SANITIZE_THREAD__
enum { FEW_SWITCHES = 50 };
#else
enum { FEW_SWITCHES = 20 };
#endif

/* Checks that all nodes exist and nothing runs. */
static void expect_idle(void) {
    spin_until(status().has_microphone && status().settled);
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
    /* An application records the microphone itself: the node is woken, but computes nothing. */
    shell("timeout 2 pw-record --target fake_mic %s/raw.wav &", directory);
    spin(2.5);
    ck_assert_uint_eq(stats().hops, 0);
    /* After a pause the old sound must not come again. */
    open_probe();
    until_heard(true);
    ck_assert_uint_gt(stats().hops, 0);
}
END_TEST

START_TEST(the_speaker_delays_its_input) {
    start_session("");
    open_speaker();
    open_speaker_probe();
    ck_assert_str_eq(status().microphone, "Null output");
    ck_assert_uint_eq(status().n_consumers, 1);
    link_ports("playback.enhanced_speaker:output_FL", "recorder:after"); /* the null sink goes on without it */
    const unsigned some[] = {256, 480, 1024};
    for (unsigned i = 0; i < 3; i++)
        expect_quantum(some[i], some[i], NULL);
    shell("pactl set-sink-volume enhanced_speaker 50%%"); /* the cube of it, as people hear */
    expect_delay(node, 1024, 0.125f, NULL);
    shell("pactl set-sink-mute enhanced_speaker 1");
    until_heard(false);
    shell("pactl set-sink-mute enhanced_speaker 0; pactl set-sink-volume enhanced_speaker 100%%");
    until_heard(true);
}
END_TEST

START_TEST(the_speaker_follows_the_output_and_never_itself) {
    start_session("");
    open_speaker();
    open_speaker_probe();
    until_heard(true);
    shell(
        "pactl load-module module-null-sink sink_name=other_out sink_properties=device.description=Other > /dev/null");
    shell("pactl set-default-sink other_out");
    spin_until(strcmp(status().microphone, "Other") == 0);
    until_heard(false);
    link_ports("other_out:monitor_FL", "recorder:second");
    until_heard(true);
    shell("pactl set-default-sink enhanced_speaker");
    spin(1);
    ck_assert(status().has_microphone);
    ck_assert_str_ne(status().microphone_name, "enhanced_speaker");
    shell("pactl set-default-sink null_out");
    spin_until(strcmp(status().microphone, "Null output") == 0);
    until_heard(true);
}
END_TEST

START_TEST(the_speaker_is_idle_while_nobody_plays) {
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

/* Two microphones and the speaker on one worker: each sounds as it would alone, also after others have closed. */
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
    /* A node that follows the default does not use sound that is enhanced already. */
    shell("pactl set-default-source enhanced_mic.usb_mic");
    spin_until(strcmp(status().microphone_name, "usb_mic") == 0);
    shell("pactl set-default-source fake_mic");
    spin_until(strcmp(status().microphone_name, "fake_mic") == 0);
    shell("pw-link -d fake_mic:capture_MONO recorder:first; pw-link -d enhanced_mic:capture_MONO recorder:second");
    link_probe(1, "usb_mic:capture_MONO", "recorder:first");
    link_probe(2, "enhanced_mic.usb_mic:capture_MONO", "recorder:second");
    spin(1);
    expect_delay(more[1], 0, 1, NULL);
}
END_TEST

/* ---- a session manager that does what the test says, in that order ----------------------------------------------- */

static void open_managed(void) {
    start_session("MANAGER=none");
    manager = manager_open();
    ck_assert_ptr_nonnull(manager);
    open_node("null", 1, NULL);
    probe = probe_open(PEAK, on_cycle);
    ck_assert_ptr_nonnull(probe);
}

static void link_managed(const char *from, const char *to) {
    spin_until(manager_link(manager, from, to));
}

static void add_microphone(const char *name) {
    char input[64];
    snprintf(input, sizeof input, "%s:input_MONO", name);
    shell("%s add-mic %s/s %s", SESSION, directory, name);
    link_managed("player:out", input);
}

static bool captures(const char *name) {
    return strcmp(status().microphone_name, name) == 0;
}

static bool has_target(const char *recorder, const char *key, uint64_t serial) {
    char value[64], wanted[64] = "";
    if (serial)
        snprintf(wanted, sizeof wanted, "%llu", (unsigned long long)serial);
    manager_get(manager, manager_node(manager, recorder), key, value, sizeof value);
    return strcmp(value, wanted) == 0;
}

START_TEST(links_in_the_order_of_the_manager) {
    open_managed();
    link_managed("enhanced_mic:capture_MONO", "recorder:second"); /* before there is a microphone */
    spin_until(status().n_consumers == 1);
    ck_assert(!status().passes);
    record(4096);
    link_managed("player:out", "fake_mic:input_MONO");
    link_managed("fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("fake_mic"));
    until_heard(true);
    add_microphone("other");
    link_managed("other:capture_MONO", "capture.enhanced_mic:input_MONO"); /* before the other one's is gone */
    spin_until(captures("other"));
    ck_assert(manager_unlink(manager, "fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO"));
    until_heard(true);
    ck_assert(captures("other"));
    ck_assert(manager_unlink(manager, "other:capture_MONO", "capture.enhanced_mic:input_MONO"));
    spin_until(!status().has_microphone);
    until_heard(false);
    record(4096);
    link_managed("null_out:monitor_MONO", "capture.enhanced_mic:input_MONO"); /* what is played, for want of another */
    link_managed("player:out", "null_out:playback_MONO");
    link_managed("fake_mic:capture_MONO", "recorder:first");
    record(PUMP_RATE / 4);
    probe_peak(probe);
    record(PUMP_RATE / 4);
    ck_assert_double_eq(probe_peak(probe), 0);
    ck_assert(!status().has_microphone);
    link_managed("fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("fake_mic"));
    until_heard(true);
    ck_assert_uint_eq(status().n_consumers, 1);
}
END_TEST

/* The manager does not link the capture stream, or, after its microphone has gone, not to the next one: the node
 * reopens it. A manager that unlinks it from a microphone that stays does so on purpose. */
START_TEST(a_forgotten_stream_is_reopened) {
    open_managed();
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(manager_serial(manager, "capture.enhanced_mic"));
    const uint64_t forgotten = manager_serial(manager, "capture.enhanced_mic");
    spin_until(manager_serial(manager, "capture.enhanced_mic") > forgotten);
    link_managed("player:out", "fake_mic:input_MONO");
    link_managed("fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("fake_mic"));
    until_heard(true);
    const uint64_t linked = manager_serial(manager, "capture.enhanced_mic");
    ck_assert(manager_unlink(manager, "fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO"));
    spin(12); /* the second wait would end after ten */
    ck_assert_uint_eq(manager_serial(manager, "capture.enhanced_mic"), linked);
    ck_assert(manager_destroy(manager, "fake_mic"));
    add_microphone("other");
    spin_until(manager_serial(manager, "capture.enhanced_mic") > linked);
}
END_TEST

/* Another client configured the capture stream before it had ports. */
START_TEST(a_capture_stream_without_ports_is_reopened) {
    open_managed();
    link_managed("player:out", "fake_mic:input_MONO");
    manager_deprive(manager, "capture.enhanced_mic");
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    link_managed("fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("fake_mic"));
    until_heard(true);
    ck_assert_uint_eq(status().n_consumers, 1); /* the recorder kept its link */
}
END_TEST

/* The capture stream is destroyed during the fade to another microphone. Its replacement requests that microphone, and
 * is not muted. */
START_TEST(a_node_is_destroyed_during_a_change) {
    struct err err;
    open_managed();
    add_microphone("other");
    link_managed("player:out", "fake_mic:input_MONO");
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    const char *const names[] = {"other", "fake_mic", "other"};
    for (unsigned i = 0; i < 3; i++) {
        char microphone[64];
        const uint64_t serial = manager_serial(manager, "capture.enhanced_mic");
        ck_assert_int_eq(node_microphone(node, names[i], NULL, &err), 0);
        if (i > 0) /* the last one's */
            ck_assert(manager_destroy(manager, i == 1 ? "capture.enhanced_mic" : "pacer.enhanced_mic"));
        spin_until(manager_serial(manager, "capture.enhanced_mic") > serial);
        spin_until(manager_node(manager, "pacer.enhanced_mic"));
        snprintf(microphone, sizeof microphone, "%s:capture_MONO", names[i]);
        link_managed(microphone, "capture.enhanced_mic:input_MONO");
        spin_until(captures(names[i]));
        until_heard(true);
    }
}
END_TEST

/* The node brings back the applications that recorded before the source was destroyed, through the new session manager,
 * which started before the former one ended. */
START_TEST(the_next_manager_brings_recorders_back) {
    open_managed();
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(status().n_recorders == 1);
    const uint64_t serial = manager_serial(manager, "enhanced_mic");
    struct manager *const former = manager;
    manager = manager_open();
    ck_assert_ptr_nonnull(manager);
    spin_until(manager_serial(manager, "enhanced_mic") == serial);
    manager_close(former);
    spin_until(manager_node(manager, "recorder") && manager_destroy(manager, "enhanced_mic"));
    spin_until(manager_serial(manager, "enhanced_mic") > serial);
    spin_until(has_target("recorder", "target.object", manager_serial(manager, "enhanced_mic")));
    ck_assert_uint_eq(status().n_brought_back, 0);
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(status().n_recorders == 1);
    ck_assert_uint_eq(status().n_brought_back, 1);
}
END_TEST

START_TEST(a_recorder_pinned_without_an_alternative_is_released) {
    open_managed();
    link_managed("enhanced_mic:capture_MONO", "recorder:second");
    spin_until(status().n_recorders == 1);
    const uint32_t recorder = manager_node(manager, "recorder"), player = manager_node(manager, "player");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"enhanced_mic\"}");
    manager_set(manager, recorder, "target.node", "-1");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"fake_mic\"}");
    spin_until(has_target("recorder", "target.node", 0));
    /* So does who came since. */
    add_microphone("other");
    link_managed("other:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("other"));
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"enhanced_mic\"}");
    manager_set(manager, manager_node(manager, "other"), "target.node", "-1");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"fake_mic\"}");
    spin_until(has_target("other", "target.node", 0));
    /* Whom people had follow the default follows it. */
    manager_set(manager, 0, "default.configured.audio.source", "{\"name\":\"enhanced_mic\"}");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"enhanced_mic\"}");
    manager_set(manager, recorder, "target.node", "-1");
    manager_set(manager, 0, "default.configured.audio.source", NULL);
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"enhanced_mic\"}");
    manager_set(manager, player, "target.node", "-1");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"fake_mic\"}");
    spin_until(has_target("player", "target.node", 0));
    ck_assert(!has_target("recorder", "target.node", 0));
}
END_TEST

/* The manager rescans when any target changes, and ignores the targets of sources. */
START_TEST(the_manager_looks_again_at_a_recorder_that_it_left_unlinked) {
    open_managed();
    spin_until(manager_node(manager, "enhanced_mic"));
    const uint32_t own = manager_node(manager, "enhanced_mic");
    shell("timeout 100 pw-record --channels 1 --target enhanced_mic %s/left.wav 2> /dev/null &", directory);
    spin_until(manager_changes(manager, own, "target.object") >= 4);
    ck_assert(has_target("enhanced_mic", "target.object", 0));
    link_managed("enhanced_mic:capture_MONO", "pw-record:input_MONO");
    spin_until(status().n_recorders == 1);
    const unsigned n_changes = manager_changes(manager, own, "target.object");
    spin(4);
    ck_assert_uint_eq(manager_changes(manager, own, "target.object"), n_changes);
}
END_TEST

/* A further node waits for its own microphone, and uses no other. */
START_TEST(a_further_microphone_appears_and_disappears_with_its_stream) {
    open_managed();
    open_more(0, NODE_MORE_MIC, "usb_mic");
    spin_until(manager_node(manager, "enhanced_mic.usb_mic"));
    add_microphone("other");
    for (unsigned i = 0; i < 2; i++) {
        struct node_status s;
        spin_until((node_status(more[0], &s), s.connected && node_knows(more[0], NODE_MIC, "other")));
        ck_assert_uint_eq(manager_node(manager, "capture.enhanced_mic.usb_mic"), 0);
        add_microphone("usb_mic");
        if (i == 0)
            link_managed("enhanced_mic.usb_mic:capture_MONO", "recorder:second");
        link_managed("usb_mic:capture_MONO", "capture.enhanced_mic.usb_mic:input_MONO");
        spin_until((node_status(more[0], &s), strcmp(s.microphone_name, "usb_mic") == 0));
        ck_assert_str_eq(node_title(more[0]), "Enhanced Mic: Fake microphone usb_mic");
        ck_assert(manager_destroy(manager, "usb_mic"));
        spin_until(!manager_node(manager, "capture.enhanced_mic.usb_mic"));
    }
}
END_TEST

/* Nothing in the graph changes meanwhile. */
START_TEST(failed_opens_are_retried) {
    struct err err;
    start_session("MANAGER=none");
    open_node("null", 1, NULL);
    spin_until(node_knows(node, NODE_MIC, "fake_mic") && !node_knows(node, NODE_MIC, "usb_mic"));
    n_failing_connections = 3; /* to the metadata, once there is one */
    manager = manager_open();
    ck_assert_ptr_nonnull(manager);
    probe = probe_open(PEAK, on_cycle);
    link_managed("enhanced_mic:capture_MONO", "recorder:first");
    link_managed("fake_mic:capture_MONO", "capture.enhanced_mic:input_MONO");
    spin_until(captures("fake_mic"));
    open_more(0, NODE_MORE_MIC, "usb_mic");
    link_managed("enhanced_mic.usb_mic:capture_MONO", "recorder:second");
    struct node_status s;
    spin_until((node_status(more[0], &s), s.n_consumers == 1));
    uint64_t serial = manager_serial(manager, "enhanced_mic.usb_mic");
    n_failing_streams = 1;
    ck_assert_int_eq(node_microphone(more[0], "fake_mic", NULL, &err), 0);
    ck_assert_int_eq(poll(&(struct pollfd){.fd = node_fd(more[0]), .events = POLLIN}, 1, 0), 1); /* needs no event */
    ck_assert_uint_eq(n_failing_streams, 0);
    spin_until(manager_serial(manager, "enhanced_mic.usb_mic") > serial);
    link_managed("enhanced_mic.usb_mic:capture_MONO", "recorder:second");
    spin_until(manager_node(manager, "capture.enhanced_mic.usb_mic"));

    serial = manager_serial(manager, "capture.enhanced_mic");
    manager_set(manager, 0, "default.audio.source", "{\"name\":\"enhanced_mic.usb_mic\"}");
    spin_until(manager_serial(manager, "capture.enhanced_mic") > serial); /* for usb_mic, when that is heard of */
    ck_assert_uint_eq(n_failing_connections, 0);
}
END_TEST

/* ---- frame ------------------------------------------------------------------------------------------------------- */

static int run(void) {
    struct err err;
    if (model_load(&model, SRCDIR "/models/small.safetensors", &err) < 0 ||
        model_load(&other, SRCDIR "/tests/fixtures/wide.safetensors", &err) < 0) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    Suite *const s = suite_create("live");
    TCase *const c = tcase_create("live");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, delay_at_every_quantum);
    tcase_add_test(c, delay_at_every_quantum_without_priority);
    tcase_add_test(c, the_network_at_strength_0_is_the_delayed_microphone);
    tcase_add_test(c, at_44100_the_delay_is_constant_and_as_reported);
    tcase_add_test(c, pipewire_and_pulseaudio_clients_record);
    tcase_add_test(c, a_microphone_disappears_and_returns);
    tcase_add_test(c, no_microphone_at_the_start);
    tcase_add_test(c, pipewire_ends_and_restarts);
    tcase_add_test(c, pipewire_starts_late);
    tcase_add_test(c, the_default_microphone_is_followed_or_the_configured_one);
    tcase_add_test(c, two_channels_are_mixed_or_one_is_chosen);
    tcase_add_test(c, nothing_runs_while_nobody_records);
    suite_add_tcase(s, c);
    TCase *const exchange = tcase_create("exchange");
    tcase_add_checked_fixture(exchange, setup, teardown);
    tcase_add_test(exchange, an_engine_is_swapped_without_a_gap);
    tcase_add_loop_test(exchange, engines_with_two_hop_lengths_alternate, 0, 2);
    suite_add_tcase(s, exchange);
    TCase *const several = tcase_create("several");
    tcase_add_checked_fixture(several, setup, teardown);
    tcase_add_test(several, the_speaker_delays_its_input);
    tcase_add_test(several, the_speaker_follows_the_output_and_never_itself);
    tcase_add_test(several, the_speaker_is_idle_while_nobody_plays);
    tcase_add_test(several, several_at_once);
    suite_add_tcase(s, several);
    TCase *const managed = tcase_create("managed");
    tcase_add_checked_fixture(managed, setup, teardown);
    tcase_add_test(managed, links_in_the_order_of_the_manager);
    tcase_add_test(managed, a_forgotten_stream_is_reopened);
    tcase_add_test(managed, a_capture_stream_without_ports_is_reopened);
    tcase_add_test(managed, a_node_is_destroyed_during_a_change);
    tcase_add_test(managed, the_next_manager_brings_recorders_back);
    tcase_add_test(managed, a_recorder_pinned_without_an_alternative_is_released);
    tcase_add_test(managed, the_manager_looks_again_at_a_recorder_that_it_left_unlinked);
    tcase_add_test(managed, a_further_microphone_appears_and_disappears_with_its_stream);
    tcase_add_test(managed, failed_opens_are_retried);
    suite_add_tcase(s, managed);
    TCase *const faults = tcase_create("faults");
    tcase_add_checked_fixture(faults, setup, teardown);
    tcase_add_test(faults, destroyed_nodes_are_recreated);
    tcase_add_test(faults, a_stopped_clock_is_replaced);
    tcase_add_test(faults, further_nodes_are_recreated);
    tcase_add_test(faults, recorders_of_a_destroyed_node_are_brought_back);
    tcase_add_test(faults, a_busy_graph_does_not_delay_another_microphone);
    tcase_add_test(faults, pipewire_ends_during_a_change);
    tcase_add_test(faults, the_reason_why_a_node_does_not_open_is_reported);
    tcase_add_test(faults, one_data_loop_of_several);
    suite_add_tcase(s, faults);
    /* PipeWire's threads would not be in the fork; the session is ended below */
    const int failed = run_suite(s, CK_NOFORK);
    model_free(model);
    model_free(other);
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
    /* However the tests end, no process of theirs continues. On SIGALRM, Check kills the process group. */
    const pid_t child = fork();
    if (child == 0) {
        setpgid(0, 0);
        alarm(600 * patience);
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
