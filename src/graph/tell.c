#include "config.h"

#include "graph/node_state.h"

#include "base/text.h"
#include "graph/choices.h"
#include "graph/microphone.h"

const struct mirror_node *node_silenced(const struct node *n) {
    const uint32_t ids[] = {n->wishes.expected, streams_capture_id(&n->streams), streams_source_id(&n->streams)};
    for (unsigned i = 0; i < sizeof ids / sizeof ids[0]; i++) {
        const struct mirror_node *const node = mirror_node(&n->registry.mirror, ids[i]);
        if (node && mirror_is_silenced(node))
            return node;
    }
    return NULL;
}

static void tell_silenced(const struct node *n, struct node_status *ret) {
    const struct mirror_node *const node = n->kind != NODE_SPEAKER ? node_silenced(n) : NULL;
    ret->silenced.id = node ? node->id : MIRROR_NONE;
    if (!node)
        return;
    ret->silenced.turned_down = !node->volume.muted;
    text_copy(ret->silenced.description, sizeof ret->silenced.description, node->description);
}

void node_status(const struct node *n, struct node_status *ret) {
    *ret = (struct node_status){
        .connected = n->registry.core != NULL,
        .settled = n->settled,
        .has_microphone = n->wishes.expected != MIRROR_NONE,
        .n_consumers = n->wishes.n_consumers,
        .n_recorders = n->wishes.n_recorders,
        .n_brought_back = n->wishes.n_brought_back,
        .rate = atomic_load(&n->streams.rate),
        .echo_problem = n->echo.problem.text,
        .lacks_channel = n->wishes.lacks_channel,
        .lacks_filters = n->registry.mirror.own.transparent && n->registry.mirror.metadata_complete &&
                         !n->registry.mirror.filters,
        .passes = n->stall.passes,
        .n_stalls = n->stall.n,
        .is_default = strcmp(n->registry.mirror.configured_name, n->name) == 0,
    };
    tell_silenced(n, ret);
    text_copy(ret->refused, sizeof ret->refused, n->wishes.refused);
    streams_stats(&n->streams, &ret->pump);
    const struct mirror_node *const microphone = mirror_node(&n->registry.mirror, n->wishes.expected);
    if (microphone) {
        text_copy(ret->microphone, sizeof ret->microphone, microphone->description);
        text_copy(ret->microphone_name, sizeof ret->microphone_name, microphone->name);
    }
}

bool node_knows(const struct node *n, enum node_kind kind, const char *device) {
    const struct mirror *const m = &n->registry.mirror;
    bool knows = !m->complete || (kind == NODE_SPEAKER && mirror_named(m, ROLE_OUTPUT, device));
    for (unsigned i = 0; i < m->n_nodes && kind != NODE_SPEAKER; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        knows |= node->role == ROLE_MICROPHONE && microphone_fits(device, node->name, node->description);
    }
    return knows;
}

void node_microphones(const struct node *n, node_each *each, void *data) {
    const struct mirror *const m = &n->registry.mirror;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        if (node->role == ROLE_MICROPHONE)
            each(data, &(struct node_peer){node->name, node->description, node->id == n->wishes.expected, false});
    }
}

void node_recorders(const struct node *n, node_each *each, void *data) {
    const struct mirror *const m = &n->registry.mirror;
    const bool speaker = n->kind == NODE_SPEAKER;
    const uint32_t own = speaker ? streams_capture_id(&n->streams) : streams_source_id(&n->streams);
    for (unsigned i = 0; i < m->n_links; i++) {
        const struct mirror_link *const link = &m->links[i];
        if (own == MIRROR_NONE || (speaker ? link->to : link->from) != own)
            continue;
        const struct mirror_node *const peer = mirror_node(m, speaker ? link->from : link->to);
        if (peer)
            each(data, &(struct node_peer){peer->name, mirror_application(peer), false, peer->brought_back});
    }
}

/* Reports the sources that a recorder uses. */
static void tell_sources(const struct node *n, const struct mirror_node *recorder, node_application_each *each,
                         void *data) {
    const struct mirror *const m = &n->registry.mirror;
    const char *const name = mirror_application(recorder);
    struct node_application a = {.name = name, .choice = choices_find(m->choices, name)};
    for (unsigned i = 0; i < m->n_links; i++) {
        const struct mirror_link *const link = &m->links[i];
        const struct mirror_node *const from = link->to == recorder->id ? mirror_node(m, link->from) : NULL;
        if (!from)
            continue;
        a.from = from->description;
        a.enhanced = from->id == streams_source_id(&n->streams);
        each(data, &a);
    }
    if (!a.from)
        each(data, &a);
}

void node_applications(const struct node *n, node_application_each *each, void *data) {
    const struct mirror *const m = &n->registry.mirror;
    const char *name;
    json_t *choice;
    for (unsigned i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].listens)
            tell_sources(n, &m->nodes[i], each, data);
    json_object_foreach(m->choices, name, choice)
        each(data, &(struct node_application){.name = name, .choice = json_string_value(choice)});
}
