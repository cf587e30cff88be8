/* model_type.h - a model in memory. Only the reader, access.c and a test include it. */
#ifndef PRIMEKNET_MODEL_TYPE_H
#define PRIMEKNET_MODEL_TYPE_H

#include "model/model.h"
#include "model/safetensors.h"

struct model {
    char *name, *voice_encoder; /* the latter NULL: takes no print */
    struct model_config config;
    struct weights weights;
    struct tensors tensors; /* of all networks */
    struct model *next;     /* the next network, without voice_encoder and tensors; or NULL */
};

#endif
