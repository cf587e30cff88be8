#include "graph/mirror.h"

#include "base/text.h"
#include "graph/choices.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each kind of object is an array whose elements begin with their id. */
static void *find(const void *array, unsigned n, size_t size, uint32_t id) {
    for (unsigned i = 0; i < n; i++) {
        const char *const object = (const char *)array + i * size;
        if (memcmp(object, &id, sizeof id) == 0)
            return (void *)object;
    }
    return NULL;
}

/* Adds an element, zeroed but for its id, to the array that the pointer at `place` points to. NULL: no memory. */
static void *add(void *place, unsigned *n, size_t size, uint32_t id) {
    char *objects;
    memcpy(&objects, place, sizeof objects);
    if (!(objects = realloc(objects, (*n + 1) * size)))
        return NULL;
    memcpy(place, &objects, sizeof objects);
    return memcpy(memset(objects + (*n)++ * size, 0, size), &id, sizeof id);
}

static void drop(void *array, unsigned *n, size_t size, uint32_t id) {
    char *const object = find(array, *n, size, id);
    if (!object)
        return;
    const size_t after = (size_t)((char *)array + *n * size - object) - size;
    memmove(object, object + size, after);
    (*n)--;
}

struct mirror_node *mirror_add_node(struct mirror *m, uint32_t id) {
    return add(&m->nodes, &m->n_nodes, sizeof *m->nodes, id);
}

struct mirror_port *mirror_add_port(struct mirror *m, uint32_t id) {
    return add(&m->ports, &m->n_ports, sizeof *m->ports, id);
}

struct mirror_link *mirror_add_link(struct mirror *m, uint32_t id) {
    return add(&m->links, &m->n_links, sizeof *m->links, id);
}

void mirror_add_metadata(struct mirror *m, uint32_t id) {
    add(&m->metadata, &m->n_metadata, sizeof *m->metadata, id);
}

void mirror_remove(struct mirror *m, uint32_t id) {
    drop(m->nodes, &m->n_nodes, sizeof *m->nodes, id);
    drop(m->ports, &m->n_ports, sizeof *m->ports, id);
    drop(m->links, &m->n_links, sizeof *m->links, id);
    drop(m->metadata, &m->n_metadata, sizeof *m->metadata, id);
    if (m->filters == id)
        m->filters = 0;
}

void mirror_report_node(struct mirror_node *node, bool failed) {
    node->failed |= failed;
}

void mirror_report_link(struct mirror *m, struct mirror_link *link, bool active, bool failed) {
    link->active = active;
    link->failed = failed;
    if (failed && mirror_ends_at(link->to, m->own.capture))
        m->followed.linked = false; /* what PipeWire removes next, nobody chose to remove */
}

struct mirror_node *mirror_node(const struct mirror *m, uint32_t id) {
    return find(m->nodes, m->n_nodes, sizeof *m->nodes, id);
}

struct mirror_node *mirror_serial(const struct mirror *m, uint64_t serial) {
    for (unsigned i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].serial == serial)
            return &m->nodes[i];
    return NULL;
}

struct mirror_node *mirror_named(const struct mirror *m, enum mirror_role role, const char *name) {
    for (unsigned i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].role == role && strcmp(m->nodes[i].name, name) == 0)
            return &m->nodes[i];
    return NULL;
}

struct mirror_link *mirror_link(const struct mirror *m, uint32_t id) {
    return find(m->links, m->n_links, sizeof *m->links, id);
}

bool mirror_ends_at(uint32_t end, uint32_t stream) {
    return end == stream && stream != MIRROR_NONE;
}

struct mirror_target *mirror_target(const struct mirror *m, const struct mirror_node *node) {
    struct mirror_target *const target = find(m->targets, m->n_targets, sizeof *m->targets, node->id);
    return target && (!target->serial || target->serial == node->serial) ? target : NULL;
}

const char *mirror_application(const struct mirror_node *node) {
    return node->application[0] ? node->application : node->description;
}

int mirror_choose(struct mirror *m, const char *application, const char *choice) {
    int res = choices_set(m->choices, application, choice);
    if (res)
        return res;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        if (node->listens && strcmp(mirror_application(node), application) == 0)
            node->due = choices_find(m->choices, application) ? DUE_MOVE : DUE_RELEASE;
    }
    return 0;
}

enum mirror_role mirror_role(const char *class, const char *name) {
    if (!class)
        return ROLE_OTHER;
    if (text_begins(class, "Audio/Source"))
        return strcmp(name, ENHANCED_MIC) == 0 || text_begins(name, MORE_MIC) ? ROLE_OTHER : ROLE_MICROPHONE;
    return text_begins(class, "Audio/Sink")            ? ROLE_OUTPUT
           : strcmp(class, "Stream/Input/Audio") == 0  ? ROLE_RECORDER
           : strcmp(class, "Stream/Output/Audio") == 0 ? ROLE_PLAYER
                                                       : ROLE_OTHER;
}

bool mirror_has_role(const struct mirror *m, enum mirror_role role) {
    bool has = false;
    for (unsigned i = 0; i < m->n_nodes; i++)
        has |= m->nodes[i].role == role;
    return has;
}

uint32_t mirror_visible(const struct mirror *m) {
    return m->own.kind == NODE_SPEAKER ? m->own.capture : m->own.source;
}

bool mirror_is_default(const struct mirror *m) {
    return strcmp(m->default_name, m->own.name) == 0;
}

bool mirror_is_silenced(const struct mirror_node *node) {
    return node->volume.muted || node->volume.level < VOLUME_LEAST;
}

/* The entry for id, made if there is none. NULL: no memory. */
static struct mirror_target *entry(struct mirror *m, uint32_t id) {
    struct mirror_target *const target = find(m->targets, m->n_targets, sizeof *m->targets, id);
    return target ? target : add(&m->targets, &m->n_targets, sizeof *target, id);
}

void mirror_own_target(struct mirror *m, uint32_t id, uint64_t serial) {
    struct mirror_target *const target = entry(m, id);
    if (target)
        *target = (struct mirror_target){.id = id, .serial = serial};
}

/* Without a microphone this node is the default, for want of another. WirePlumber then marks a recorder that asked for
 * this node as one that follows the default (target "-1"), and would move it to the next microphone. */
static void set_target(struct mirror *m, uint32_t id, const char *key, const char *value) {
    const bool object = strcmp(key, "target.object") == 0; /* what people choose; target.node is the manager's own */
    const bool follows = value && strcmp(value, "-1") == 0;
    const bool misled = follows && mirror_is_default(m) && strcmp(m->configured_name, m->own.name) != 0;
    struct mirror_target *const target = entry(m, id);
    if (!target)
        return;
    if (object) {
        snprintf(target->object, sizeof target->object, "%s", value ? value : "");
        /* Keep it now: it may be gone when reconcile runs, as PipeWire clears it when an earlier node of this id
         * goes. */
        struct mirror_node *const node = mirror_node(m, id);
        if (node && node->asked && mirror_target(m, node))
            node->settled |= strtoull(target->object, NULL, 10) == node->asked;
    }
    /* Ignore a removal: WirePlumber may answer it with a new target, and reports that one first. */
    if (value)
        target->misled_by = !misled ? NULL : object ? "target.object" : "target.node";
}

static void clear_target(struct mirror *m, uint32_t id) {
    struct mirror_target *const target = find(m->targets, m->n_targets, sizeof *m->targets, id);
    if (target)
        *target = (struct mirror_target){.id = id, .serial = target->serial};
}

void mirror_read_name(char ret[256], const char *value) {
    json_t *const object = value ? json_loads(value, 0, NULL) : NULL;
    const char *const name = json_string_value(json_object_get(object, "name"));
    snprintf(ret, 256, "%s", name ? name : "");
    json_decref(object);
}

void mirror_property(struct mirror *m, uint32_t subject, const char *key, const char *value) {
    static const char *const keys[][2] = {{"default.audio.source", "default.configured.audio.source"},
                                          {"default.audio.sink", "default.configured.audio.sink"}};
    if (subject == 0) {
        const char *const *const own_keys = keys[m->own.kind == NODE_SPEAKER];
        if (!key || strcmp(key, own_keys[0]) == 0)
            mirror_read_name(m->default_name, value);
        if (!key || strcmp(key, own_keys[1]) == 0)
            mirror_read_name(m->configured_name, value);
    } else if (!key) {
        clear_target(m, subject);
    } else if (strcmp(key, "target.node") == 0 || strcmp(key, "target.object") == 0) {
        set_target(m, subject, key, value);
    }
}

void mirror_lose_metadata(struct mirror *m) {
    m->metadata_complete = false;
    m->configured_name[0] = '\0';
    m->n_targets = 0;
    m->released = 0;
    for (unsigned i = 0; i < m->n_nodes; i++) { /* no stream has a pending move any more */
        m->nodes[i].asked = 0;
        m->nodes[i].settled = false;
    }
}

void mirror_clear(struct mirror *m) {
    free(m->nodes);
    free(m->ports);
    free(m->links);
    free(m->targets);
    free(m->metadata);
    *m = (struct mirror){.own = m->own, .choices = m->choices, .noted = m->noted};
}
