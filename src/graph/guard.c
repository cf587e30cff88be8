#include "config.h"

#include "graph/guard.h"

#include <errno.h>
#include <pipewire/extensions/client-node.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_PROXIES = 4096 }; /* of a connection that are searched for streams */

static struct guard {
    struct guard *next;
    void *handled; /* what libpipewire's handlers know the stream by */
    struct spa_hook listener;
    bool startable;
} * guards;

/* libpipewire's handlers, which are the same for every stream, and those in their place. */
static const struct pw_client_node_events *handlers;
static struct pw_client_node_events guarded;

static struct guard *find(const void *handled) {
    struct guard *g = guards;
    while (g && g->handled != handled)
        g = g->next;
    return g;
}

static bool is_usable(const struct spa_pod *config) {
    uint32_t direction, mode;
    struct spa_pod *format = NULL;
    return config &&
           spa_pod_parse_object(config, SPA_TYPE_OBJECT_ParamPortConfig, NULL, SPA_PARAM_PORT_CONFIG_direction,
                                SPA_POD_Id(&direction), SPA_PARAM_PORT_CONFIG_mode, SPA_POD_Id(&mode),
                                SPA_PARAM_PORT_CONFIG_format, SPA_POD_OPT_Pod(&format)) >= 0 &&
           mode == SPA_PARAM_PORT_CONFIG_MODE_dsp && format;
}

static int on_set_param(void *handled, uint32_t id, uint32_t flags, const struct spa_pod *param) {
    struct guard *const g = find(handled);
    if (g && id == SPA_PARAM_PortConfig) {
        if (!is_usable(param))
            return -EINVAL;
        g->startable = true;
    }
    return handlers->set_param(handled, id, flags, param);
}

static int on_command(void *handled, const struct spa_command *command) {
    const struct guard *const g = find(handled);
    if (g && !g->startable && SPA_NODE_COMMAND_ID(command) == SPA_NODE_COMMAND_Start)
        return -EIO;
    return handlers->command(handled, command);
}

static void on_destroy(void *data) {
    struct guard *const g = data;
    struct guard **at = &guards;
    while (*at != g)
        at = &(*at)->next;
    *at = g->next;
    spa_hook_remove(&g->listener);
    free(g);
}

static const struct pw_proxy_events proxy_events = {PW_VERSION_PROXY_EVENTS, .destroy = on_destroy};

static void add(struct pw_proxy *proxy, bool converts) {
    struct spa_hook *hook;
    spa_list_for_each(hook, &pw_proxy_get_object_listeners(proxy)->list, link) {
        const struct pw_client_node_events *const events = hook->cb.funcs;
        if (events == &guarded || events->version != PW_VERSION_CLIENT_NODE_EVENTS)
            continue;
        struct guard *const g = malloc(sizeof *g);
        if (!g)
            return;
        *g = (struct guard){.next = guards, .handled = hook->cb.data, .startable = !converts};
        guards = g;
        pw_proxy_add_listener(proxy, &g->listener, &proxy_events, g);
        handlers = events;
        guarded = *events;
        guarded.set_param = on_set_param;
        guarded.command = on_command;
        hook->cb.funcs = &guarded;
    }
}

void guard_add(struct pw_core *core, bool converts) {
    for (uint32_t id = 0; id < MAX_PROXIES; id++) {
        struct pw_proxy *const proxy = pw_core_find_proxy(core, id);
        if (proxy && strcmp(pw_proxy_get_type(proxy, NULL), PW_TYPE_INTERFACE_ClientNode) == 0)
            add(proxy, converts);
    }
}
