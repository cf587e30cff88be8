/* model.h - a network's file: safetensors, whose metadata says everything that defines the network (docs/model-format.md).
 *
 * The reader trusts nothing: any bytes give either a model whose every tensor has the name and shape that its metadata
 * demands, with finite values, or one line naming the file and what is wrong. A model is immutable after loading, so any
 * thread may read it. */
#ifndef PRIMEKNET_MODEL_H
#define PRIMEKNET_MODEL_H

#include "err.h"

struct model;

/* The name of a shipped model ("small") or a path (anything with a '/' or ending in .safetensors). */
int model_load(struct model **ret, const char *name_or_path, struct err *err);
void model_free(struct model *m); /* NULL is fine */

const char *model_name(const struct model *m); /* as in its metadata */
unsigned model_rate(const struct model *m);    /* Hz */
unsigned model_hop(const struct model *m);     /* samples */

#endif
