#include "graph/params.h"

#include <string.h>

/* ---- Props ------------------------------------------------------------------------------------------------------- */

static const struct spa_pod *build_props(const struct params *p, struct spa_pod_builder *b) {
    struct spa_pod_frame object, list;
    spa_pod_builder_push_object(b, &object, SPA_TYPE_OBJECT_Props, SPA_PARAM_Props);
    spa_pod_builder_prop(b, SPA_PROP_params, 0);
    spa_pod_builder_push_struct(b, &list);
    spa_pod_builder_string(b, "strength");
    spa_pod_builder_float(b, p->strength);
    spa_pod_builder_string(b, "bypass");
    spa_pod_builder_bool(b, p->bypass);
    spa_pod_builder_pop(b, &list);
    return spa_pod_builder_pop(b, &object);
}

static const struct spa_pod *build_strength_info(const struct params *p, struct spa_pod_builder *b) {
    return spa_pod_builder_add_object(
        b, SPA_TYPE_OBJECT_PropInfo, SPA_PARAM_PropInfo, SPA_PROP_INFO_name, SPA_POD_String("strength"),
        SPA_PROP_INFO_description, SPA_POD_String("How much of the noise is removed"), SPA_PROP_INFO_type,
        SPA_POD_CHOICE_RANGE_Float(p->strength, p->least, p->greatest), SPA_PROP_INFO_params, SPA_POD_Bool(true));
}

static const struct spa_pod *build_bypass_info(const struct params *p, struct spa_pod_builder *b) {
    return spa_pod_builder_add_object(b, SPA_TYPE_OBJECT_PropInfo, SPA_PARAM_PropInfo, SPA_PROP_INFO_name,
                                      SPA_POD_String("bypass"), SPA_PROP_INFO_description,
                                      SPA_POD_String("Pass the sound through unchanged"), SPA_PROP_INFO_type,
                                      SPA_POD_CHOICE_Bool(p->bypass), SPA_PROP_INFO_params, SPA_POD_Bool(true));
}

void params_build(const struct params *p, struct spa_pod_builder *b, const struct spa_pod *ret[PARAMS_CONTROLS]) {
    ret[0] = build_strength_info(p, b);
    ret[1] = build_bypass_info(p, b);
    ret[2] = build_props(p, b);
}

void params_publish(const struct params *p, struct pw_stream *visible) {
    uint8_t buffer[512];
    struct spa_pod_builder b = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    const struct spa_pod *props = build_props(p, &b);
    pw_stream_update_params(visible, &props, 1);
}

/* Leaves *ret unchanged if the value is not a number. */
static void read_number(const struct spa_pod *value, float *ret) {
    double real;
    int32_t whole;
    if (spa_pod_get_double(value, &real) == 0)
        *ret = (float)real;
    else if (spa_pod_get_int(value, &whole) == 0)
        *ret = (float)whole;
    else
        spa_pod_get_float(value, ret);
}

static void read_controls(const struct spa_pod *list, float *strength, bool *bypass) {
    struct spa_pod_parser parser;
    struct spa_pod_frame frame;
    const char *name;
    struct spa_pod *value;
    spa_pod_parser_pod(&parser, list);
    if (spa_pod_parser_push_struct(&parser, &frame) < 0)
        return;
    while (spa_pod_parser_get_string(&parser, &name) >= 0 && spa_pod_parser_get_pod(&parser, &value) >= 0) {
        bool yes;
        if (strcmp(name, "strength") == 0)
            read_number(value, strength);
        if (strcmp(name, "bypass") == 0 && spa_pod_get_bool(value, &yes) == 0)
            *bypass = yes;
    }
}

void params_set(struct params *p, uint32_t id, const struct spa_pod *param) {
    if (id != SPA_PARAM_Props || !param || !spa_pod_is_object(param) || !p->controls)
        return;
    float strength = p->strength;
    bool bypass = p->bypass;
    const struct spa_pod_prop *prop;
    SPA_POD_OBJECT_FOREACH((const struct spa_pod_object *)param, prop) {
        if (prop->key == SPA_PROP_params && spa_pod_is_struct(&prop->value))
            read_controls(&prop->value, &strength, &bypass);
    }
    if (strength != p->strength || bypass != p->bypass)
        p->controls(p->data, strength, bypass);
}

/* Returns -1 if the value is not a list of volumes. */
static double loudest(const struct spa_pod *volumes, unsigned *n) {
    float values[64];
    double ret = -1;
    *n = spa_pod_copy_array(volumes, SPA_TYPE_Float, values, 64);
    for (unsigned i = 0; i < *n; i++)
        ret = (double)values[i] > ret ? (double)values[i] : ret;
    return ret;
}

void params_read_volume(const struct spa_pod *props, struct volume *volume) {
    const struct spa_pod_prop *prop;
    bool hard = false, soft = false, told = false;
    double channels = -1, soft_channels = -1;
    unsigned n = 0;
    float all = 1;
    if (!props || !spa_pod_is_object(props))
        return;
    SPA_POD_OBJECT_FOREACH((const struct spa_pod_object *)props, prop) {
        told |= prop->key == SPA_PROP_mute && spa_pod_get_bool(&prop->value, &hard) == 0;
        told |= prop->key == SPA_PROP_softMute && spa_pod_get_bool(&prop->value, &soft) == 0;
        if (prop->key == SPA_PROP_volume)
            spa_pod_get_float(&prop->value, &all);
        if (prop->key == SPA_PROP_channelVolumes)
            channels = loudest(&prop->value, &volume->n_channels);
        if (prop->key == SPA_PROP_softVolumes)
            soft_channels = loudest(&prop->value, &n);
    }
    if (channels >= 0)
        volume->level = (double)all * (soft_channels >= 0 && soft_channels < channels ? soft_channels : channels);
    if (told)
        volume->muted = hard || soft;
    volume->hidden = volume->muted ? told && !hard : channels >= VOLUME_LEAST;
}

/* ---- latency ----------------------------------------------------------------------------------------------------- */

bool params_device(struct params *p, uint32_t id, const struct spa_pod *param) {
    struct spa_latency_info info;
    if (id != SPA_PARAM_Latency || !param || spa_latency_parse(param, &info) < 0 ||
        info.direction != p->device.direction)
        return false;
    p->device = info;
    return true;
}

void params_publish_latency(struct params *p, struct pw_stream *visible, uint64_t own_ns) {
    struct spa_latency_info latency = p->device;
    latency.min_ns += own_ns;
    latency.max_ns += own_ns;
    if ((uint64_t)latency.min_ns == p->published_ns) /* signed since PipeWire 1.2 */
        return;
    p->published_ns = latency.min_ns;
    uint8_t buffer[512];
    struct spa_pod_builder builder = SPA_POD_BUILDER_INIT(buffer, sizeof buffer);
    const struct spa_pod *param = spa_latency_build(&builder, SPA_PARAM_Latency, &latency);
    pw_stream_update_params(visible, &param, 1);
}
