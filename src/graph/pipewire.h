/* pipewire.h - includes PipeWire's headers. Their macros and inline functions are GNU C, so files that include this one
 * are not checked for ISO C. */
#ifndef PRIMEKNET_PIPEWIRE_H
#define PRIMEKNET_PIPEWIRE_H

#pragma GCC diagnostic ignored "-Wpedantic"
#include <pipewire/pipewire.h>
#include <pipewire/extensions/metadata.h>
#include <pipewire/filter.h>
#include <pipewire/impl.h>
#include <pipewire/thread.h>
#include <spa/debug/types.h>
#include <spa/param/audio/format-utils.h>
#include <spa/param/audio/type-info.h>
#include <spa/param/latency-utils.h>
#include <spa/param/port-config.h>
#include <spa/param/props.h>
#include <spa/pod/builder.h>
#include <spa/pod/iter.h>
#include <spa/pod/parser.h>
#include <spa/support/thread.h>

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* In a Flatpak, WirePlumber lets clients only read the graph unless they are managers. */
#define AS_MANAGER PW_KEY_MEDIA_CATEGORY, "Manager"

/* A property's value; without the property "", or UINT32_MAX, which is no object's id. */
static inline const char *props_text(const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    return text ? text : "";
}

static inline uint32_t props_number(const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    return text ? (uint32_t)strtoul(text, NULL, 10) : UINT32_MAX;
}

/* The name of a metadata object; "" for other objects. */
static inline const char *props_metadata(const struct spa_dict *props, const char *type) {
    return strcmp(type, PW_TYPE_INTERFACE_Metadata) == 0 ? props_text(props, PW_KEY_METADATA_NAME) : "";
}

/* Remove the listener and destroy the object, unless it is NULL. Each returns NULL. */
static inline void *destroy_proxy(void *proxy, struct spa_hook *listener) {
    if (proxy) {
        spa_hook_remove(listener);
        pw_proxy_destroy(proxy);
    }
    return NULL;
}

static inline void *disconnect_core(struct pw_core *core, struct spa_hook *listener) {
    if (core) {
        spa_hook_remove(listener);
        pw_core_disconnect(core);
    }
    return NULL;
}

static inline void close_loop(struct pw_loop *loop, struct pw_context *context) {
    if (context)
        pw_context_destroy(context);
    if (loop) {
        pw_loop_leave(loop);
        pw_loop_destroy(loop); /* and its timers and events */
    }
}

#endif
