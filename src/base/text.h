/* text.h - words for people and from them: UTF-8, cutting, likeness. Any thread. */
#ifndef PRIMEKNET_TEXT_H
#define PRIMEKNET_TEXT_H

#include <stddef.h>

/* The length of the UTF-8 character at s (RFC 3629: no surrogates, no overlong forms), 0 where there is none. n > 0. */
size_t text_character(const char *s, size_t n);

/* Copies words that may be anything, as one line: "?" for each byte that is no UTF-8, a blank for a control character. What
 * does not fit in ret[size] is cut between characters, and an ellipsis says so. */
void text_copy(char *ret, size_t size, const char *text);

/* Adds to text[size], as far as there is room. */
void text_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Of the names tried, the one that was probably meant by the word: it differs by a slip or two. */
struct likest {
    const char *word;
    const char *name; /* NULL: none is near */
    unsigned slips;
};
void likest_try(struct likest *l, const char *name);

#endif
