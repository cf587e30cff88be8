#include "graph/survey.h"

#include "base/clock.h"
#include "base/text.h"
#include "graph/mirror.h"
#include "graph/params.h"
#include "graph/pipewire.h"

#include <errno.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ANSWER_MS 3000

struct source {
    struct survey_source told;
    struct pw_proxy *proxy;
    struct spa_hook listener;
};

struct link {
    struct link *next;
    uint32_t from, to;
};

struct asking {
    struct survey told;
    struct link *links;
    struct pw_loop *loop;
    struct pw_context *context;
    struct pw_core *core;
    struct pw_registry *registry;
    struct pw_metadata *metadata;
    struct spa_hook core_listener, registry_listener, metadata_listener;
    int done; /* the last answer to pw_core_sync */
    bool broken;
};

#define COPY(to, props, key) text_copy(to, sizeof to, props_text(props, key))

/* ---- events ------------------------------------------------------------------------------------------------------ */

static void on_source_info(void *data, const struct pw_node_info *info) {
    struct source *s = data;
    if (!info->props)
        return;
    s->told.device = props_number(info->props, PW_KEY_DEVICE_ID);
    COPY(s->told.name, info->props, PW_KEY_NODE_NAME);
    COPY(s->told.description, info->props, PW_KEY_NODE_DESCRIPTION);
    COPY(s->told.profile, info->props, "api.bluez5.profile");
    COPY(s->told.codec, info->props, "api.bluez5.codec");
    if (!s->told.description[0])
        COPY(s->told.description, info->props, PW_KEY_APP_NAME);
    if (!s->told.description[0])
        text_copy(s->told.description, sizeof s->told.description, s->told.name);
    if (info->change_mask & PW_NODE_CHANGE_MASK_PARAMS)
        pw_node_enum_params((struct pw_node *)s->proxy, 0, SPA_PARAM_Props, 0, UINT32_MAX, NULL);
}

static void on_source_param(void *data, int seq, uint32_t id, uint32_t index, uint32_t next,
                            const struct spa_pod *param) {
    (void)seq, (void)index, (void)next;
    struct source *s = data;
    if (id == SPA_PARAM_Props)
        params_read_volume(param, &s->told.volume);
}

static const struct pw_node_events source_events = {
    PW_VERSION_NODE_EVENTS,
    .info = on_source_info,
    .param = on_source_param,
};

static int on_metadata(void *data, uint32_t subject, const char *key, const char *type, const char *value) {
    (void)type;
    struct asking *d = data;
    if (subject != 0 || !key)
        return 0;
    char *to = strcmp(key, "default.audio.source") == 0              ? d->told.default_source
               : strcmp(key, "default.configured.audio.source") == 0 ? d->told.configured_source
                                                                     : NULL;
    if (to)
        mirror_read_name(to, value);
    return 0;
}

static const struct pw_metadata_events metadata_events = {
    PW_VERSION_METADATA_EVENTS,
    .property = on_metadata,
};

/* at: the list, sources or streams, to which it is appended. The proxy owns the memory. */
static void add_source(struct asking *d, struct survey_source **at, uint32_t id) {
    struct pw_proxy *proxy = pw_registry_bind(d->registry, id, PW_TYPE_INTERFACE_Node, PW_VERSION_NODE,
                                              sizeof(struct source));
    if (!proxy)
        return;
    struct source *s = pw_proxy_get_user_data(proxy);
    *s = (struct source){.told = {.id = id, .device = UINT32_MAX, .volume.level = 1}, .proxy = proxy};
    pw_node_add_listener((struct pw_node *)s->proxy, &s->listener, &source_events, s);
    while (*at)
        at = &(*at)->next;
    *at = &s->told;
}

static void add_device(struct asking *d, uint32_t id, const struct spa_dict *props) {
    struct survey_device *device = calloc(1, sizeof *device), **at = &d->told.devices;
    if (!device)
        return;
    device->id = id;
    COPY(device->description, props, PW_KEY_DEVICE_DESCRIPTION);
    COPY(device->api, props, PW_KEY_DEVICE_API);
    while (*at)
        at = &(*at)->next;
    *at = device;
}

static void add_link(struct asking *d, const struct spa_dict *props) {
    struct link *const link = malloc(sizeof *link);
    if (!link)
        return;
    *link = (struct link){d->links, props_number(props, PW_KEY_LINK_OUTPUT_NODE),
                          props_number(props, PW_KEY_LINK_INPUT_NODE)};
    d->links = link;
}

/* Completes the survey after everything has arrived. */
static void find_recorders(struct asking *d) {
    for (const struct survey_source *from = d->told.sources; from; from = from->next)
        for (const struct link *link = text_begins(from->name, ENHANCED_MIC) ? d->links : NULL; link; link = link->next)
            for (struct survey_source *s = d->told.streams; s; s = s->next)
                s->records_enhanced |= link->from == from->id && link->to == s->id;
}

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                      const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct asking *d = data;
    if (!props)
        return;
    const char *class = props_text(props, PW_KEY_MEDIA_CLASS), *metadata = props_metadata(props, type);
    if (strcmp(type, PW_TYPE_INTERFACE_Node) == 0 && text_begins(class, "Audio/Source")) {
        add_source(d, &d->told.sources, id);
    } else if (strcmp(type, PW_TYPE_INTERFACE_Node) == 0 && strcmp(class, "Stream/Input/Audio") == 0) {
        add_source(d, &d->told.streams, id);
    } else if (strcmp(type, PW_TYPE_INTERFACE_Device) == 0 && strcmp(class, "Audio/Device") == 0) {
        add_device(d, id, props);
    } else if (strcmp(type, PW_TYPE_INTERFACE_Link) == 0) {
        add_link(d, props);
    } else if (strcmp(metadata, "filters") == 0) {
        d->told.has_filters = true;
    } else if (strcmp(metadata, "default") == 0 && !d->metadata) {
        d->metadata = pw_registry_bind(d->registry, id, type, PW_VERSION_METADATA, 0);
        d->told.has_session_manager = d->metadata; /* session managers create it, PipeWire does not */
        if (d->metadata)
            pw_metadata_add_listener(d->metadata, &d->metadata_listener, &metadata_events, d);
    }
}

static const struct pw_registry_events registry_events = {
    PW_VERSION_REGISTRY_EVENTS,
    .global = on_global,
};

static void on_core_info(void *data, const struct pw_core_info *info) {
    struct asking *d = data;
    text_copy(d->told.version, sizeof d->told.version, info->version);
}

static void on_core_done(void *data, uint32_t id, int seq) {
    struct asking *d = data;
    if (id == PW_ID_CORE)
        d->done = seq;
}

static void on_core_error(void *data, uint32_t id, int seq, int res, const char *message) {
    (void)seq, (void)message;
    struct asking *d = data;
    d->broken |= id == PW_ID_CORE && res == -EPIPE;
}

static const struct pw_core_events core_events = {
    PW_VERSION_CORE_EVENTS,
    .info = on_core_info,
    .done = on_core_done,
    .error = on_core_error,
};

/* ---- asking ------------------------------------------------------------------------------------------------------ */

/* Waits until PipeWire has answered all earlier requests. */
static int settle(struct asking *d, struct err *err) {
    int64_t end = now_ms() + ANSWER_MS, left;
    int seq = pw_core_sync(d->core, PW_ID_CORE, 0);
    while (d->done != seq && !d->broken && (left = end - now_ms()) > 0) {
        int res = pw_loop_iterate(d->loop, (int)left);
        if (res < 0 && res != -EINTR)
            return err_set(err, res, "PipeWire: %s", strerror(-res));
    }
    return d->done == seq ? 0
           : d->broken    ? err_set(err, -EPIPE, "PipeWire has ended")
                          : err_set(err, -ETIMEDOUT, "PipeWire does not answer");
}

int survey_open(struct survey **ret, struct err *err) {
    struct asking *d = calloc(1, sizeof *d);
    int res = err_set(err, -ENOMEM, "PipeWire's client library does not start");
    if (!d)
        return res;
    pw_init(NULL, NULL);
    d->done = -1;
    d->loop = pw_loop_new(NULL);
    if (!d->loop)
        goto fail;
    pw_loop_enter(d->loop);
    d->context = pw_context_new(d->loop, pw_properties_new(AS_MANAGER, NULL), 0);
    if (!d->context)
        goto fail;
    d->core = pw_context_connect(d->context, NULL, 0);
    if (!d->core) {
        res = err_set(err, -EHOSTDOWN, "PipeWire does not run");
        goto fail;
    }
    pw_core_add_listener(d->core, &d->core_listener, &core_events, d);
    d->registry = pw_core_get_registry(d->core, PW_VERSION_REGISTRY, 0);
    if (!d->registry)
        goto fail;
    pw_registry_add_listener(d->registry, &d->registry_listener, &registry_events, d);
    for (int round = 0; round < 3; round++) { /* three rounds: the objects, their properties, their parameters */
        res = settle(d, err);
        if (res)
            goto fail;
    }
    find_recorders(d);
    *ret = &d->told;
    return 0;
fail:
    survey_close(&d->told);
    return res;
}

static void clear(struct survey_source *sources) {
    while (sources) {
        struct source *s = (struct source *)sources;
        sources = sources->next;
        spa_hook_remove(&s->listener);
        pw_proxy_destroy(s->proxy);
    }
}

void survey_close(struct survey *told) {
    struct asking *d = (struct asking *)told;
    if (!d)
        return;
    clear(told->sources);
    clear(told->streams);
    for (struct survey_device *next, *device = told->devices; device; device = next) {
        next = device->next;
        free(device);
    }
    for (struct link *next, *link = d->links; link; link = next) {
        next = link->next;
        free(link);
    }
    destroy_proxy(d->metadata, &d->metadata_listener);
    destroy_proxy(d->registry, &d->registry_listener);
    disconnect_core(d->core, &d->core_listener);
    close_loop(d->loop, d->context);
    free(d);
    pw_deinit();
}

/* ---- telling ----------------------------------------------------------------------------------------------------- */

const struct survey_source *survey_find(const struct survey *d, const char *name) {
    const struct survey_source *s = d->sources;
    while (s && strcmp(s->name, name) != 0)
        s = s->next;
    return s;
}

int survey_set_default_source(struct survey *told, const char *name, struct err *err) {
    struct asking *d = (struct asking *)told;
    if (!d->metadata)
        return err_set(err, -ENOENT, "no session manager keeps a default microphone");
    char *value = NULL;
    if (name[0]) {
        json_t *object = json_pack("{s:s}", "name", name);
        value = object ? json_dumps(object, JSON_COMPACT) : NULL;
        json_decref(object);
        if (!value)
            return err_set(err, -ENOMEM, "%s", strerror(ENOMEM));
    }
    pw_metadata_set_property(d->metadata, PW_ID_CORE, "default.configured.audio.source",
                             value ? "Spa:String:JSON" : NULL, value);
    free(value);
    return settle(d, err);
}
