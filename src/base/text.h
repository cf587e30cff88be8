/* text.h - text for and from people: UTF-8, truncation, similarity. Any thread. */
#ifndef PRIMEKNET_TEXT_H
#define PRIMEKNET_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

static inline bool text_begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* The length in bytes of the UTF-8 character at s (RFC 3629: no surrogates, no overlong forms), or 0 if there is none.
 * n > 0. */
size_t text_character(const char *s, size_t n);

/* Copies untrusted text as one line: "?" replaces each byte that is not UTF-8, a blank each control character. Text
 * that does not fit in ret[size] is cut between characters and ends with an ellipsis. */
void text_copy(char *ret, size_t size, const char *text);

/* Appends to text[size] as much as fits. */
void text_add(char *text, size_t size, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* Finds the name that the user probably meant by a word: the one with the fewest slips, at most one or two. */
struct likest {
    const char *word;
    const char *name; /* NULL: none is similar */
    unsigned slips;
};
void likest_try(struct likest *l, const char *name);

#endif
