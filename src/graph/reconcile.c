#include "graph/reconcile.h"

#include "base/text.h"
#include "graph/choices.h"
#include "graph/microphone.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- links ------------------------------------------------------------------------------------------------------- */

/* Returns the number of links of the visible stream. */
static unsigned count_links(struct mirror *m, struct wishes *w) {
    const bool speaker = m->own.kind == NODE_SPEAKER;
    unsigned n_linked = 0;
    for (unsigned i = 0; i < m->n_nodes; i++)
        m->nodes[i].linked = false;
    for (unsigned i = 0; i < m->n_links; i++) {
        const struct mirror_link *const link = &m->links[i];
        struct mirror_node *const to = mirror_node(m, link->to);
        if (to)
            to->was_linked = true;
        if (speaker ? mirror_ends_at(link->to, m->own.capture) : mirror_ends_at(link->from, m->own.source)) {
            struct mirror_node *const peer = mirror_node(m, speaker ? link->from : link->to);
            if (peer)
                peer->linked = true;
            n_linked++;
            w->link_failed |= link->failed;
            w->n_consumers += !speaker || link->active; /* players often stay linked while they pause */
            w->n_recorders += speaker ? link->active : !(peer && peer->meter);
        }
        if (!link->failed &&
            (speaker ? mirror_ends_at(link->from, m->own.source) : mirror_ends_at(link->to, m->own.capture)))
            w->microphone = speaker ? link->to : link->from;
    }
    return n_linked;
}

/* Enhanced Speaker's input is not its output. */
static void find_played(const struct mirror *m, struct wishes *w) {
    for (unsigned i = 0; i < m->n_links && m->own.kind == NODE_MIC; i++) {
        const struct mirror_node *const from = mirror_node(m, m->links[i].from);
        const struct mirror_node *const to = mirror_node(m, m->links[i].to);
        if (from && to && strcmp(from->name, "playback." ENHANCED_SPEAKER) == 0)
            snprintf(w->played, sizeof w->played, "%s", to->name);
    }
}

/* A session manager without a microphone may link the capture stream to an output's monitor. It must not send what is
 * played unless the user chose that. */
static bool is_played(const struct mirror *m, uint32_t id) {
    const struct mirror_node *const node = mirror_node(m, id);
    return node && node->role == ROLE_OUTPUT && !(m->own.microphone && strcmp(m->own.microphone, node->name) == 0);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

static bool same_group(const struct mirror_node *a, const struct mirror_node *b) {
    return a->group[0] && strcmp(a->group, b->group) == 0;
}

/* Whether PipeWire failed to start one of this node's streams. When an application forces a quantum, PipeWire 1.4
 * suspends and restarts all streams. If a node with node.always-process, such as a JACK client, runs meanwhile,
 * PipeWire may restart them again before the first restart has ended: they then get buffers before they have a
 * format. */
static bool has_failed(const struct mirror *m, const struct mirror_node *own) {
    bool failed = false;
    for (unsigned i = 0; own && i < m->n_nodes; i++)
        failed |= m->nodes[i].failed && (&m->nodes[i] == own || same_group(&m->nodes[i], own));
    return failed;
}

/* Enhanced Mic's echo canceller removes its reference from the sound. */
static bool is_reference(const struct mirror_node *node) {
    return strcmp(node->name, "echo." ENHANCED_MIC) == 0;
}

/* Extends `fed` to every node that sound reaches from fed nodes, by links and through programs; for a speaker, to every
 * node whose sound reaches fed nodes. */
static void spread(struct mirror *m) {
    const bool speaker = m->own.kind == NODE_SPEAKER;
    for (bool more = true; more;) {
        more = false;
        for (unsigned i = 0; i < m->n_links; i++) {
            const struct mirror_link *const link = &m->links[i];
            const struct mirror_node *const from = mirror_node(m, speaker ? link->to : link->from);
            struct mirror_node *const to = mirror_node(m, speaker ? link->from : link->to);
            if (from && to && from->fed && !to->fed && !is_reference(from) && !is_reference(to))
                to->fed = more = true;
        }
        for (unsigned i = 0; i < m->n_nodes; i++)
            for (unsigned k = 0; m->nodes[i].fed && k < m->n_nodes; k++)
                if (!m->nodes[k].fed && same_group(&m->nodes[i], &m->nodes[k]))
                    m->nodes[k].fed = more = true;
    }
}

/* Whether the device stream may use the node. */
static bool is_device(const struct mirror *m, const struct mirror_node *node) {
    return m->own.kind == NODE_SPEAKER ? node->role == ROLE_OUTPUT && strcmp(node->name, m->own.name) != 0
                                       : node->role == ROLE_MICROPHONE;
}

/* Whether sound probably originates at a node or, for a speaker, ends there. */
static bool is_end(const struct mirror *m, const struct mirror_node *node) {
    const enum mirror_role application = m->own.kind == NODE_SPEAKER ? ROLE_RECORDER : ROLE_PLAYER;
    return (node->role == application || (is_device(m, node) && !node->loops)) && !node->group[0];
}

/* NULL: none. */
static const struct mirror_node *find_looping(const struct mirror *m) {
    for (unsigned i = 0; i < m->n_nodes; i++)
        if (m->nodes[i].loops)
            return &m->nodes[i];
    return NULL;
}

static void unfeed(struct mirror *m) {
    for (unsigned i = 0; i < m->n_nodes; i++)
        m->nodes[i].fed = false;
}

/* Finds the microphones that carry this node's own sound, such as a filter's; for a speaker, the outputs whose sound
 * returns to it. A program may unlink its filter while it is unused, so such a device counts as looping until it is
 * linked to something else. */
static void find_loops(struct mirror *m) {
    struct mirror_node *const own = mirror_node(m, mirror_visible(m));
    unfeed(m);
    if (!own)
        return;
    for (unsigned i = 0; i < m->n_nodes && find_looping(m); i++) {
        if (!is_end(m, &m->nodes[i]))
            continue;
        unfeed(m);
        m->nodes[i].fed = true;
        spread(m);
        for (unsigned k = 0; k < m->n_nodes; k++)
            m->nodes[k].loops &= !m->nodes[k].fed;
    }
    unfeed(m);
    own->fed = true;
    spread(m);
    for (unsigned i = 0; i < m->n_nodes; i++)
        m->nodes[i].loops |= m->nodes[i].fed && is_device(m, &m->nodes[i]);
}

/* ---- the target of the device stream ----------------------------------------------------------------------------- */

/* The microphone of the settings. If they ask for the default and that is another Enhanced Mic, the latter's
 * microphone: sound is enhanced once. NULL: the session manager chooses. */
static const char *chosen_microphone(const struct mirror *m) {
    if (m->own.microphone || m->own.kind != NODE_MIC)
        return m->own.microphone;
    return text_begins(m->default_name, MORE_MIC) ? m->default_name + strlen(MORE_MIC) : NULL;
}

/* Returns the source that matches the chosen microphone best, or NULL. */
static const struct mirror_node *find_microphone(const struct mirror *m, const char *chosen) {
    const struct mirror_node *found = NULL;
    int best = 0;
    for (unsigned i = 0; chosen && i < m->n_nodes; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        const int fits = node->role == ROLE_MICROPHONE ? microphone_fits(chosen, node->name, node->description) : 0;
        if (fits > best) {
            best = fits;
            found = node;
        }
    }
    return found;
}

/* Whether the session manager by itself prefers a to b; of equals it prefers the newer. */
static bool is_better(const struct mirror_node *a, const struct mirror_node *b) {
    return a->priority > b->priority || (a->priority == b->priority && a->serial > b->serial);
}

/* Returns the device that the session manager prefers, or NULL. */
static const struct mirror_node *find_best(const struct mirror *m) {
    const struct mirror_node *found = NULL;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        if (is_device(m, node) && !node->loops && (!found || is_better(node, found)))
            found = node;
    }
    return found;
}

/* Returns the replacement for a device that loops: the last one in use, or the best of the others; NULL: none. */
static const struct mirror_node *find_instead(const struct mirror *m) {
    for (unsigned i = 0; i < m->n_nodes; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        if (is_device(m, node) && !node->loops && strcmp(node->name, m->kept) == 0)
            return node;
    }
    return find_best(m);
}

/* Returns the node that the metadata sets as another node's target, or NULL. */
static struct mirror_node *find_led(const struct mirror *m, const struct mirror_target *target) {
    char *end;
    const uint64_t serial = target ? strtoull(target->object, &end, 10) : 0;
    for (unsigned i = 0; target && target->object[0] && i < m->n_nodes; i++)
        if (*end ? strcmp(m->nodes[i].name, target->object) == 0 : m->nodes[i].serial == serial)
            return &m->nodes[i];
    return NULL;
}

/* Returns the name of the chosen channel; NULL: the microphone lacks it, or none was chosen. */
static const char *find_channel(const struct mirror *m, uint32_t microphone) {
    const struct channel *const chosen = &m->own.channel;
    for (unsigned i = 0; !channel_is_mix(chosen) && i < m->n_ports; i++) {
        const struct mirror_port *const port = &m->ports[i];
        if (port->node == microphone &&
            (chosen->number ? port->number + 1 == chosen->number : strcmp(port->channel, chosen->name) == 0))
            return port->channel;
    }
    return NULL;
}

/* The inputs of an interface in its "Pro Audio" profile, which are no channels of one sound: the session manager would
 * link one or two of them to a stream that requests the mix. 0: it has channels that PipeWire can mix. */
static unsigned count_inputs(const struct mirror *m, uint32_t microphone) {
    unsigned n = 0;
    for (unsigned i = 0; i < m->n_ports; i++) {
        const struct mirror_port *const port = &m->ports[i];
        n += port->node == microphone && strncmp(port->channel, "AUX", 3) == 0;
    }
    return n < 2 ? 0 : n < INPUTS_MAX ? n : INPUTS_MAX;
}

/* The microphone that the device stream would follow, or follows, though it loops. Where the default is none, the
 * session manager takes what it likes. NULL: it follows no such. */
static const struct mirror_node *find_refused(const struct mirror *m, const struct wishes *w, const char *chosen,
                                              const struct mirror_node *found) {
    const struct mirror_node *const by_default = mirror_named(m, ROLE_MICROPHONE, m->default_name);
    const struct mirror_node *const linked = mirror_node(m, w->microphone);
    if (chosen)
        return found && found->loops ? found : NULL;
    if (by_default)
        return by_default->loops ? by_default : NULL;
    return linked && linked->loops ? linked : m->keeps ? find_looping(m) : NULL;
}

static uint64_t serial_of(const struct mirror_node *node) {
    return node ? node->serial : 0;
}

static bool followed_same_default(const struct mirror *m) {
    return strcmp(m->followed.default_name, m->default_name) == 0;
}

/* Predicts the microphone of the next capture stream: the last one's, unless something on which the session manager
 * bases its choice has changed. NULL: probably none. */
static const struct mirror_node *find_expected(const struct mirror *m, const struct wishes *w,
                                               const struct mirror_node *found) {
    const struct mirror_node *const followed = m->followed.serial ? mirror_serial(m, m->followed.serial) : NULL;
    const struct mirror_node *const by_default = mirror_named(m, ROLE_MICROPHONE, m->default_name);
    const bool lost = m->own.capture != MIRROR_NONE && m->own.capture == m->followed.capture && m->followed.linked;
    if (m->own.kind == NODE_SPEAKER || !w->capture || w->quiet || w->metadata == MIRROR_NONE || lost)
        return NULL;
    if (followed && !followed->loops && followed_same_default(m) && strcmp(m->followed.target, w->target) == 0 &&
        m->followed.best == serial_of(find_best(m)))
        return followed;
    return found ? found : by_default ? by_default : find_best(m);
}

static void choose_target(struct mirror *m, struct wishes *w) {
    const bool speaker = m->own.kind == NODE_SPEAKER;
    const char *const chosen = chosen_microphone(m);
    const struct mirror_node *found = speaker ? NULL : find_microphone(m, chosen);
    const struct mirror_node *const refused = speaker ? NULL : find_refused(m, w, chosen, found);
    /* The default source may be an output's monitor, which must not be sent unrequested. */
    if (refused || (!chosen && !speaker && mirror_named(m, ROLE_OUTPUT, m->default_name)))
        found = m->own.kind == NODE_MIC ? find_instead(m) : NULL;
    m->keeps = refused;
    snprintf(w->target, sizeof w->target, "%s", found ? found->name : chosen ? chosen : "");
    if (refused)
        snprintf(w->refused, sizeof w->refused, "%s", refused->description);
    /* Without its microphone, the first node falls back on another one; a further node uses none. */
    w->capture = found || (m->own.kind != NODE_MORE_MIC && !refused);
    w->expected = w->microphone;
    const struct mirror_node *const expected = find_expected(m, w, found);
    if (w->expected == MIRROR_NONE && expected)
        w->expected = expected->id;
    const uint32_t microphone = w->expected != MIRROR_NONE ? w->expected : found ? found->id : MIRROR_NONE;
    const char *const channel = find_channel(m, microphone);
    snprintf(w->channel, sizeof w->channel, "%s", channel ? channel : "MONO");
    w->n_inputs = speaker || channel ? 0 : count_inputs(m, microphone);
    w->lacks_channel = w->expected != MIRROR_NONE && !channel_is_mix(&m->own.channel) && !channel;
    if (m->own.kind == NODE_MORE_MIC && found)
        snprintf(w->title, sizeof w->title, "Enhanced Mic: %s", found->description);
}

/* Whether recorders of the microphone are linked to the visible stream in its place. */
static bool is_filter(const struct mirror *m) {
    return m->own.transparent && m->filters;
}

/* Not the linked microphone where the default is used and has changed: as the filter's own target, that would stay. */
static void choose_filtered(const struct mirror *m, struct wishes *w) {
    const struct mirror_node *const by_default = chosen_microphone(m)
                                                     ? NULL
                                                     : mirror_named(m, ROLE_MICROPHONE, m->default_name);
    const struct mirror_node *const microphone = by_default && !by_default->loops ? by_default
                                                                                  : mirror_node(m, w->expected);
    if (is_filter(m) && microphone && m->own.source != MIRROR_NONE)
        snprintf(w->filtered, sizeof w->filtered, "%s", microphone->name);
}

/* A session manager may forget a stream that arrives while it moves others to a new default, or one whose microphone is
 * gone. If the stream is unlinked while the microphone and the default stay, that is intended. */
static bool is_forgotten(struct mirror *m, const struct wishes *w) {
    const struct mirror_node *const microphone = mirror_node(m, w->microphone);
    if (m->own.capture != MIRROR_NONE && m->followed.capture != m->own.capture) {
        m->followed.capture = m->own.capture;
        m->followed.linked = false;
    }
    if (microphone) {
        m->followed.linked = true;
        m->followed.serial = microphone->serial;
        m->followed.best = serial_of(find_best(m));
        memcpy(m->followed.default_name, m->default_name, sizeof m->followed.default_name);
        snprintf(m->followed.target, sizeof m->followed.target, "%s", m->own.target);
    }
    const bool meant = m->followed.linked && mirror_serial(m, m->followed.serial) && followed_same_default(m);
    return m->complete && w->metadata != MIRROR_NONE && m->own.capture != MIRROR_NONE && w->microphone == MIRROR_NONE &&
           !w->quiet && mirror_has_role(m, ROLE_MICROPHONE) && !meant;
}

/* ---- what to tell the session manager ---------------------------------------------------------------------------- */

enum leads {
    LEADS_NOWHERE, /* nothing was chosen for the recorder, or a node that is gone */
    LEADS_HERE,    /* to this node */
    LEADS_DEFAULT, /* to the default, which is this node */
    LEADS_AWAY,
};

/* The target that the metadata sets for a recorder. */
static enum leads leads(const struct mirror *m, const struct mirror_node *own, const struct mirror_target *target) {
    if (!target || !target->object[0])
        return LEADS_NOWHERE;
    if (strcmp(target->object, "-1") == 0)
        return target->misled_by ? LEADS_NOWHERE : mirror_is_default(m) ? LEADS_DEFAULT : LEADS_AWAY;
    const struct mirror_node *const to = find_led(m, target);
    return !to ? LEADS_NOWHERE : to == own ? LEADS_HERE : LEADS_AWAY;
}

/* Returns false if the array is full; the next call emits them. */
static bool has_room(struct wishes *w, unsigned n) {
    const bool has = w->n_targets + n <= RECALL_STREAMS;
    w->more |= !has;
    return has;
}

/* False: as above. */
static bool set_target(struct wishes *w, uint32_t node, const char *key, uint64_t serial) {
    if (!has_room(w, 1))
        return false;
    w->targets[w->n_targets++] = (struct wishes_target){.node = node, .key = key, .serial = serial};
    return true;
}

/* Without a source WirePlumber makes a sink the default one, such as while this node is gone. */
static bool other_is_default(const struct mirror *m) {
    const bool played = m->own.kind != NODE_SPEAKER && mirror_named(m, ROLE_OUTPUT, m->default_name);
    return m->default_name[0] && !mirror_is_default(m) && !played;
}

/* Once another device is the default, removes the target that pinned a recorder (mirror.h), so that its own choice
 * applies again. */
static void give_back(struct mirror *m, struct wishes *w) {
    if (!other_is_default(m))
        return;
    for (unsigned i = 0; i < m->n_targets; i++) {
        struct mirror_target *const target = &m->targets[i];
        if (target->misled_by && set_target(w, target->id, target->misled_by, 0))
            target->misled_by = NULL;
    }
}

/* Whether the metadata has the value that this node last set. */
static bool is_as_asked(const struct mirror_node *node, const struct mirror_target *target) {
    return target && node->asked && strtoull(target->object, NULL, 10) == node->asked;
}

static struct recall_stream recall_stream(const struct mirror *m, const struct mirror_node *node) {
    const struct mirror_target *const target = mirror_target(m, node);
    struct recall_stream stream = {.serial = node->serial};
    if (target) {
        memcpy(stream.target, target->object, sizeof stream.target);
        stream.misled = target->misled_by;
    }
    return stream;
}

/* Restores which streams were pinned before this process started. */
static void recall_misled(struct mirror *m, const struct mirror_node *node) {
    struct mirror_target *const target = mirror_target(m, node);
    struct recall_stream stream = recall_stream(m, node);
    stream.misled = true;
    if (target && recall_has(&m->noted, m->instance, &stream))
        target->misled_by = strcmp(target->object, "-1") == 0 ? "target.object" : "target.node";
}

/* Restores the streams that were linked to this node before it was gone and still exist. Like a user who moves a
 * stream, sets the node's new serial as their target, because the session manager treats the node as a new one. */
static void ask_back(struct mirror *m, struct wishes *w, enum mirror_role role, uint64_t serial) {
    if (m->recalled == serial)
        return;
    m->recalled = serial;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        recall_misled(m, node);
        const struct recall_stream stream = recall_stream(m, node);
        node->awaited = node->role == role && !node->linked && !stream.misled &&
                        recall_has(&m->noted, m->instance, &stream) && set_target(w, node->id, "target.object", serial);
        if (node->awaited)
            node->asked = serial;
    }
}

/* Stores the streams that are awaited, linked or pinned. Leaves streams to the session manager that it linked to this
 * node as the default or as a filter. */
static void note(struct mirror *m, struct wishes *w, enum mirror_role role, const struct mirror_node *own) {
    struct recall now = {.instance = m->instance};
    for (unsigned i = 0; i < m->n_nodes; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        const struct recall_stream stream = recall_stream(m, node);
        const bool chosen = !(mirror_is_default(m) || is_filter(m)) ||
                            leads(m, own, mirror_target(m, node)) == LEADS_HERE;
        const bool wanted = node->awaited || stream.misled || (node->linked && !node->meter && chosen);
        if (node->role == role && wanted)
            recall_add(&now, &stream);
    }
    if (recall_same(&now, &m->noted))
        return;
    m->noted = now;
    w->noted = true;
}

/* The role of the streams that applications link to the visible stream. */
static enum mirror_role users_role(const struct mirror *m) {
    return m->own.kind == NODE_SPEAKER ? ROLE_PLAYER : ROLE_RECORDER;
}

static void recall(struct mirror *m, struct wishes *w) {
    const enum mirror_role role = users_role(m);
    const struct mirror_node *const own = mirror_node(m, mirror_visible(m));
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        node->brought_back = node->linked && (node->awaited || node->brought_back);
        node->awaited &= !node->linked;
        w->n_brought_back += node->brought_back;
    }
    if (!own || own->failed || !m->complete || !m->metadata_complete) /* a failed stream loses its links */
        return;
    ask_back(m, w, role, own->serial);
    note(m, w, role, own);
}

/* The session manager may still be at work, so this node waits until ask_anew has been set this often: 0.6 s. */
enum { LONG_ENOUGH = 2 };

static bool is_linked(const struct mirror *m, uint32_t node) {
    bool linked = false;
    for (unsigned i = 0; i < m->n_links; i++)
        linked |= m->links[i].from == node || m->links[i].to == node;
    return linked;
}

/* Releases a stream to the session manager. Returns false if the array is full. */
static bool forget_target(struct wishes *w, uint32_t node) {
    return has_room(w, 2) && set_target(w, node, "target.node", 0) && set_target(w, node, "target.object", 0);
}

/* Handles another program, such as an equaliser for all recorders, that moves this node's own capture stream. The
 * stream stays there, unless that loops. */
static void follow_move(struct mirror *m, struct wishes *w) {
    struct mirror_node *const capture = mirror_node(m, m->own.capture);
    struct mirror_node *const to = capture ? find_led(m, mirror_target(m, capture)) : NULL;
    if (to && to->role == ROLE_MICROPHONE && !to->hardware)
        to->takes_all = true;
    const uint64_t from = to && to->loops ? to->serial : 0;
    if (!from || from == m->released || forget_target(w, capture->id))
        m->released = from;
}

/* A speaker's device stream is where the session manager, people or a program linked it. From an output that loops it
 * is moved away, once, for as long as that loops. Not at once: WirePlumber 0.4 never links a stream again that is moved
 * while it links it. */
static void leave_loop(struct mirror *m, struct wishes *w) {
    struct mirror_node *const own = mirror_node(m, m->own.source);
    const struct mirror_node *const linked = mirror_node(m, w->microphone), *const instead = find_instead(m);
    const struct mirror_node *const released = m->released ? mirror_serial(m, m->released) : NULL;
    const struct mirror_node *const left = released && released->loops ? released : NULL;
    if (linked && linked->loops)
        snprintf(w->refused, sizeof w->refused, "%s", linked->description);
    else if (left)
        snprintf(w->refused, sizeof w->refused, "%s", left->description);
    const bool leaves = own && m->metadata_complete && linked && linked->loops && linked != left && instead;
    m->n_looped = leaves ? m->n_looped + m->ask_anew : 0;
    w->in_vain |= leaves;
    if (!own || !m->metadata_complete)
        return;
    if (leaves && m->n_looped >= LONG_ENOUGH && set_target(w, own->id, "target.object", instead->serial)) {
        own->asked = instead->serial;
        m->released = linked->serial;
        m->n_looped = 0;
    } else if (m->released && !left && forget_target(w, own->id)) {
        own->asked = 0;
        m->released = 0;
    }
}

/* ---- what people chose for applications -------------------------------------------------------------------------- */

/* Returns false if the array is full; the next call handles it. */
static bool move_to(struct wishes *w, struct mirror_node *node, struct mirror_target *target, uint64_t serial) {
    if (!set_target(w, node->id, "target.object", serial))
        return false;
    node->asked = serial;
    node->settled = false;
    node->due = DUE_NOTHING;
    if (target)
        target->misled_by = NULL; /* this target is not to be given back */
    return true;
}

/* Whether a program that moves all recorders may have moved this one. It does so once: when it or the recorder
 * comes. */
static bool is_moved_by_program(const struct mirror_node *node, const struct mirror_node *to) {
    return to && (to->takes_all || to->loops) && node->moved_back != to->serial;
}

/* Moves a recorder to the node that the choice for its application requires. If it is elsewhere after it was there, the
 * user has moved it, and the choice ends, unless a program may have moved it. A recorder that is elsewhere from the
 * start stays there: the user moved it while this program did not run. A recorder that this node restored was not moved
 * by the user. */
static void keep_choice(struct mirror *m, struct wishes *w, struct mirror_node *node, bool on,
                        const struct mirror_node *own) {
    struct mirror_target *const target = mirror_target(m, node);
    const struct mirror_node *const goal = on ? own : mirror_node(m, w->expected);
    const struct mirror_node *const led = find_led(m, target);
    const enum leads to = leads(m, own, target);
    const bool settled = node->settled, there = goal && node->asked == goal->serial;
    const bool here = to == LEADS_HERE || (to == LEADS_DEFAULT && settled) || (led && led->fed);
    const bool asked_back = node->awaited || node->brought_back;
    if (goal && (on ? !here : led && led->fed) && is_moved_by_program(node, led)) {
        if (move_to(w, node, target, goal->serial))
            node->moved_back = led->serial;
    } else if (on ? here : to == LEADS_AWAY) {
        node->settled = true;
        node->due = DUE_NOTHING;
        if (!on && goal && !there && is_as_asked(node, target))
            move_to(w, node, target, goal->serial); /* from the microphone that this node used before */
    } else if (node->due == DUE_MOVE || to == LEADS_NOWHERE || (on ? to == LEADS_DEFAULT : asked_back)) {
        if (goal && (node->due == DUE_MOVE || settled || !there))
            move_to(w, node, target, goal->serial);
    } else if (settled) {
        json_object_del(m->choices, mirror_application(node));
        w->chosen = true;
    }
}

/* Releases a recorder to the session manager, as if it had never been moved. */
static void release(struct wishes *w, struct mirror_node *node) {
    if (!forget_target(w, node->id))
        return;
    node->asked = 0;
    node->settled = false;
    node->due = DUE_NOTHING;
}

static void keep_choices(struct mirror *m, struct wishes *w) {
    const struct mirror_node *const own = mirror_node(m, m->own.source);
    if (m->own.kind != NODE_MIC || !own || !m->complete || !m->metadata_complete)
        return;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        const char *const choice = node->listens ? choices_find(m->choices, mirror_application(node)) : NULL;
        if (node->due == DUE_RELEASE)
            release(w, node);
        else if (choice && !w->filtered[0])
            keep_choice(m, w, node, strcmp(choice, CHOICE_ON) == 0, own);
    }
}

/* ---- streams about to record ------------------------------------------------------------------------------------- */

static bool wants(const struct mirror_node *node, const struct mirror_node *source) {
    return strcmp(node->wanted, source->name) == 0 || strtoull(node->wanted, NULL, 10) == source->serial;
}

/* Whether a recorder that is not linked yet will probably be linked to this node. */
static bool comes_here(const struct mirror *m, const struct wishes *w, const struct mirror_node *node,
                       const struct mirror_node *own) {
    const struct mirror_node *const filtered = mirror_named(m, ROLE_MICROPHONE, w->filtered);
    const char *const choice = choices_find(m->choices, mirror_application(node));
    const struct mirror_target *const target = mirror_target(m, node);
    const enum leads to = leads(m, own, target);
    if (filtered && (find_led(m, target) == filtered || wants(node, filtered)))
        return true;
    if (m->own.kind == NODE_MIC && choice)
        return strcmp(choice, CHOICE_ON) == 0;
    if (to != LEADS_NOWHERE)
        return to != LEADS_AWAY;
    if (!node->wanted[0])
        return mirror_is_default(m) || (filtered && strcmp(m->default_name, filtered->name) == 0);
    return wants(node, own);
}

/* WirePlumber 0.5 may fail to link a stream that is moved just after it was linked, and then leaves it unlinked. It
 * retries when the target changes; it does not act between the two changes made here. */
static void ask_anew(struct mirror *m, struct wishes *w) {
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        const bool in_vain = is_as_asked(node, mirror_target(m, node)) && !is_linked(m, node->id);
        w->in_vain |= in_vain;
        node->anew = in_vain && (node->anew || m->ask_anew);
        if (!node->anew || !has_room(w, 2))
            continue;
        set_target(w, node->id, "target.object", 0);
        set_target(w, node->id, "target.object", node->asked);
        node->anew = false;
    }
}

/* After a link has failed, as some do while PipeWire starts, WirePlumber leaves the stream unlinked until a change
 * makes it scan all streams. Setting a target of the visible stream, and removing it, is such a change and does
 * nothing else. */
static void look_again(struct mirror *m, struct wishes *w, const struct mirror_node *own) {
    const enum mirror_role role = users_role(m);
    bool due = false;
    for (unsigned i = 0; i < m->n_nodes; i++) {
        struct mirror_node *const node = &m->nodes[i];
        const bool left = own && m->complete && m->metadata_complete && node->role == role && node->autoconnects &&
                          !same_group(node, own) && !is_linked(m, node->id) && comes_here(m, w, node, own);
        w->in_vain |= left;
        node->n_unlinked = left ? node->n_unlinked + m->ask_anew : 0;
        due |= left && m->ask_anew && node->n_unlinked >= LONG_ENOUGH;
    }
    if (due && has_room(w, 2)) {
        set_target(w, own->id, "target.object", own->serial);
        set_target(w, own->id, "target.object", 0);
    }
}

/* While the session manager links a recorder to this node, it can link the capture stream as well. */
static bool is_needed(const struct mirror *m, const struct wishes *w, unsigned n_linked) {
    const struct mirror_node *const own = mirror_node(m, m->own.source);
    bool needed = n_linked || m->own.kind == NODE_SPEAKER;
    for (unsigned i = 0; i < m->n_nodes && own && !needed; i++) {
        const struct mirror_node *const node = &m->nodes[i];
        needed = (node->listens || node->meter) && !node->was_linked && comes_here(m, w, node, own);
    }
    return needed;
}

void reconcile(struct mirror *m, struct wishes *ret) {
    const bool speaker = m->own.kind == NODE_SPEAKER;
    *ret = (struct wishes){
        .microphone = MIRROR_NONE,
        .metadata = m->n_metadata ? m->metadata[0].id : MIRROR_NONE,
    };
    find_loops(m);
    const struct mirror_node *const own = mirror_node(m, mirror_visible(m));
    const unsigned n_linked = count_links(m, ret);
    ret->stream_failed = has_failed(m, own);
    ret->quiet = !speaker && is_played(m, ret->microphone);
    if (ret->quiet)
        ret->microphone = MIRROR_NONE;
    find_played(m, ret);
    const struct mirror_node *const microphone = mirror_node(m, ret->microphone);
    if (microphone && !microphone->loops)
        memcpy(m->kept, microphone->name, sizeof m->kept);
    recall(m, ret);
    if (speaker)
        leave_loop(m, ret);
    else if (m->metadata_complete)
        follow_move(m, ret);
    choose_target(m, ret);
    choose_filtered(m, ret);
    keep_choices(m, ret);
    ask_anew(m, ret);
    look_again(m, ret, own);
    m->ask_anew = false;
    give_back(m, ret);
    ret->needed = is_needed(m, ret, n_linked);
    ret->forgotten = !speaker && is_forgotten(m, ret);
    /* A speaker's capture stream never stays away, but without an output nothing drives it. */
    ret->pacing = n_linked && (!speaker || ret->microphone == MIRROR_NONE);
}
