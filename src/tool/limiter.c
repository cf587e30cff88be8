#include "tool/limiter.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct limiter {
    unsigned n_channels;
    size_t window;   /* frames of look-ahead, and of averaging */
    size_t position; /* index of the current frame in each ring */
    size_t limited;  /* frames until the gain is exactly 1 again */
    float *delayed;  /* [window][n_channels] */
    float *wanted;   /* [window] the gain that each frame's peak requires */
    float *least;    /* [window] the minimum of `wanted` over the window ending at each frame */
};

int limiter_new(struct limiter **ret, unsigned rate, unsigned n_channels) {
    struct limiter *l = calloc(1, sizeof *l);
    if (!l)
        return -ENOMEM;
    l->n_channels = n_channels;
    l->window = rate / 400 + 1;
    l->delayed = calloc(l->window * n_channels, sizeof *l->delayed);
    l->wanted = malloc(l->window * sizeof *l->wanted);
    l->least = malloc(l->window * sizeof *l->least);
    if (!l->delayed || !l->wanted || !l->least) {
        limiter_free(l);
        return -ENOMEM;
    }
    for (size_t i = 0; i < l->window; i++)
        l->wanted[i] = l->least[i] = 1;
    *ret = l;
    return 0;
}

void limiter_free(struct limiter *l) {
    if (!l)
        return;
    free(l->delayed);
    free(l->wanted);
    free(l->least);
    free(l);
}

size_t limiter_delay(const struct limiter *l) {
    return l->window - 1;
}

static float gain_of(struct limiter *l, float peak) {
    l->wanted[l->position] = peak > 1 ? 1 / peak : 1;
    if (peak > 1)
        l->limited = 2 * l->window;
    if (!l->limited) /* all of `least` is 1 again */
        return 1;
    l->limited--;
    float least = 1, sum = 0;
    for (size_t i = 0; i < l->window; i++)
        least = fminf(least, l->wanted[i]);
    l->least[l->position] = least;
    for (size_t i = 0; i < l->window; i++)
        sum += l->least[i];
    return sum / l->window;
}

void limiter_run(struct limiter *l, float *frames, size_t n) {
    for (size_t i = 0; i < n; i++, frames += l->n_channels) {
        float peak = 0;
        for (unsigned c = 0; c < l->n_channels; c++)
            peak = fmaxf(peak, fabsf(frames[c]));
        float gain = gain_of(l, peak);
        memcpy(l->delayed + l->position * l->n_channels, frames, l->n_channels * sizeof *frames);
        l->position = (l->position + 1) % l->window; /* now the oldest frame, window - 1 ago */
        const float *old = l->delayed + l->position * l->n_channels;
        for (unsigned c = 0; c < l->n_channels; c++) {
            float y = old[c] * gain;
            frames[c] = y > 1 ? 1 : y < -1 ? -1 : y; /* only rounding errors reach this */
        }
    }
}
