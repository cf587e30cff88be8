#include "engine/level.h"

#include "base/fpu.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

static const float least_db = -12, greatest_db = 18;
/* Time constants, of speech; the short ones hold while the gain is more than far_db off. */
static const float far_db = 4, attack_s = 1, far_attack_s = .2f, release_s = 3, far_release_s = 1;
static const float sudden_db = 8;   /* above the target: how loud a block may be */
static const float another_db = 10; /* between two talkers */
static const float sure = .75f;     /* the probability of speech of a quieter talker */
static const float block_s = .1f;
static const float least_lufs = -70;                     /* the absolute gate of BS.1770 */
static const float switch_db_per_s = 400;                /* to switch the level on or off */
static const float ceiling = .867f;                      /* -1 dBTP, less the error of this interpolation */
static const float usual_ceiling = .84f;                 /* leaves room for peaks between the samples that follow */
static const float recover_db_per_s = 20, hold_s = .05f; /* longer than a period of the lowest voice */
enum {
    PIECE = 32,
    BEFORE = LEVEL_TAPS - 1
}; /* samples that the limiter attenuates together, and samples before
                                                * them */

/* BS.1770-4, annex 2. The other two phases are these reversed. */
static const float phases[2][LEVEL_TAPS] = {
    {.0017089843750f, .0109863281250f, -.0196533203125f, .0332031250000f, -.0594482421875f, .1373291015625f,
     .9721679687500f, -.1022949218750f, .0476074218750f, -.0266113281250f, .0148925781250f, -.0083007812500f},
    {-.0291748046875f, .0292968750000f, -.0517578125000f, .0891113281250f, -.1665039062500f, .4650878906250f,
     .7797851562500f, -.2003173828125f, .1015625000000f, -.0582275390625f, .0330810546875f, -.0189208984375f},
};
static const float most = 2.03f; /* a phase's highest output for samples that do not exceed 1 */

/* ---- loudness ---------------------------------------------------------------------------------------------------- */

/* The K-weighting of BS.1770-4, annex 1, whose table is for 48 kHz, from its analogue prototype for any rate. */
static void weigh(struct level *l) {
    const double quality = .7071752369554196, high = pow(10, 3.999843853973347 / 20);
    const double middle = pow(high, .4996667741545416), w = tan(M_PI * 1681.974450955533 / l->rate);
    const double a0 = 1 + w / quality + w * w;
    const double shelf[] = {(high + middle * w / quality + w * w) / a0, 2 * (w * w - high) / a0,
                            (high - middle * w / quality + w * w) / a0, 2 * (w * w - 1) / a0,
                            (1 - w / quality + w * w) / a0};
    const double low_quality = .5003270373238773, v = tan(M_PI * 38.13547087602444 / l->rate);
    const double c0 = 1 + v / low_quality + v * v;
    const double high_pass[] = {1, -2, 1, 2 * (v * v - 1) / c0, (1 - v / low_quality + v * v) / c0};
    memcpy(l->shelf, shelf, sizeof shelf);
    memcpy(l->high_pass, high_pass, sizeof high_pass);
}

static double filter(const double k[5], double state[2], double x) {
    const double y = k[0] * x + state[0];
    state[0] = k[1] * x - k[3] * y + state[1];
    state[1] = k[2] * x - k[4] * y;
    return y;
}

static double energy_of(const struct level *l, struct level_channel *c, unsigned n) {
    double energy = 0;
    for (unsigned i = 0; i < n; i++) {
        const double y = filter(l->high_pass, c->high_pass, filter(l->shelf, c->shelf, c->x[i]));
        energy += y * y;
    }
    return energy;
}

static float loudness_of(double power) {
    return (float)(-.691 + 10 * log10(power + 1e-12));
}

/* Returns the mean of n blocks. */
static struct level_block mean_of(const struct level_block *blocks, unsigned n) {
    struct level_block sum = {0};
    for (unsigned i = 0; i < n; i++) {
        sum.power += blocks[i].power;
        sum.probability += blocks[i].probability;
    }
    return (struct level_block){sum.power / n, sum.probability / n};
}

/* Keeps only the last n blocks. */
static void forget(struct level *l, unsigned n) {
    memmove(l->blocks, l->blocks + l->n_blocks - n, n * sizeof *l->blocks);
    l->n_blocks = n;
}

/* Returns by how much the last n blocks are louder than those before. */
static float louder_db(const struct level *l, unsigned n) {
    const struct level_block *const last = l->blocks + l->n_blocks - n;
    return loudness_of(mean_of(last, n).power) - loudness_of(mean_of(l->blocks, l->n_blocks - n).power);
}

/* Forgets the previous talker. To detect a quieter one takes more blocks, and more certain ones: a voice has more
 * quiet moments than loud ones, its echo may count as speech, and a voice in the background must not be raised in each
 * pause. */
static void tell_talkers_apart(struct level *l) {
    enum { LOUDER = 4, QUIETER = 25 }; /* blocks */
    if (l->n_blocks > LOUDER && louder_db(l, LOUDER) > another_db)
        forget(l, LOUDER);
    if (l->n_blocks > QUIETER && louder_db(l, QUIETER) < -another_db &&
        mean_of(l->blocks + l->n_blocks - QUIETER, QUIETER).probability > sure)
        forget(l, QUIETER);
}

/* Adds n samples of speech with this energy. Returns the power of their block so far, as if its rest were silent. */
static double hear(struct level *l, double energy, unsigned n, float probability) {
    l->energy += energy;
    l->probability += probability * (float)n;
    l->n += n;
    const double length = fmax(block_s * l->rate, l->n), power = l->energy / length;
    if (l->n < length)
        return power;
    if (l->n_blocks == LEVEL_BLOCKS)
        forget(l, LEVEL_BLOCKS - 1);
    l->blocks[l->n_blocks++] = (struct level_block){power, l->probability / l->n};
    tell_talkers_apart(l);
    l->energy = l->probability = l->n = 0;
    return power;
}

static float constant_s(float off_db) {
    if (off_db < 0)
        return off_db < -far_db ? far_attack_s : attack_s;
    return off_db > far_db ? far_release_s : release_s;
}

/* Updates the gain for n more samples of speech, of a block with this power. */
static void follow(struct level *l, float target, double power, unsigned n) {
    const float loudness = l->n_blocks ? loudness_of(mean_of(l->blocks, l->n_blocks).power) : -INFINITY;
    if (loudness >= least_lufs) {
        const float off_db = fminf(fmaxf(target - loudness, least_db), greatest_db) - l->wanted_db;
        l->wanted_db += off_db * (1 - expf(-(float)n / ((float)l->rate * constant_s(off_db))));
    }
    l->wanted_db = fminf(l->wanted_db, fmaxf(target + sudden_db - loudness_of(power), least_db));
}

/* ---- the limiter ------------------------------------------------------------------------------------------------- */

/* Returns the greatest factor, up to `share`, for the samples from x[BEFORE] on at which no point interpolated by a
 * phase exceeds the ceiling. x: [BEFORE + n + BEFORE], with zeros after the n. */
static float fitting(const float *x, unsigned n, const float phase[LEVEL_TAPS], bool reversed, float share) {
    for (unsigned at = 0; at < n + BEFORE; at++) {
        float before = 0, now = 0;
        for (unsigned k = 0; k < LEVEL_TAPS; k++) {
            const float y = phase[reversed ? LEVEL_TAPS - 1 - k : k] * x[at + k];
            *(at + k < BEFORE ? &before : &now) += y;
        }
        const float room = (at < BEFORE ? ceiling : usual_ceiling) - (now < 0 ? -before : before);
        if (share * fabsf(now) > room)
            share = room / fabsf(now);
    }
    return share;
}

static float limit_of(const struct level_channel *c, unsigned from, unsigned n, float share) {
    float x[BEFORE + PIECE + BEFORE] = {0}, peak = 0, before = 0;
    memcpy(x, c->given, sizeof c->given);
    memcpy(x + BEFORE, c->x + from, n * sizeof *x);
    for (unsigned i = 0; i < BEFORE; i++)
        before = fmaxf(before, fabsf(x[i]));
    for (unsigned i = BEFORE; i < BEFORE + n; i++)
        peak = fmaxf(peak, fabsf(x[i]));
    if (most * fmaxf(before, share * peak) <= usual_ceiling)
        return share;
    if (share * peak > usual_ceiling)
        share = usual_ceiling / peak;
    for (unsigned p = 0; p < 2; p++) {
        share = fitting(x, n, phases[p], false, share);
        share = fitting(x, n, phases[p], true, share);
    }
    return share;
}

static void scale(struct level_channel *c, unsigned from, unsigned n, float share) {
    for (unsigned i = from; share != 1 && i < from + n; i++)
        c->x[i] *= share;
}

static void keep(struct level_channel *c, unsigned from, unsigned n) {
    const unsigned kept = n < BEFORE ? BEFORE - n : 0;
    memmove(c->given, c->given + BEFORE - kept, kept * sizeof *c->given);
    memcpy(c->given + kept, c->x + from + n - (BEFORE - kept), (BEFORE - kept) * sizeof *c->given);
}

/* Where it does not limit, peaks are as they are; only the gain of before comes back. */
static void limit(struct level *l, struct level_channel *channels, unsigned n_channels, unsigned n, bool limits,
                  bool recovers) {
    const float db_per_s = limits ? recover_db_per_s : switch_db_per_s;
    for (unsigned from = 0; from < n; from += PIECE) {
        const unsigned len = n - from < PIECE ? n - from : PIECE;
        float wanted = l->limit;
        if (recovers && wanted < 1)
            wanted = fminf(wanted * powf(10, db_per_s / 20 * (float)len / (float)l->rate), 1);
        float fits = wanted;
        for (unsigned c = 0; limits && c < n_channels; c++)
            if (channels[c].x)
                fits = limit_of(&channels[c], from, len, fits);
        if (fits < wanted)
            l->held = (unsigned)(hold_s * (float)l->rate);
        l->limit = limits && l->held ? fminf(l->limit, fits) : fits;
        l->held -= len < l->held ? len : l->held;
        for (unsigned c = 0; c < n_channels; c++)
            if (channels[c].x)
                scale(&channels[c], from, len, l->limit);
        for (unsigned c = 0; limits && c < n_channels; c++)
            if (channels[c].x)
                keep(&channels[c], from, len);
    }
}

/* ---- the whole --------------------------------------------------------------------------------------------------- */

void level_init(struct level *l, unsigned rate) {
    l->rate = rate;
    weigh(l);
    level_control(l, NAN);
    level_restart(l);
}

void level_restart(struct level *l) {
    l->energy = l->probability = l->n = 0;
    l->n_blocks = 0;
    l->wanted_db = l->gain_db = 0;
    l->gain = l->limit = 1;
    l->held = 0;
}

void level_control(struct level *l, float target) {
    atomic_store_explicit(&l->target, target, memory_order_relaxed);
}

float level_target(const struct level *l) {
    return atomic_load_explicit(&l->target, memory_order_relaxed);
}

/* Applies the gain, interpolated linearly from its previous to its new value. */
static void apply(struct level *l, struct level_channel *channels, unsigned n_channels, unsigned n, float to_db) {
    const float most_db = switch_db_per_s * (float)n / (float)l->rate, from = l->gain;
    l->gain_db += fminf(fmaxf(to_db - l->gain_db, -most_db), most_db);
    l->gain = powf(10, l->gain_db / 20);
    if (from == 1 && l->gain == 1)
        return;
    for (unsigned c = 0; c < n_channels; c++)
        for (unsigned i = 0; channels[c].x && i < n; i++)
            channels[c].x[i] *= from + (l->gain - from) * (float)(i + 1) / (float)n;
}

void level_process(struct level *l, struct level_channel *channels, unsigned n_channels, unsigned n,
                   float probability) {
    const float target = level_target(l);
    const bool works = !isnan(target) && !isnan(probability), speaks = probability > .5f;
    if (!works && l->gain == 1 && l->limit == 1)
        return;
    const unsigned saved = fpu_flush_denormals();
    double energy = 0;
    for (unsigned c = 0; c < n_channels; c++)
        if (channels[c].x)
            energy += energy_of(l, &channels[c], n);
    if (works && speaks)
        follow(l, target, hear(l, energy, n, probability), n);
    apply(l, channels, n_channels, n, works ? l->wanted_db : 0);
    limit(l, channels, n_channels, n, works || l->gain != 1, speaks || !works);
    fpu_restore(saved);
}
