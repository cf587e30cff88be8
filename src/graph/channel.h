/* channel.h - the channel of a microphone that people choose. Any thread. */
#ifndef PRIMEKNET_CHANNEL_H
#define PRIMEKNET_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { CHANNEL_GREATEST = 64 }; /* number that can be chosen */

/* {0}: all of them, mixed. */
struct channel {
    unsigned number; /* from 1; 0: by its name ... */
    char name[16];   /* ... such as "FR" or "AUX1" */
};

/* Takes "mix" (or NULL, or ""), a channel's name or its number. False if the text is none of these. */
bool channel_parse(struct channel *ret, const char *text);
bool channel_is_mix(const struct channel *c);

/* The enum spa_audio_channel of a name, SPA_AUDIO_CHANNEL_UNKNOWN for another text. */
uint32_t channel_position(const char *name);

#endif
