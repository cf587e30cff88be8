/* channel.h - the user's choice of a microphone's channel. Any thread. */
#ifndef PRIMEKNET_CHANNEL_H
#define PRIMEKNET_CHANNEL_H

#include <stdbool.h>
#include <stdint.h>

enum { CHANNEL_GREATEST = 64 }; /* the highest number */

/* {0}: the mix of all channels. */
struct channel {
    unsigned number; /* from 1; 0: the channel is given by its name ... */
    char name[16];   /* ... such as "FR" or "AUX1" */
};

/* Parses "mix" (or NULL, or ""), a channel's name or its number. Returns false for any other text. */
bool channel_parse(struct channel *ret, const char *text);
bool channel_is_mix(const struct channel *c);

/* Returns the enum spa_audio_channel of a name, or SPA_AUDIO_CHANNEL_UNKNOWN. */
uint32_t channel_position(const char *name);

#endif
