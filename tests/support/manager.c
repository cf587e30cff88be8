#include "config.h"

#include "manager.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#pragma GCC diagnostic ignored "-Wpedantic" /* PipeWire's macros and inline functions use GNU C */
#include <pipewire/impl.h>
#include <pipewire/pipewire.h>
#include <pipewire/extensions/metadata.h>
#include <spa/param/audio/format-utils.h>
#include <spa/pod/builder.h>

struct object {
    struct spa_list list;
    enum { NODE, PORT, LINK } type;
    uint32_t id;
    uint32_t from, to;      /* LINK: its ports; PORT: its node */
    uint64_t serial;        /* NODE */
    char name[128];         /* NODE, PORT */
    char class[64];         /* NODE */
    bool deprived;          /* NODE: it gets no ports */
    struct pw_proxy *proxy; /* NODE */
    struct spa_hook listener;
};

struct property {
    struct spa_list list;
    uint32_t subject;
    unsigned n_changes;
    char key[64], value[256];
};

struct manager {
    struct pw_thread_loop *loop;
    struct pw_context *context;
    struct pw_core *core;
    struct pw_registry *registry;
    struct pw_impl_metadata *metadata;
    struct pw_proxy *exported;
    struct spa_hook registry_listener, metadata_listener;
    struct spa_list objects, properties;
    char deprived[128]; /* the name of a node that is to get no ports, or "" */
};

/* ---- ports ------------------------------------------------------------------------------------------------------- */

static bool begins(const char *text, const char *with) {
    return strncmp(text, with, strlen(with)) == 0;
}

/* One channel each. A fake microphone is a sink whose monitor is what others record. */
static void give_ports(struct object *node) {
    const bool device = begins(node->class, "Audio/");
    const bool takes = strcmp(node->class, "Audio/Sink") == 0 || strcmp(node->class, "Audio/Source/Virtual") == 0 ||
                       strcmp(node->class, "Stream/Input/Audio") == 0;
    uint8_t buffer[1024];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    struct spa_audio_info_raw info = SPA_AUDIO_INFO_RAW_INIT(.format = SPA_AUDIO_FORMAT_F32P, .rate = 48000,
                                                             .channels = 1, .position = {SPA_AUDIO_CHANNEL_MONO});
    const struct spa_pod *const format = spa_format_audio_raw_build(&b, SPA_PARAM_Format, &info);
    const struct spa_pod *const config = spa_pod_builder_add_object(
        &b, SPA_TYPE_OBJECT_ParamPortConfig, SPA_PARAM_PortConfig, SPA_PARAM_PORT_CONFIG_direction,
        SPA_POD_Id(takes ? SPA_DIRECTION_INPUT : SPA_DIRECTION_OUTPUT), SPA_PARAM_PORT_CONFIG_mode,
        SPA_POD_Id(SPA_PARAM_PORT_CONFIG_MODE_dsp), SPA_PARAM_PORT_CONFIG_monitor, SPA_POD_Bool(takes && device),
        SPA_PARAM_PORT_CONFIG_format, SPA_POD_Pod(node->deprived ? NULL : format));
    pw_node_set_param((struct pw_node *)node->proxy, SPA_PARAM_PortConfig, 0, config);
}

static void on_node_info(void *data, const struct pw_node_info *info) {
    struct object *const node = data;
    for (uint32_t i = 0; info->change_mask & PW_NODE_CHANGE_MASK_PARAMS && i < info->n_params; i++) {
        if (info->params[i].id != SPA_PARAM_PortConfig)
            continue;
        give_ports(node);
        spa_hook_remove(&node->listener); /* once */
        return;
    }
}

static const struct pw_node_events node_events = {PW_VERSION_NODE_EVENTS, .info = on_node_info};

/* ---- the graph --------------------------------------------------------------------------------------------------- */

static uint32_t number_of(const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    return text ? (uint32_t)strtoul(text, NULL, 10) : SPA_ID_INVALID;
}

static void copy(char *ret, size_t size, const struct spa_dict *props, const char *key) {
    const char *const text = spa_dict_lookup(props, key);
    snprintf(ret, size, "%s", text ? text : "");
}

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                      const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct manager *const m = data;
    const bool node = strcmp(type, PW_TYPE_INTERFACE_Node) == 0, port = strcmp(type, PW_TYPE_INTERFACE_Port) == 0;
    if (!props || (!node && !port && strcmp(type, PW_TYPE_INTERFACE_Link) != 0))
        return;
    struct object *const o = calloc(1, sizeof *o);
    o->type = node ? NODE : port ? PORT : LINK;
    o->id = id;
    spa_list_append(&m->objects, &o->list);
    if (port) {
        copy(o->name, sizeof o->name, props, PW_KEY_PORT_NAME);
        o->from = number_of(props, PW_KEY_NODE_ID);
    } else if (!node) {
        o->from = number_of(props, PW_KEY_LINK_OUTPUT_PORT);
        o->to = number_of(props, PW_KEY_LINK_INPUT_PORT);
    } else {
        copy(o->name, sizeof o->name, props, PW_KEY_NODE_NAME);
        copy(o->class, sizeof o->class, props, PW_KEY_MEDIA_CLASS);
        o->serial = number_of(props, PW_KEY_OBJECT_SERIAL);
        o->deprived = strcmp(o->name, m->deprived) == 0;
        if (o->deprived)
            m->deprived[0] = '\0';
        if (!begins(o->class, "Audio/") && !begins(o->class, "Stream/"))
            return;
        o->proxy = pw_registry_bind(m->registry, id, type, PW_VERSION_NODE, 0);
        pw_node_add_listener((struct pw_node *)o->proxy, &o->listener, &node_events, o);
    }
}

static void forget(struct object *o) {
    spa_list_remove(&o->list);
    if (o->proxy)
        pw_proxy_destroy(o->proxy);
    free(o);
}

static void on_global_remove(void *data, uint32_t id) {
    struct manager *const m = data;
    struct object *o, *next;
    spa_list_for_each_safe(o, next, &m->objects, list) {
        if (o->id == id)
            forget(o);
    }
}

static const struct pw_registry_events registry_events = {
    PW_VERSION_REGISTRY_EVENTS,
    .global = on_global,
    .global_remove = on_global_remove,
};

static struct object *find(struct manager *m, unsigned type, uint32_t node, const char *name) {
    struct object *o;
    spa_list_for_each(o, &m->objects, list) {
        if (o->type == type && (type == NODE || o->from == node) && strcmp(o->name, name) == 0)
            return o;
    }
    return NULL;
}

static struct object *find_port(struct manager *m, const char *name) {
    const char *const colon = strchr(name, ':');
    char node_name[128];
    snprintf(node_name, sizeof node_name, "%.*s", (int)(colon - name), name);
    const struct object *const node = find(m, NODE, 0, node_name);
    return node ? find(m, PORT, node->id, colon + 1) : NULL;
}

/* ---- metadata ---------------------------------------------------------------------------------------------------- */

static struct property *find_property(struct manager *m, uint32_t subject, const char *key) {
    struct property *p;
    spa_list_for_each(p, &m->properties, list) {
        if (p->subject == subject && strcmp(p->key, key) == 0)
            return p;
    }
    return NULL;
}

static int on_property(void *data, uint32_t subject, const char *key, const char *type, const char *value) {
    (void)type;
    struct manager *const m = data;
    struct property *p;
    if (key && !find_property(m, subject, key)) {
        p = calloc(1, sizeof *p);
        p->subject = subject;
        snprintf(p->key, sizeof p->key, "%s", key);
        spa_list_append(&m->properties, &p->list);
    }
    spa_list_for_each(p, &m->properties, list) {
        if (p->subject == subject && (!key || strcmp(p->key, key) == 0)) {
            snprintf(p->value, sizeof p->value, "%s", value ? value : "");
            p->n_changes++;
        }
    }
    return 0;
}

static const struct pw_impl_metadata_events metadata_events = {
    PW_VERSION_IMPL_METADATA_EVENTS,
    .property = on_property,
};

/* ---- what the test calls ----------------------------------------------------------------------------------------- */

struct manager *manager_open(void) {
    pw_init(NULL, NULL);
    struct manager *const m = calloc(1, sizeof *m);
    spa_list_init(&m->objects);
    spa_list_init(&m->properties);
    m->loop = pw_thread_loop_new("manager", NULL);
    m->context = pw_context_new(pw_thread_loop_get_loop(m->loop), NULL, 0);
    m->core = pw_context_connect(m->context, NULL, 0);
    if (!m->core) {
        manager_close(m);
        return NULL;
    }
    m->metadata = pw_context_create_metadata(m->context, "default", NULL, 0);
    pw_impl_metadata_add_listener(m->metadata, &m->metadata_listener, &metadata_events, m);
    const struct spa_dict_item item = SPA_DICT_ITEM_INIT(PW_KEY_METADATA_NAME, "default");
    m->exported = pw_core_export(m->core, PW_TYPE_INTERFACE_Metadata, &SPA_DICT_INIT(&item, 1),
                                 pw_impl_metadata_get_implementation(m->metadata), 0);
    m->registry = pw_core_get_registry(m->core, PW_VERSION_REGISTRY, 0);
    pw_registry_add_listener(m->registry, &m->registry_listener, &registry_events, m);
    pw_thread_loop_start(m->loop);
    return m;
}

void manager_close(struct manager *m) {
    struct object *o;
    struct property *p;
    if (!m)
        return;
    pw_thread_loop_stop(m->loop);
    spa_list_consume(o, &m->objects, list) forget(o);
    if (m->core)
        pw_core_disconnect(m->core);
    if (m->metadata) {
        spa_hook_remove(&m->metadata_listener);
        pw_impl_metadata_destroy(m->metadata);
    }
    spa_list_consume(p, &m->properties, list) {
        spa_list_remove(&p->list);
        free(p);
    }
    pw_context_destroy(m->context);
    pw_thread_loop_destroy(m->loop);
    free(m);
    pw_deinit();
}

uint32_t manager_node(struct manager *m, const char *name) {
    pw_thread_loop_lock(m->loop);
    const struct object *const node = find(m, NODE, 0, name);
    const uint32_t id = node ? node->id : 0;
    pw_thread_loop_unlock(m->loop);
    return id;
}

uint64_t manager_serial(struct manager *m, const char *name) {
    pw_thread_loop_lock(m->loop);
    const struct object *const node = find(m, NODE, 0, name);
    const uint64_t serial = node ? node->serial : 0;
    pw_thread_loop_unlock(m->loop);
    return serial;
}

bool manager_link(struct manager *m, const char *from, const char *to) {
    pw_thread_loop_lock(m->loop);
    const struct object *const out = find_port(m, from), *const in = find_port(m, to);
    if (out && in) {
        struct pw_properties *const p = pw_properties_new(PW_KEY_OBJECT_LINGER, "true", NULL);
        pw_properties_setf(p, PW_KEY_LINK_OUTPUT_PORT, "%u", out->id);
        pw_properties_setf(p, PW_KEY_LINK_INPUT_PORT, "%u", in->id);
        pw_core_create_object(m->core, "link-factory", PW_TYPE_INTERFACE_Link, PW_VERSION_LINK, &p->dict, 0);
        pw_properties_free(p);
    }
    pw_thread_loop_unlock(m->loop);
    return out && in;
}

bool manager_unlink(struct manager *m, const char *from, const char *to) {
    pw_thread_loop_lock(m->loop);
    const struct object *const out = find_port(m, from), *const in = find_port(m, to);
    const struct object *o;
    bool found = false;
    spa_list_for_each(o, &m->objects, list) {
        if (o->type == LINK && out && in && o->from == out->id && o->to == in->id) {
            pw_registry_destroy(m->registry, o->id);
            found = true;
        }
    }
    pw_thread_loop_unlock(m->loop);
    return found;
}

void manager_deprive(struct manager *m, const char *name) {
    pw_thread_loop_lock(m->loop);
    snprintf(m->deprived, sizeof m->deprived, "%s", name);
    pw_thread_loop_unlock(m->loop);
}

bool manager_destroy(struct manager *m, const char *name) {
    pw_thread_loop_lock(m->loop);
    const struct object *const node = find(m, NODE, 0, name);
    if (node)
        pw_registry_destroy(m->registry, node->id);
    pw_thread_loop_unlock(m->loop);
    return node;
}

void manager_set(struct manager *m, uint32_t subject, const char *key, const char *value) {
    pw_thread_loop_lock(m->loop);
    pw_impl_metadata_set_property(m->metadata, subject, key, value ? "Spa:Id" : NULL, value);
    pw_thread_loop_unlock(m->loop);
}

void manager_get(struct manager *m, uint32_t subject, const char *key, char *ret, size_t size) {
    pw_thread_loop_lock(m->loop);
    const struct property *const p = find_property(m, subject, key);
    snprintf(ret, size, "%s", p ? p->value : "");
    pw_thread_loop_unlock(m->loop);
}

unsigned manager_changes(struct manager *m, uint32_t subject, const char *key) {
    pw_thread_loop_lock(m->loop);
    const struct property *const p = find_property(m, subject, key);
    const unsigned n = p ? p->n_changes : 0;
    pw_thread_loop_unlock(m->loop);
    return n;
}
