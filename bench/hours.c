/* bench-hours MODEL SOUND [HOURS]: runs the CPU engine, as fast as it can, over HOURS (1) of a sound: "silence",
 * "noise", "dc", "full" (a square wave of full scale) or a sound file at the model's rate, repeated. Exit status 1
 * unless all of its state is finite, free of denormals and in the last tenth no more than twice as large as before,
 * a reset engine gives the same bits as a fresh one, and the delay has not changed.
 *
 * Includes the engine's source, to read its state. */
#include "engine/engine_cpu.c"
#include "model/pool.c"

#include <sndfile.h>
#include <stdint.h>

enum { N_CHECK = 400 }; /* hops compared at the end */

struct extent {
    float largest;
    size_t n, n_denormal, n_not_finite;
};

static void look_at(struct extent *x, const struct pool *p) {
    for (const struct pool_array *a = p->arrays; a; a = a->next)
        for (size_t i = 0; i < a->n; i++) {
            x->n++;
            x->n_denormal += fpclassify(a->values[i]) == FP_SUBNORMAL;
            x->n_not_finite += !isfinite(a->values[i]);
            x->largest = fmaxf(x->largest, fabsf(a->values[i]));
        }
}

static struct extent extent_of(const struct engine *e, unsigned stream) {
    const struct stream *s = &((const struct engine_net *)e)->streams[stream];
    struct extent x = {0};
    look_at(&x, &s->pool);
    look_at(&x, &s->net.pool);
    return x;
}

static float noise(void) {
    static uint32_t seed = 1;
    seed = seed * 1664525u + 1013904223u;
    return (float)(seed >> 8) / 0x1p23f - 1;
}

struct sound {
    const char *name;
    float *file;
    size_t n, at;
};

static float next_sample(struct sound *s) {
    s->at++;
    if (s->file)
        return s->file[s->at % s->n];
    switch (s->name[0]) {
    case 's': return 0;
    case 'n': return 0.3f * noise();
    case 'd': return 0.5f;
    default: return s->at / 100 % 2 ? 1 : -1;
    }
}

static int read_sound(struct sound *s, unsigned rate) {
    static const char *const names[] = {"silence", "noise", "dc", "full"};
    for (unsigned i = 0; i < 4; i++)
        if (strcmp(s->name, names[i]) == 0)
            return 0;
    SF_INFO info = {0};
    SNDFILE *f = sf_open(s->name, SFM_READ, &info);
    s->file = f && info.channels == 1 && (unsigned)info.samplerate == rate
                  ? malloc((size_t)info.frames * sizeof *s->file)
                  : NULL;
    if (s->file)
        s->n = (size_t)sf_readf_float(f, s->file, info.frames);
    sf_close(f);
    return s->n ? 0 : -1;
}

static void hop(struct engine *e, unsigned stream, float *in_out) {
    engine_process(e, &(struct engine_job){.stream = stream, .n_hops = 1, .in = in_out, .out = in_out}, 1);
}

int main(int argc, char **argv) {
    struct err err = {0};
    struct model *model = NULL;
    struct engine *e = NULL;
    struct sound sound = {.name = argc > 2 ? argv[2] : ""};
    const double hours = argc > 3 ? atof(argv[3]) : 1;
    const struct engine_options options = {.name = "cpu", .n_streams = 2, .max_hops = 1};
    if (argc < 3 || argc > 4 || model_load(&model, argv[1], &err) || read_sound(&sound, model_rate(model)) ||
        engine_open(&e, &options, model, &err)) {
        fprintf(stderr, "bench-hours: %s\n",
                err.text[0] ? err.text : "MODEL SOUND [HOURS], SOUND a mono file at its rate");
        return 1;
    }
    const unsigned h = engine_hop(e), delay = engine_delay(e);
    const uint64_t n_hops = (uint64_t)(hours * 3600 * model_rate(model) / h);
    float *x = malloc(h * sizeof *x), *y = malloc(h * sizeof *y), *past = calloc(delay + h, sizeof *past);
    struct extent last = {0};
    float before = 0, late = 0;
    bool good = x && y && past;
    for (uint64_t i = 0; good && i < n_hops; i++) {
        for (unsigned k = 0; k < h; k++)
            x[k] = next_sample(&sound);
        hop(e, 0, x);
        for (unsigned k = 0; k < h; k++)
            good &= isfinite(x[k]) != 0;
        if (i % 16 && i + 1 < n_hops)
            continue;
        last = extent_of(e, 0);
        good &= !last.n_denormal && !last.n_not_finite;
        float *const most = i < n_hops / 10 * 9 ? &before : &late;
        *most = fmaxf(*most, last.largest);
    }
    printf("%s, %s, %.2f h (%llu hops): %zu values of state, %zu not finite, %zu denormal, largest %g, in the last "
           "tenth %g\n",
           model_name(model), sound.name, hours, (unsigned long long)n_hops, last.n, last.n_not_finite, last.n_denormal,
           (double)before, (double)late);
    good &= late <= 2 * before + 1e-6f;

    /* Stream 0 was reset, stream 1 is fresh; at a strength of 0 the delayed input comes out. */
    bool same = true;
    double error = 0, power = 0;
    engine_reset(e, 0);
    for (unsigned i = 0; good && i < N_CHECK; i++) {
        for (unsigned k = 0; k < h; k++)
            x[k] = y[k] = past[delay + k] = 0.3f * noise();
        hop(e, 0, x);
        hop(e, 1, y);
        same &= memcmp(x, y, h * sizeof *x) == 0;
        if (i == N_CHECK / 2)
            engine_control(e, 0, (struct engine_controls){0}), engine_control(e, 1, (struct engine_controls){0});
        for (unsigned k = 0; i > N_CHECK * 3 / 4 && k < h; k++) {
            error += ((double)x[k] - past[k]) * ((double)x[k] - past[k]);
            power += (double)past[k] * past[k];
        }
        memmove(past, past + h, delay * sizeof *past);
    }
    printf("  after a reset %s a fresh one; delay of %u samples: the input comes back at %.1f dB\n",
           same ? "equal to the bit to" : "NOT like", delay, 10 * log10(power / error));
    good &= same && power > 1e10 * error;
    free(x);
    free(y);
    free(past);
    free(sound.file);
    engine_close(e);
    model_free(model);
    return !good;
}
