#include "graph/channel.h"

#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's inline functions are GNU C */
#include <spa/debug/types.h>
#include <spa/param/audio/type-info.h>

uint32_t channel_position(const char *name) {
    for (const struct spa_type_info *t = spa_type_audio_channel; t->name; t++)
        if (strcmp(spa_debug_type_short_name(t->name), name) == 0)
            return t->type;
    return SPA_AUDIO_CHANNEL_UNKNOWN;
}

bool channel_is_mix(const struct channel *c) {
    return !c->number && !c->name[0];
}

bool channel_parse(struct channel *ret, const char *text) {
    *ret = (struct channel){0};
    if (!text || !text[0] || strcmp(text, "mix") == 0)
        return true;
    if (text[strspn(text, "0123456789")] == '\0') {
        const unsigned long number = strtoul(text, NULL, 10);
        ret->number = number <= CHANNEL_GREATEST ? (unsigned)number : 0;
        return ret->number > 0;
    }
    if (strlen(text) >= sizeof ret->name || channel_position(text) == SPA_AUDIO_CHANNEL_UNKNOWN)
        return false;
    strcpy(ret->name, text);
    return true;
}
