#include "config.h"

#include "base/text.h"

#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

static const char ellipsis[] = "\u2026";
enum { ELLIPSIS = sizeof ellipsis - 1, LONGEST_NAME = 32 };

size_t text_character(const char *s, size_t n) {
    const unsigned char *b = (const unsigned char *)s;
    if (b[0] < 0x80)
        return 1;
    size_t length = b[0] < 0xC2 || b[0] > 0xF4 ? 0 : b[0] < 0xE0 ? 2 : b[0] < 0xF0 ? 3 : 4;
    if (length == 0 || length > n)
        return 0;
    if ((b[0] == 0xE0 && b[1] < 0xA0) || (b[0] == 0xED && b[1] > 0x9F) || (b[0] == 0xF0 && b[1] < 0x90) ||
        (b[0] == 0xF4 && b[1] > 0x8F))
        return 0;
    for (size_t i = 1; i < length; i++)
        if ((b[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

void text_copy(char *ret, size_t size, const char *text) {
    size_t n = strlen(text), to = 0, cut = 0; /* cut: where the ellipsis still fits */
    for (size_t from = 0; from < n;) {
        size_t length = text_character(text + from, n - from);
        const char *character = length ? text + from : "?";
        if (length == 1 && ((unsigned char)*character < 0x20 || *character == 0x7F))
            character = " ";
        from += length ? length : 1;
        length = length ? length : 1;
        if (to + length >= size) {
            if (size > ELLIPSIS)
                memcpy(ret + cut, ellipsis, ELLIPSIS);
            to = size > ELLIPSIS ? cut + ELLIPSIS : cut;
            break;
        }
        memcpy(ret + to, character, length);
        to += length;
        if (to + ELLIPSIS < size)
            cut = to;
    }
    ret[to] = '\0';
}

void text_add(char *text, size_t size, const char *format, ...) {
    size_t n = strlen(text);
    va_list args;
    va_start(args, format);
    vsnprintf(text + n, size - n, format, args);
    va_end(args);
}

/* Does not use spa_atod, which stores its locale without a lock. */
bool text_number(const char *text, const char *unit, double *ret) {
    char number[64], *comma, *end = NULL;
    const size_t n = strspn(text, "0123456789.,+-eE");
    const char *after = text + n + strspn(text + n, " ");
    if (n == 0 || n >= sizeof number || (*after && strcasecmp(after, unit) != 0))
        return false;
    memcpy(number, text, n);
    number[n] = '\0';
    if ((comma = strchr(number, ',')))
        *comma = '.';
    const locale_t c = newlocale(LC_NUMERIC_MASK, "C", (locale_t)0);
    if (!c)
        return false;
    *ret = strtod_l(number, &end, c) / (*after == '%' ? 100 : 1);
    freelocale(c);
    return end == number + n && isfinite(*ret);
}

bool text_switch(const char *word, bool *ret) {
    static const char *const words[][2] = {{"off", "on"}, {"no", "yes"}, {"false", "true"}, {"0", "1"}};
    for (size_t i = 0; i < 2 * sizeof words / sizeof *words; i++)
        if (strcasecmp(word, words[i / 2][i % 2]) == 0) {
            *ret = i % 2;
            return true;
        }
    return false;
}

static unsigned least(unsigned a, unsigned b) {
    return a < b ? a : b;
}

/* The number of letters inserted, omitted, replaced, or swapped with a neighbour (optimal string alignment
 * distance). */
static unsigned count_slips(const char *a, size_t n, const char *b, size_t m) {
    unsigned d[LONGEST_NAME + 1][LONGEST_NAME + 1];
    for (size_t i = 0; i <= n; i++)
        for (size_t k = 0; k <= m; k++) {
            if (!i || !k) {
                d[i][k] = (unsigned)(i + k);
                continue;
            }
            bool other = a[i - 1] != b[k - 1];
            d[i][k] = least(d[i - 1][k - 1] + other, least(d[i - 1][k], d[i][k - 1]) + 1);
            if (i > 1 && k > 1 && a[i - 1] == b[k - 2] && a[i - 2] == b[k - 1])
                d[i][k] = least(d[i][k], d[i - 2][k - 2] + 1);
        }
    return d[n][m];
}

void likest_try(struct likest *l, const char *name) {
    size_t n = strlen(l->word), m = strlen(name);
    if (n > LONGEST_NAME || m > LONGEST_NAME)
        return;
    unsigned slips = count_slips(l->word, n, name, m);
    if (slips <= (m < 5 ? 1 : 2) && (!l->name || slips < l->slips)) {
        l->name = name;
        l->slips = slips;
    }
}
