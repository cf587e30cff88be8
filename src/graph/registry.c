#include "graph/registry.h"

#include "base/text.h"
#include "graph/params.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- objects ----------------------------------------------------------------------------------------------------- */

static uint64_t serial_of(const struct spa_dict *props) {
    return strtoull(props_text(props, PW_KEY_OBJECT_SERIAL), NULL, 10);
}

static void add_node(struct mirror *m, uint32_t id, const struct spa_dict *props) {
    struct mirror_node *const node = mirror_add_node(m, id);
    if (!node)
        return;
    text_copy(node->name, sizeof node->name, props_text(props, PW_KEY_NODE_NAME));
    text_copy(node->description, sizeof node->description, props_text(props, PW_KEY_NODE_DESCRIPTION));
    text_copy(node->application, sizeof node->application, props_text(props, PW_KEY_APP_NAME));
    if (!node->description[0])
        text_copy(node->description, sizeof node->description, node->name);
    node->role = mirror_role(spa_dict_lookup(props, PW_KEY_MEDIA_CLASS), node->name);
    node->serial = serial_of(props);
    node->volume.level = 1;
    node->hardware = spa_dict_lookup(props, PW_KEY_DEVICE_ID);
    node->priority = (unsigned)strtoul(props_text(props, PW_KEY_PRIORITY_SESSION), NULL, 10);
}

static void add_port(struct mirror *m, uint32_t id, const struct spa_dict *props) {
    const char *const channel = spa_dict_lookup(props, PW_KEY_AUDIO_CHANNEL);
    if (!channel || strcmp(props_text(props, PW_KEY_PORT_DIRECTION), "out") != 0)
        return;
    struct mirror_port *const port = mirror_add_port(m, id);
    if (!port)
        return;
    port->node = props_number(props, PW_KEY_NODE_ID);
    port->number = props_number(props, PW_KEY_PORT_ID);
    snprintf(port->channel, sizeof port->channel, "%s", channel);
}

static void add_link(struct mirror *m, uint32_t id, const struct spa_dict *props) {
    struct mirror_link *const link = mirror_add_link(m, id);
    if (!link)
        return;
    link->from = props_number(props, PW_KEY_LINK_OUTPUT_NODE);
    link->to = props_number(props, PW_KEY_LINK_INPUT_NODE);
}

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                      const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct registry *const r = data;
    if (!props)
        return;
    const char *const metadata = props_metadata(props, type);
    if (strcmp(type, PW_TYPE_INTERFACE_Node) == 0)
        add_node(&r->mirror, id, props);
    else if (strcmp(type, PW_TYPE_INTERFACE_Port) == 0)
        add_port(&r->mirror, id, props);
    else if (strcmp(type, PW_TYPE_INTERFACE_Link) == 0)
        add_link(&r->mirror, id, props);
    else if (strcmp(metadata, "default") == 0)
        mirror_add_metadata(&r->mirror, id);
    else if (strcmp(metadata, "filters") == 0)
        r->mirror.filters = id;
    else
        return;
    r->changed(r->data);
}

/* ---- watched objects --------------------------------------------------------------------------------------------- */

struct watched {
    struct spa_list list;
    struct registry *registry;
    uint32_t id;
    struct pw_proxy *proxy;
    struct spa_hook listener;
};

static void read_props(struct mirror_node *node, const struct spa_dict *props) {
    text_copy(node->group, sizeof node->group, props_text(props, PW_KEY_NODE_LINK_GROUP));
    node->meter = spa_atob(spa_dict_lookup(props, PW_KEY_STREAM_MONITOR));
    node->listens = node->role == ROLE_RECORDER && !node->meter && !node->group[0] &&
                    !spa_atob(spa_dict_lookup(props, PW_KEY_STREAM_CAPTURE_SINK));
    node->autoconnects = spa_atob(spa_dict_lookup(props, PW_KEY_NODE_AUTOCONNECT));
    const char *const target = spa_dict_lookup(props, PW_KEY_TARGET_OBJECT);
    text_copy(node->wanted, sizeof node->wanted, target ? target : props_text(props, "node.target"));
    if (!node->application[0])
        text_copy(node->application, sizeof node->application, props_text(props, PW_KEY_APP_PROCESS_BINARY));
}

static void on_node_info(void *data, const struct pw_node_info *info) {
    const struct watched *const w = data;
    struct mirror_node *const node = mirror_node(&w->registry->mirror, w->id);
    if (!node)
        return;
    const bool had_failed = node->failed;
    mirror_report_node(node, info->state == PW_NODE_STATE_ERROR);
    const bool has_props = info->change_mask & PW_NODE_CHANGE_MASK_PROPS && info->props;
    const bool is_stream = node->role == ROLE_RECORDER || node->role == ROLE_PLAYER;
    const bool reads = has_props &&
                       (is_stream || strcmp(node->group, props_text(info->props, PW_KEY_NODE_LINK_GROUP)) != 0);
    if (reads)
        read_props(node, info->props);
    if (reads || node->failed != had_failed)
        w->registry->changed(w->registry->data);
}

static void on_node_param(void *data, int seq, uint32_t id, uint32_t index, uint32_t next,
                          const struct spa_pod *param) {
    (void)seq, (void)index, (void)next;
    const struct watched *const w = data;
    struct mirror_node *const node = mirror_node(&w->registry->mirror, w->id);
    if (!node || id != SPA_PARAM_Props)
        return;
    const bool muted = node->volume.muted, silenced = mirror_is_silenced(node);
    params_read_volume(param, &node->volume);
    if (muted != node->volume.muted || silenced != mirror_is_silenced(node))
        w->registry->changed(w->registry->data);
}

static const struct pw_node_events node_events = {
    PW_VERSION_NODE_EVENTS,
    .info = on_node_info,
    .param = on_node_param,
};

/* Whether the node is on the way from a microphone to this program's recorders. */
static bool carries_a_microphone(const struct mirror_node *node) {
    return node->role == ROLE_MICROPHONE || strstr(node->name, ENHANCED_MIC);
}

static void on_link_info(void *data, const struct pw_link_info *info) {
    const struct watched *const w = data;
    struct mirror *const m = &w->registry->mirror;
    struct mirror_link *const link = mirror_link(m, w->id);
    if (!link)
        return;
    mirror_report_link(m, link, info->state == PW_LINK_STATE_ACTIVE, info->state == PW_LINK_STATE_ERROR);
    w->registry->changed(w->registry->data);
}

static const struct pw_link_events link_events = {
    PW_VERSION_LINK_EVENTS,
    .info = on_link_info,
};

/* The proxy holds the memory. NULL: none. */
static struct pw_proxy *watch(struct registry *r, uint32_t id, const char *type, uint32_t version, const void *events) {
    struct pw_proxy *const proxy = pw_registry_bind(r->registry, id, type, version, sizeof(struct watched));
    if (!proxy)
        return NULL;
    struct watched *const w = pw_proxy_get_user_data(proxy);
    *w = (struct watched){.registry = r, .id = id, .proxy = proxy};
    pw_proxy_add_object_listener(proxy, &w->listener, events, w);
    spa_list_append(&r->watched, &w->list);
    return proxy;
}

static void unwatch(struct watched *w) {
    spa_list_remove(&w->list);
    spa_hook_remove(&w->listener);
    pw_proxy_destroy(w->proxy);
}

/* False: no memory. */
static bool watch_node(struct registry *r, struct mirror_node *node) {
    struct pw_proxy *const proxy = watch(r, node->id, PW_TYPE_INTERFACE_Node, PW_VERSION_NODE, &node_events);
    node->watched = proxy;
    if (proxy && carries_a_microphone(node))
        pw_node_subscribe_params((struct pw_node *)proxy, (uint32_t[]){SPA_PARAM_Props}, 1);
    return node->watched;
}

/* Binds nodes, to learn what recorders are for, which microphones are muted and which nodes belong together, and this
 * node's links, to learn whether samples flow. */
static bool watch_all(struct registry *r) {
    struct mirror *const m = &r->mirror;
    bool all = true;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        if (!node->watched)
            all &= watch_node(r, node);
    }
    for (unsigned i = 0; i < m->n_links; i++) {
        struct mirror_link *const link = &m->links[i];
        const bool is_ours = mirror_ends_at(link->to, m->own.capture) || mirror_ends_at(link->from, m->own.source);
        if (!is_ours || link->watched)
            continue;
        link->watched = watch(r, link->id, PW_TYPE_INTERFACE_Link, PW_VERSION_LINK, &link_events) != NULL;
        all &= link->watched;
    }
    return all;
}

static void on_global_remove(void *data, uint32_t id) {
    struct registry *const r = data;
    struct watched *w, *next;
    spa_list_for_each_safe(w, next, &r->watched, list) {
        if (w->id == id)
            unwatch(w);
    }
    mirror_remove(&r->mirror, id);
    r->changed(r->data);
}

static const struct pw_registry_events registry_events = {
    PW_VERSION_REGISTRY_EVENTS,
    .global = on_global,
    .global_remove = on_global_remove,
};

/* ---- the session manager's metadata ------------------------------------------------------------------------------ */

static int on_property(void *data, uint32_t subject, const char *key, const char *type, const char *value) {
    (void)type;
    struct registry *const r = data;
    mirror_property(&r->mirror, subject, key, value);
    r->changed(r->data);
    return 0;
}

static const struct pw_metadata_events metadata_events = {
    PW_VERSION_METADATA_EVENTS,
    .property = on_property,
};

static void on_core_error(void *data, uint32_t id, int seq, int result, const char *message) {
    (void)seq, (void)message;
    struct registry *const r = data;
    if (id == PW_ID_CORE && (result == -EPIPE || result == -ECONNRESET))
        r->lost(r->data);
}

static void on_manager_done(void *data, uint32_t id, int seq) {
    (void)id, (void)seq;
    struct registry *const r = data;
    if (r->mirror.metadata_complete) /* the first answer follows the metadata's initial content */
        return;
    r->mirror.metadata_complete = true;
    r->changed(r->data);
}

static const struct pw_core_events manager_events = {
    PW_VERSION_CORE_EVENTS,
    .done = on_manager_done,
    .error = on_core_error,
};

/* After a client's first request, PipeWire does not report the properties of objects unknown to it at that time. */
static void on_manager_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                              const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct registry *const r = data;
    if (strcmp(type, PW_TYPE_INTERFACE_Node) != 0 || !props)
        return;
    mirror_own_target(&r->mirror, id, serial_of(props));
    pw_core_sync(r->manager.core, PW_ID_CORE, 0);
}

static const struct pw_registry_events manager_registry_events = {
    PW_VERSION_REGISTRY_EVENTS,
    .global = on_manager_global,
};

/* WirePlumber's smart filters (0.5): what records the microphone `filtered` is linked to the node in its place. */
static void set_filter(struct registry *r, const char *filtered) {
    json_t *const target = json_pack("{s:s}", "node.name", filtered);
    char *const value = filtered[0] && target ? json_dumps(target, JSON_COMPACT) : NULL;
    pw_metadata_set_property(r->manager.filters, r->manager.filter, "filter.smart.target", "Spa:String:JSON", value);
    pw_metadata_set_property(r->manager.filters, r->manager.filter, "filter.smart", "Spa:String:JSON",
                             value ? "true" : NULL);
    free(value);
    json_decref(target);
}

static void leave_filters(struct registry *r) {
    if (r->manager.filters)
        pw_proxy_destroy((struct pw_proxy *)r->manager.filters);
    r->manager.filters = NULL;
    r->manager.filters_id = 0;
    r->manager.filtered[0] = '\0';
}

static bool follow_filters(struct registry *r, const struct wishes *w) {
    const struct mirror *const m = &r->mirror;
    if (r->manager.filters_id != m->filters)
        leave_filters(r);
    if (!r->manager.filters && m->filters && w->filtered[0]) {
        r->manager.filters = pw_registry_bind(r->manager.registry, m->filters, PW_TYPE_INTERFACE_Metadata,
                                              PW_VERSION_METADATA, 0);
        r->manager.filters_id = m->filters;
    }
    const bool same = m->own.source == r->manager.filter && strcmp(w->filtered, r->manager.filtered) == 0;
    if (!r->manager.filters || same)
        return r->manager.filters || !w->filtered[0];
    r->manager.filter = m->own.source;
    text_copy(r->manager.filtered, sizeof r->manager.filtered, w->filtered);
    if (m->own.source != MIRROR_NONE)
        set_filter(r, w->filtered);
    return true;
}

static void leave_manager(struct registry *r) {
    leave_filters(r);
    r->manager.registry = destroy_proxy(r->manager.registry, &r->manager.registry_listener);
    r->manager.metadata = destroy_proxy(r->manager.metadata, &r->manager.metadata_listener);
    r->manager.core = disconnect_core(r->manager.core, &r->manager.core_listener);
    r->manager.id = MIRROR_NONE;
    mirror_lose_metadata(&r->mirror);
}

static bool follow_manager(struct registry *r, uint32_t id) {
    r->manager.core = pw_context_connect(r->context, NULL, 0);
    if (!r->manager.core)
        return false;
    pw_core_add_listener(r->manager.core, &r->manager.core_listener, &manager_events, r);
    r->manager.registry = pw_core_get_registry(r->manager.core, PW_VERSION_REGISTRY, 0);
    if (!r->manager.registry)
        return false;
    pw_registry_add_listener(r->manager.registry, &r->manager.registry_listener, &manager_registry_events, r);
    r->manager.metadata = pw_registry_bind(r->manager.registry, id, PW_TYPE_INTERFACE_Metadata, PW_VERSION_METADATA, 0);
    if (!r->manager.metadata)
        return false;
    pw_metadata_add_listener(r->manager.metadata, &r->manager.metadata_listener, &metadata_events, r);
    pw_core_sync(r->manager.core, PW_ID_CORE, 0);
    r->manager.id = id;
    return true;
}

bool registry_follow(struct registry *r, const struct wishes *w) {
    if (!r->core)
        return true;
    if (r->manager.id != w->metadata) {
        leave_manager(r);
        if (w->metadata != MIRROR_NONE && !follow_manager(r, w->metadata))
            leave_manager(r);
    }
    const bool all = watch_all(r);
    for (unsigned i = 0; r->manager.metadata && i < w->n_targets; i++) {
        const struct wishes_target *const target = &w->targets[i];
        char serial[24];
        snprintf(serial, sizeof serial, "%" PRIu64, target->serial);
        pw_metadata_set_property(r->manager.metadata, target->node, target->key, target->serial ? "Spa:Id" : NULL,
                                 target->serial ? serial : NULL);
    }
    const bool filters = !r->manager.registry || follow_filters(r, w);
    return all && filters && r->manager.id == w->metadata;
}

/* ---- the connection ---------------------------------------------------------------------------------------------- */

static void on_core_done(void *data, uint32_t id, int seq) {
    struct registry *const r = data;
    if (id != PW_ID_CORE || seq != r->asked)
        return;
    r->mirror.complete = true;
    r->changed(r->data);
}

static void on_core_info(void *data, const struct pw_core_info *info) {
    struct registry *const r = data;
    r->mirror.instance = info->cookie;
}

static const struct pw_core_events core_events = {
    PW_VERSION_CORE_EVENTS,
    .info = on_core_info,
    .done = on_core_done,
    .error = on_core_error,
};

void registry_init(struct registry *r) {
    spa_list_init(&r->watched);
    r->manager.id = MIRROR_NONE;
}

int registry_connect(struct registry *r) {
    r->core = pw_context_connect(r->context, NULL, 0);
    if (!r->core)
        return -errno;
    pw_core_add_listener(r->core, &r->core_listener, &core_events, r);
    r->registry = pw_core_get_registry(r->core, PW_VERSION_REGISTRY, 0);
    if (!r->registry)
        return -errno;
    pw_registry_add_listener(r->registry, &r->registry_listener, &registry_events, r);
    r->asked = pw_core_sync(r->core, PW_ID_CORE, 0);
    return 0;
}

void registry_disconnect(struct registry *r) {
    struct watched *w;
    spa_list_consume(w, &r->watched, list) unwatch(w);
    leave_manager(r);
    mirror_clear(&r->mirror);
    r->registry = destroy_proxy(r->registry, &r->registry_listener);
    r->core = disconnect_core(r->core, &r->core_listener);
}
