/* primeknet plot: draws the network's effect on a sound: spectrogram before, gain, spectrogram after. */
#include "config.h"

#include "tool/cli.h"

#include <stdio.h>

#ifdef HAVE_CAIRO

#include "base/file.h"
#include "engine/choose.h"
#include "base/fpu.h"
#include "kernels/kernels.h"
#include "model/model.h"
#include "net/net.h"
#include "tool/sound.h"
#include "net/spectrum.h"
#include "net/stft.h"

#include <cairo.h>
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Pixels: the picture, a panel, and the space around it. */
enum {
    WIDTH = 1200,
    LEFT = 66,
    PANEL_WIDTH = 1040,
    TOP = 62,
    PANEL_HEIGHT = 270,
    BETWEEN = 44,
    BOTTOM = 52,
    N_PANELS = 3
};
enum { HEIGHT = TOP + N_PANELS * PANEL_HEIGHT + (N_PANELS - 1) * BETWEEN + BOTTOM };
enum { BEFORE, GAIN, AFTER };
static const double level_range_db = 80, gain_range_db = 40;

/* The plotted data, averaged over the hops of a column: power [n_columns][n_bins] for each panel; for GAIN the squared
 * gain. */
struct view {
    unsigned n_columns, n_bins;
    float *power[N_PANELS];
    double seconds, top_hz, rate;
    struct pool pool;
};

/* ---- the network on the file ------------------------------------------------------------------------------------- */

struct run {
    struct stft *stft;
    struct net *net;
    struct net_state state;
    struct stft_state stft_state;
    struct pool pool;
};

static int run_init(struct run *r, const struct model *model) {
    int code = stft_new(&r->stft, model, kernels_nth(0));
    if (code == 0)
        code = net_new(&r->net, model, kernels_nth(0));
    if (code == 0)
        code = net_state_init(r->net, &r->state);
    if (code == 0)
        stft_state_init(r->stft, &r->stft_state, &r->pool);
    return code;
}

static void run_done(struct run *r) {
    net_state_done(&r->state);
    pool_done(&r->pool);
    net_free(r->net);
    stft_free(r->stft);
}

static void add_power(float *power, const float complex *x, unsigned n_bins, float weight) {
    for (unsigned i = 0; i < n_bins; i++)
        power[i] += weight * (crealf(x[i]) * crealf(x[i]) + cimagf(x[i]) * cimagf(x[i]));
}

/* sound must have the model's rate. */
static int view_fill(struct view *v, const struct sound *sound, const struct model *model) {
    const struct model_config *g = model_config(model);
    const size_t n_hops = (sound->n + g->hop - 1) / g->hop;
    struct run r = {0};
    int code = run_init(&r, model);
    float *in = pool_floats(&r.pool, g->hop), *features = pool_floats(&r.pool, 3 * (size_t)g->n_positions);
    float *mask = pool_floats(&r.pool, g->n_positions), *rotation = pool_floats(&r.pool, 2 * (size_t)g->n_positions);
    float complex *x = (float complex *)pool_floats(&r.pool, 2 * (size_t)g->n_bins);
    float complex *gain = (float complex *)pool_floats(&r.pool, 2 * (size_t)g->n_bins);
    v->n_columns = n_hops < PANEL_WIDTH ? (unsigned)n_hops : PANEL_WIDTH;
    v->n_bins = g->n_bins;
    for (int p = 0; p < N_PANELS; p++)
        v->power[p] = pool_floats(&v->pool, (size_t)v->n_columns * v->n_bins);
    if (code < 0 || !pool_ok(&r.pool) || !pool_ok(&v->pool)) {
        run_done(&r);
        return -ENOMEM;
    }
    float full_scale = 0; /* the power of a sine of amplitude 1 */
    for (unsigned i = 0; i < g->window; i++)
        full_scale += model_weights(model)->analysis_window[i] / 2;
    unsigned saved = fpu_flush_denormals();
    for (size_t hop = 0; hop < n_hops; hop++) {
        size_t start = hop * g->hop, n = sound->n - start < g->hop ? sound->n - start : g->hop;
        size_t column = hop * v->n_columns / n_hops;
        size_t first = (column * n_hops + v->n_columns - 1) / v->n_columns;
        size_t end = ((column + 1) * n_hops + v->n_columns - 1) / v->n_columns;
        float share = 1 / (float)(end - first);
        memset(in, 0, g->hop * sizeof *in);
        memcpy(in, sound->samples + start, n * sizeof *in);
        stft_analyse(r.stft, &r.stft_state, in, x);
        spectrum_features(g, kernels_nth(0), x, features);
        net_run(r.net, &r.state, features, mask, rotation);
        for (unsigned i = 0; i < g->n_bins; i++)
            gain[i] = 1;
        spectrum_apply(g, kernels_nth(0), mask, rotation, 1, 0, gain);
        add_power(v->power[BEFORE] + column * v->n_bins, x, v->n_bins, share / (full_scale * full_scale));
        add_power(v->power[GAIN] + column * v->n_bins, gain, v->n_bins, share);
        spectrum_apply(g, kernels_nth(0), mask, rotation, 1, 0, x);
        add_power(v->power[AFTER] + column * v->n_bins, x, v->n_bins, share / (full_scale * full_scale));
    }
    fpu_restore(saved);
    run_done(&r);
    return 0;
}

/* ---- the picture ------------------------------------------------------------------------------------------------- */

/* Returns the height of a frequency in a panel: linear below 700 Hz, logarithmic above, like hearing. */
static double warp(double hz) {
    return log1p(hz / 700);
}

struct colour {
    double r, g, b;
};

/* Maps 0..1 to black, violet, red, orange, light yellow, or for the gain from black to white. */
static uint32_t colour_of(int panel, double x) {
    static const struct colour ramp[] = {
        {.02, .02, .06}, {.28, .07, .43}, {.68, .18, .38}, {.95, .5, .18}, {.99, .98, .75}};
    const int steps = sizeof ramp / sizeof *ramp - 1;
    x = fmax(0, fmin(x, 1));
    struct colour c = {.12 * (1 - x) + .98 * x, .12 * (1 - x) + .98 * x, .16 * (1 - x) + .96 * x};
    if (panel != GAIN) {
        int i = (int)fmin(x * steps, steps - 1);
        double t = x * steps - i;
        c.r = ramp[i].r + t * (ramp[i + 1].r - ramp[i].r);
        c.g = ramp[i].g + t * (ramp[i + 1].g - ramp[i].g);
        c.b = ramp[i].b + t * (ramp[i + 1].b - ramp[i].b);
    }
    return 0xff000000u | (uint32_t)lround(255 * c.r) << 16 | (uint32_t)lround(255 * c.g) << 8 |
           (uint32_t)lround(255 * c.b);
}

static int panel_top(int panel) {
    return TOP + panel * (PANEL_HEIGHT + BETWEEN);
}

static void paint_panel(uint32_t *pixels, size_t stride, const struct view *v, int panel, double top_db,
                        double range_db) {
    for (int row = 0; row < PANEL_HEIGHT; row++) {
        double hz = 700 * expm1(warp(v->top_hz) * (1 - (row + .5) / PANEL_HEIGHT));
        double bin = fmin(hz / v->rate * 2 * (v->n_bins - 1), v->n_bins - 1.001);
        unsigned below = (unsigned)bin;
        float share = (float)(bin - below);
        uint32_t *line = pixels + (size_t)(panel_top(panel) + row) * stride;
        for (unsigned x = 0; x < PANEL_WIDTH; x++) {
            const float *power = v->power[panel] + (size_t)x * v->n_columns / PANEL_WIDTH * v->n_bins + below;
            double db = 10 * log10((1 - share) * power[0] + share * power[1] + 1e-20f);
            line[LEFT + x] = colour_of(panel, 1 + (db - top_db) / range_db);
        }
        for (int x = 0; x < 12; x++) /* the colour scale */
            line[LEFT + PANEL_WIDTH + 14 + x] = colour_of(panel, 1 - (row + .5) / PANEL_HEIGHT);
    }
}

enum align { START, MIDDLE, END };

static void write_text(cairo_t *c, double x, double y, enum align align, const char *text) {
    cairo_text_extents_t size;
    cairo_text_extents(c, text, &size);
    cairo_move_to(c, align == START ? x : align == MIDDLE ? x - size.x_advance / 2 : x - size.x_advance, y);
    cairo_show_text(c, text);
}

static void draw_axes(cairo_t *c, const struct view *v, int panel, double top_db, double range_db) {
    static const struct {
        double hz;
        const char *text;
    } ticks[] = {{0, "0"},     {500, "500"}, {1000, "1k"},   {2000, "2k"},
                 {4000, "4k"}, {8000, "8k"}, {16000, "16k"}, {32000, "32k"}};
    const double top = panel_top(panel), bottom = top + PANEL_HEIGHT, right = LEFT + PANEL_WIDTH;
    char text[64];
    cairo_set_font_size(c, 13);
    for (size_t i = 0; i < sizeof ticks / sizeof *ticks && ticks[i].hz <= v->top_hz; i++) {
        double y = bottom - PANEL_HEIGHT * warp(ticks[i].hz) / warp(v->top_hz);
        cairo_rectangle(c, LEFT - 5, round(y), 5, 1);
        write_text(c, LEFT - 9, y + 4.5, END, ticks[i].text);
    }
    write_text(c, LEFT - 9, top - 8, END, "Hz");
    /* The longest of 1, 2, 5, 10 ... s that gives at least five ticks. */
    double step = pow(10, floor(log10(v->seconds / 5)));
    step *= v->seconds / step >= 25 ? 5 : v->seconds / step >= 10 ? 2 : 1;
    for (int i = 0; i * step <= v->seconds; i++) {
        double x = LEFT + PANEL_WIDTH * i * step / v->seconds;
        cairo_rectangle(c, round(x), bottom, 1, 5);
        snprintf(text, sizeof text, "%.10g", i * step);
        if (panel == AFTER)
            write_text(c, x, bottom + 20, MIDDLE, text);
    }
    if (panel == AFTER)
        write_text(c, LEFT + PANEL_WIDTH / 2., bottom + 42, MIDDLE, "seconds");
    for (double db = 0; db <= range_db; db += 20) {
        double y = top + PANEL_HEIGHT * db / range_db;
        snprintf(text, sizeof text, "%d", (int)lround(top_db - db));
        write_text(c, right + 32, y + 4.5, START, text);
    }
    write_text(c, right + 14, top - 8, START, panel == GAIN ? "dB" : "dBFS");
    cairo_fill(c);
}

static cairo_status_t put_png(void *data, const unsigned char *bytes, unsigned n) {
    const struct replace *r = data;
    const int code = file_put(r->fd, bytes, n);
    errno = -code;
    return code < 0 ? CAIRO_STATUS_WRITE_ERROR : CAIRO_STATUS_SUCCESS;
}

static int draw(const struct view *v, const char *in, const char *model, const char *out, struct err *err) {
    static const char *const titles[] = {"before", "gain of the model", "after"};
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, WIDTH, HEIGHT);
    cairo_t *c = cairo_create(surface);
    cairo_set_source_rgb(c, 1, 1, 1);
    cairo_paint(c);
    cairo_surface_flush(surface);
    float loudest = 0;
    for (size_t i = 0; i < (size_t)v->n_columns * v->n_bins; i++)
        loudest = fmaxf(loudest, v->power[BEFORE][i]);
    double top_db = loudest > 0 ? 10 * floor(log10(loudest)) : 0;
    uint32_t *pixels = (uint32_t *)(void *)cairo_image_surface_get_data(surface);
    for (int p = 0; pixels && p < N_PANELS; p++)
        paint_panel(pixels, (size_t)cairo_image_surface_get_stride(surface) / sizeof *pixels, v, p,
                    p == GAIN ? 0 : top_db, p == GAIN ? gain_range_db : level_range_db);
    cairo_surface_mark_dirty(surface);

    cairo_set_source_rgb(c, .15, .15, .2);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_BOLD);
    cairo_set_font_size(c, 16);
    for (int p = 0; p < N_PANELS; p++)
        write_text(c, LEFT, panel_top(p) - 9, START, titles[p]);
    cairo_select_font_face(c, "sans-serif", CAIRO_FONT_SLANT_NORMAL, CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(c, 14);
    char title[512];
    snprintf(title, sizeof title, "%.300s, PrimeKnet %.100s", basename(in), model);
    write_text(c, LEFT, 24, START, title);
    for (int p = 0; p < N_PANELS; p++)
        draw_axes(c, v, p, p == GAIN ? 0 : top_db, p == GAIN ? gain_range_db : level_range_db);

    struct replace r;
    int code = replace_begin(&r, out, 0666, err);
    if (code == 0) {
        cairo_status_t status = cairo_status(c);
        if (status == CAIRO_STATUS_SUCCESS)
            status = cairo_surface_write_to_png_stream(surface, put_png, &r);
        code = status == CAIRO_STATUS_SUCCESS
                   ? replace_finish(&r, err)
                   : err_set(err, -EIO, "%s: cannot be written: %s", out,
                             status == CAIRO_STATUS_WRITE_ERROR ? strerror(errno) : cairo_status_to_string(status));
    }
    replace_drop(&r);
    cairo_destroy(c);
    cairo_surface_destroy(surface);
    return code;
}

/* Returns 0; 1 if the picture is of what can be read of `in`, with the reason in *err; or a negative errno. */
static int plot(const char *in, const char *out, const char *model_path, struct err *err) {
    struct sound file = {0}, sound = {0};
    struct model *model = NULL;
    struct choice c;
    int code = 0;
    if (strcmp(model_path, "auto") == 0 && (code = choose_model(&c, "cpu", CHOOSE_MEASURED, NULL, err)) == 0)
        model_path = c.model;
    if (code == 0)
        code = sound_read(&file, in, err);
    if (code == 0)
        code = model_load(&model, model_path, err);
    if (code == 0)
        code = sound_resample(&sound, &file, model_rate(model), in, err);
    if (code == 0) {
        unsigned rate = model_rate(model), lower = file.rate < rate ? file.rate : rate;
        struct view v = {.seconds = (double)file.n / file.rate, .top_hz = lower / 2., .rate = rate};
        code = view_fill(&v, &sound, model);
        if (code < 0)
            err_set(err, code, "%s: out of memory", in);
        else
            code = draw(&v, in, model_name(model), out, err);
        pool_done(&v.pool);
    }
    if (code == 0 && file.fault)
        code = 1 +
               err_set(err, 0, "%s: %s; drew the %.2f s that can be read", in, file.fault, (double)file.n / file.rate);
    sound_done(&sound);
    sound_done(&file);
    model_free(model);
    return code;
}

/* Replaces the extension of IN. */
static int default_name(char *ret, size_t size, const char *in) {
    const char *name = basename(in), *dot = strrchr(name, '.');
    int n = dot && dot != name ? (int)(dot - in) : (int)strlen(in);
    return snprintf(ret, size, "%.*s.png", n, in) < (int)size ? 0 : -ENAMETOOLONG;
}

static int run_plot(const char *in, const char *out, const char *model) {
    char name[4096];
    struct err err;
    if (!out && default_name(name, sizeof name, in) < 0)
        return cli_fail("%s: the name is too long", in);
    if (!out)
        out = name;
    if (strcmp(in, out) == 0)
        return cli_fail("%s: would be overwritten by its own picture", in);
    const char *dot = strrchr(out, '.');
    if (!dot || strcasecmp(dot, ".png") != 0)
        return cli_fail("%s: the picture is a PNG file, so its name must end in .png", out);
    const int code = plot(in, out, model, &err);
    if (code != 0)
        cli_fail("%s", err.text);
    return code < 0 ? cli_failed : code ? cli_cut_short : cli_done;
}

#else

static int run_plot(const char *in, const char *out, const char *model) {
    (void)in, (void)out, (void)model;
    return cli_fail("this build has no plot; install cairo (libcairo2-dev), then configure and build again");
}

#endif

static int run(const struct cli_call *call) {
    const char *model = cli_option(call, 'm');
    return run_plot(call->words[0], call->words[1], model ? model : "base");
}

const struct cli_command plot_command = {
    .name = "plot",
    .summary = "draw what a model does to a sound file",
    .run = run,
    .arguments = {{"IN", .kind = CLI_FILE}, {"OUT", .kind = CLI_FILE, .optional = true}},
    .options = {CLI_MODEL_OPTION},
    .about = "Writes a PNG picture of the sound file IN: its spectrogram, the model's gain, and the spectrogram\n"
             "after. OUT defaults to IN with the extension .png.\n",
};
