/* model_type.h - a model in memory. Only the reader and access.c include it. */
#ifndef PRIMEKNET_MODEL_TYPE_H
#define PRIMEKNET_MODEL_TYPE_H

#include "model/model.h"

#include <stddef.h>

struct tensor {
    char name[SCHEMA_MAX_NAME];
    size_t shape[SCHEMA_MAX_DIMS + 1]; /* terminated by 0 */
    size_t n;                          /* values */
    size_t begin, end;                 /* byte offsets in the file's data part */
    float *data;
    const float **field; /* the field of struct weights to point to the data */
};

struct model {
    char *name;
    struct model_config config;
    struct weights weights;
    struct tensor *tensors;
    unsigned n_tensors;
};

#endif
