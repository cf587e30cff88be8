#include "engine/voice.h"

#include "base/fpu.h"
#include "engine/engine_type.h"

#include <math.h>
#include <string.h>

/* Chosen so that silero-vad on clean recordings agrees (docs/quality.md). */
static const float mean_s = .032f; /* time constant of the levels */
static const float slope = .17f;   /* of the logistic function, per dB */
static const float below_db = 30;  /* this far below the voice's level, the probability is 0.5 */
static const float usual_db = -25; /* the initial level of a voice, dBFS */
static const float least_db = -60, greatest_db = -5;
static const float rise_s = .53f;     /* time constant of the voice's level towards louder sound ... */
static const float fall_db_per_s = 2; /* ... and its fall, while there is speech below it */
static const float hold_s = .3f;
static const double centre_hz = 894, quality = .235; /* of the band-pass: 200 to 4000 Hz */

void voice_init(struct voice *v, unsigned rate, unsigned hop, unsigned delay) {
    const double w = 2 * M_PI * centre_hz / rate, alpha = sin(w) / (2 * quality);
    const unsigned n_later = (delay + hop / 2) / hop;
    *v = (struct voice){
        .b = (float)(alpha / (1 + alpha)),
        .a = {(float)(-2 * cos(w) / (1 + alpha)), (float)((1 - alpha) / (1 + alpha))},
        .hop_s = (float)hop / (float)rate,
        .n_later = n_later < VOICE_PAST ? n_later : VOICE_PAST - 1,
        .level_db = usual_db,
    };
    v->keep = expf(-v->hop_s / mean_s);
    voice_restart(v);
}

void voice_restart(struct voice *v) {
    v->in = v->out = (struct voice_band){0};
    memset(v->past, 0, sizeof v->past);
    v->n_hops = 0;
    v->probability = NAN;
    v->active = false;
    v->quiet_s = 0;
}

static void add(const struct voice *v, struct voice_band *s, const float *x, unsigned n) {
    float power = 0;
    for (unsigned i = 0; i < n; i++) {
        const float now = fabsf(x[i]) <= ENGINE_LOUDEST ? x[i] : 0;
        const float y = v->b * (now - s->x[1]) - v->a[0] * s->y[0] - v->a[1] * s->y[1];
        s->x[1] = s->x[0];
        s->x[0] = now;
        s->y[1] = s->y[0];
        s->y[0] = y;
        power += y * y;
    }
    s->power += (power / (float)n - s->power) * (1 - v->keep);
}

static float db(float power) {
    return 10 * log10f(power + 1e-12f);
}

/* The level of the voice moves quickly towards louder sound, and slowly back while there is speech. */
static void follow(struct voice *v, float now_db) {
    if (now_db > v->level_db)
        v->level_db += (now_db - v->level_db) * v->hop_s / rise_s;
    else if (now_db > v->level_db - below_db)
        v->level_db -= fall_db_per_s * v->hop_s;
    v->level_db = fminf(fmaxf(v->level_db, least_db), greatest_db);
}

void voice_hop(struct voice *v, const float *in, const float *out, unsigned hop, float strength) {
    const unsigned saved = fpu_flush_denormals();
    add(v, &v->in, in, hop);
    add(v, &v->out, out, hop);
    fpu_restore(saved);
    v->past[v->n_hops % VOICE_PAST] = v->in.power;
    const float before_db = db(v->past[(v->n_hops + VOICE_PAST - v->n_later) % VOICE_PAST]);
    v->n_hops++;
    if (strength <= 0) {
        v->probability = NAN;
        v->active = false;
        return;
    }
    const float now_db = before_db + (db(v->out.power) - before_db) / strength;
    follow(v, now_db);
    v->probability = 1 / (1 + expf(-slope * (now_db - (v->level_db - below_db))));
    v->quiet_s = v->probability > .5f ? 0 : v->quiet_s + v->hop_s;
    v->active = v->probability > .5f || (v->active && v->quiet_s < hold_s);
}
