/* report.h - what the daemon tells about itself, as JSON: the answers to "status" and "microphones".
 *
 * On the thread that owns the node. Every object is the caller's; NULL: out of memory. */
#ifndef PRIMEKNET_REPORT_H
#define PRIMEKNET_REPORT_H

#include "settings.h"
#include "streams.h"

#include <jansson.h>

struct report {
    const struct streams *streams;
    const struct settings *settings;
    const char *network; /* "base on cpu (AVX2)": what is in use, for people */
    bool loading;        /* another is being loaded */
    const char *problem; /* why that is not what the settings ask for, or "" */
    bool bypass;
    bool bands;          /* also the bars of bands.h, before and after, while somebody records */
    const char *refused; /* why the last reload changed nothing, or "" */
};

json_t *report_status(const struct report *r);
/* Why the network's thread has no real-time priority. */
const char *report_refusal(const struct pump_stats *p);
json_t *report_microphones(const struct node *n, const struct settings *s);

#endif
