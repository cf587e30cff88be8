/* ask-node [--each] NAME COMMAND, or ask-node [--each] NAME PARAM VALUE: sends a request to a node, as any PipeWire
 * client may. VALUE has pw-cli's syntax. Exits once PipeWire has forwarded the request; with status 1 and the reason if
 * there is no such node, or PipeWire refuses. With --each, sends it to each node of that name as soon as that appears,
 * until it is killed. */
#include "config.h"

#include "graph/pipewire.h"

#pragma GCC diagnostic ignored "-Wmissing-field-initializers"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wvla"
#include <spa/utils/json-pod.h>
#include <stdio.h>
#include <string.h>

struct asker {
    struct pw_main_loop *loop;
    struct pw_core *core;
    struct pw_registry *registry;
    struct pw_node *node;
    const char *name, *what, *value;
    bool each;
    int seq;
    char refused[128];
};

static const char *ask(struct asker *a);

static void on_global(void *data, uint32_t id, uint32_t permissions, const char *type, uint32_t version,
                      const struct spa_dict *props) {
    (void)permissions, (void)version;
    struct asker *const a = data;
    if ((a->node && !a->each) || !props || strcmp(type, PW_TYPE_INTERFACE_Node) != 0 ||
        strcmp(props_text(props, PW_KEY_NODE_NAME), a->name) != 0)
        return;
    a->node = pw_registry_bind(a->registry, id, type, PW_VERSION_NODE, 0);
    if (a->each)
        ask(a);
}

static void on_done(void *data, uint32_t id, int seq) {
    struct asker *const a = data;
    if (id == PW_ID_CORE && seq == a->seq)
        pw_main_loop_quit(a->loop);
}

static void on_error(void *data, uint32_t id, int seq, int res, const char *message) {
    (void)id, (void)seq, (void)res;
    struct asker *const a = data;
    snprintf(a->refused, sizeof a->refused, "%s", message);
    if (!a->each)
        pw_main_loop_quit(a->loop);
}

static const struct pw_registry_events registry_events = {PW_VERSION_REGISTRY_EVENTS, .global = on_global};
static const struct pw_core_events core_events = {PW_VERSION_CORE_EVENTS, .done = on_done, .error = on_error};

/* Waits until PipeWire has answered all requests. */
static void await(struct asker *a) {
    a->seq = pw_core_sync(a->core, PW_ID_CORE, 0);
    pw_main_loop_run(a->loop);
}

/* Returns NULL, or what is wrong. */
static const char *ask(struct asker *a) {
    const struct spa_type_info *const info = spa_debug_type_find_short(
        a->value ? spa_type_param : spa_type_node_command_id, a->what);
    uint8_t buffer[4096];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    if (!info)
        return "there is no such thing to ask";
    if (!a->value) {
        pw_node_send_command(a->node, &SPA_NODE_COMMAND_INIT(info->type));
        return NULL;
    }
    if (spa_json_to_pod(&b, 0, info, a->value, (int)strlen(a->value)) < 0)
        return "that value cannot be read";
    pw_node_set_param(a->node, info->type, 0, spa_pod_builder_deref(&b, 0));
    return NULL;
}

int main(int argc, char **argv) {
    struct asker a = {.each = argc > 1 && strcmp(argv[1], "--each") == 0};
    struct spa_hook core_listener, registry_listener;
    const char *wrong = "it takes a node's name and a command, or a parameter and its value";
    pw_init(NULL, NULL);
    argc -= a.each;
    argv += a.each;
    if (argc == 3 || argc == 4) {
        a.name = argv[1];
        a.what = argv[2];
        a.value = argc == 4 ? argv[3] : NULL;
        a.loop = pw_main_loop_new(NULL);
        struct pw_context *const context = pw_context_new(pw_main_loop_get_loop(a.loop), NULL, 0);
        wrong = "no PipeWire answers";
        a.core = pw_context_connect(context, NULL, 0);
    }
    if (a.core) {
        pw_core_add_listener(a.core, &core_listener, &core_events, &a);
        a.registry = pw_core_get_registry(a.core, PW_VERSION_REGISTRY, 0);
        pw_registry_add_listener(a.registry, &registry_listener, &registry_events, &a);
        if (a.each)
            pw_main_loop_run(a.loop);
        await(&a);
        wrong = a.node ? ask(&a) : "there is no such node";
        if (!wrong)
            await(&a);
    }
    if (!wrong && a.refused[0])
        wrong = a.refused;
    if (wrong)
        fprintf(stderr, "ask-node: %s\n", wrong);
    return wrong != NULL;
}
