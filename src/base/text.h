/* text.h - text that people read and write: UTF-8, truncation, numbers, similar words. Any thread. */
#ifndef PRIMEKNET_TEXT_H
#define PRIMEKNET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* Returns the length in bytes of the UTF-8 character at s[n] (RFC 3629: no surrogates, no overlong forms), or 0 if
 * there is no valid one. n > 0. */
size_t text_character(const char *s, size_t n);

/* Copies untrusted text as one line. Replaces each byte that is not valid UTF-8 by "?", and each control character by a
 * space. Text too long for ret[size] is cut between characters and ends with an ellipsis. */
void text_copy(char *ret, size_t size, const char *text);

/* Appends to text[size], truncated if it does not fit. */
void text_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Reads a number as people write it, in any locale: 0.5 or 0,5, and its unit, such as "dB", may follow. If the unit is
 * "%", 50% is 0.5. Returns false for any other text. */
bool text_number(const char *text, const char *unit, double *ret);
/* Reads on, yes, true or 1, and off, no, false or 0, in any case. Returns false for any other word. */
bool text_switch(const char *word, bool *ret);

/* Finds the name that the user probably meant by a word: the one with the fewest typing errors, at most two. Call
 * likest_try for each name. */
struct likest {
    const char *word;
    const char *name; /* the most similar name so far; NULL: none is similar enough */
    unsigned slips;
};
void likest_try(struct likest *l, const char *name);

#endif
