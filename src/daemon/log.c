#include "daemon/log.h"

#include "base/clock.h"
#include "daemon/report.h"
#include "daemon/say.h"

#include <stdio.h>
#include <string.h>

enum {
    LOST_MS = 1500,         /* without a microphone before its loss is logged: a change takes a while */
    LATE_REPORT_MS = 60000, /* between two lines about late hops */
};

static void log_microphone(struct log *l, const struct node_status *s) {
    const bool away = s->connected && !s->has_microphone && l->microphone[0];
    if (!away)
        l->lost_at = 0;
    else if (l->lost_at == 0)
        l->lost_at = now_ms();
    const bool lost = away && now_ms() - l->lost_at >= LOST_MS;
    if (lost) {
        say(SD_WARNING, "the microphone is gone: %s; waiting for one", l->microphone);
        l->lost_at = 0;
    }
    if (s->has_microphone && strcmp(s->microphone, l->microphone) != 0)
        say(SD_INFO, "microphone: %s", s->microphone);
    if (s->has_microphone || lost)
        memcpy(l->microphone, s->microphone, sizeof l->microphone);
}

static void log_first(struct log *l, const struct node_status *s) {
    const struct node_status *old = &l->told;
    const struct pump_stats *p = &s->pump;
    if (s->connected != old->connected)
        say(s->connected ? SD_INFO : SD_WARNING,
            s->connected ? "PipeWire is back" : "PipeWire is gone; waiting for it");
    log_microphone(l, s);
    if (s->refused[0] && strcmp(s->refused, old->refused) != 0)
        say(SD_WARNING, "%s carries the sound of Enhanced Mic itself, so Enhanced Mic does not use it", s->refused);
    if (s->n_brought_back > old->n_brought_back)
        say(SD_INFO, "reconnected applications that recorded before this start or an interruption: %u",
            s->n_brought_back - old->n_brought_back);
    if (s->connected && s->n_consumers && p->delay != old->pump.delay)
        say(SD_INFO, "delay: %u samples (%.1f ms)%s", p->delay, p->delay * 1e3 / PUMP_RATE,
            p->waits ? "" : "; a quantum of it because the audio thread does not wait for the model");
    if (p->hops > 0 && !l->told_realtime) {
        char why[REPORT_LINE_BYTES];
        report_no_realtime(p, why);
        if (!p->realtime)
            say(SD_WARNING, "no real-time priority (%s): hops may be late when the machine is busy", why);
        l->told_realtime = true;
    }
    l->told = *s;
}

static void log_late_hops(struct log *l, const struct engines_load *load) {
    if (load->late_hops <= l->told_late_hops || (load->heard && now_ms() < l->next_late_report))
        return;
    say(SD_WARNING, "late hops: %llu, in which the microphone came through unenhanced",
        (unsigned long long)(load->late_hops - l->told_late_hops));
    l->told_late_hops = load->late_hops;
    l->next_late_report = now_ms() + LATE_REPORT_MS;
}

static void log_stalls(struct log *l, const struct engines_load *load) {
    if (load->n_stalls > l->told_stalls)
        say(SD_WARNING, "no sound passed for a while, so primeknetd restarted its streams (restarts so far: %u)",
            load->n_stalls);
    l->told_stalls = load->n_stalls;
}

/* Logs what a further microphone or the speaker has found or lost. */
static void log_further(struct node *node, char told[128], char refused[128]) {
    struct node_status s;
    node_status(node, &s);
    const bool speaker = node_kind(node) == NODE_SPEAKER;
    if (s.refused[0] && strcmp(s.refused, refused) != 0)
        say(SD_WARNING,
            speaker ? "the sound of %s comes back to %s, which does not play on it"
                    : "%s carries the sound of %s itself, so that does not use it",
            s.refused, node_title(node));
    memcpy(refused, s.refused, sizeof s.refused);
    if (!s.connected || strcmp(s.microphone, told) == 0)
        return;
    if (s.has_microphone)
        say(SD_INFO, "%s: %s %s", node_title(node), speaker ? "plays on" : "records from", s.microphone);
    else
        say(SD_WARNING, "%s: the %s is gone; waiting for one", node_title(node), speaker ? "output" : "microphone");
    memcpy(told, s.microphone, sizeof s.microphone);
}

void log_nodes(struct log *l, struct nodes *nodes) {
    struct node_status status;
    node_status(nodes->all[0].node, &status);
    log_first(l, &status);
    struct engines_load load = nodes_load(nodes);
    log_late_hops(l, &load);
    log_stalls(l, &load);
    for (unsigned i = 1; i < nodes->n; i++)
        log_further(nodes->all[i].node, nodes->all[i].told, nodes->all[i].refused);
}

int64_t log_due(const struct log *l) {
    return l->lost_at ? l->lost_at + LOST_MS : INT64_MAX;
}
