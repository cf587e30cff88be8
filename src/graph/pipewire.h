/* pipewire.h - PipeWire's headers. Their macros and inline functions are GNU C, so files that include this one are not
 * checked for ISO C. */
#ifndef PRIMEKNET_PIPEWIRE_H
#define PRIMEKNET_PIPEWIRE_H

#pragma GCC diagnostic ignored "-Wpedantic"
#include <pipewire/pipewire.h>
#include <pipewire/extensions/metadata.h>
#include <pipewire/filter.h>
#include <pipewire/impl.h>
#include <pipewire/thread.h>
#include <spa/debug/types.h>
#include <spa/param/audio/format-utils.h>
#include <spa/param/audio/type-info.h>
#include <spa/param/latency-utils.h>
#include <spa/param/props.h>
#include <spa/pod/builder.h>
#include <spa/pod/iter.h>
#include <spa/pod/parser.h>
#include <spa/support/thread.h>

#endif
