/* power.h - whether a GPU had better be left alone: the machine lives on its battery, or its NVIDIA GPU is asleep.
 *
 * As Linux tells it under `sys`: "/sys", but for tests. Opens files; any thread. */
#ifndef PRIMEKNET_POWER_H
#define PRIMEKNET_POWER_H

#include <stdbool.h>

/* A battery of the machine's own (not a mouse's) runs down, and no mains feeds it. */
bool power_on_battery(const char *sys);

/* Every NVIDIA GPU is suspended: a laptop draws its screen with another one, and this one would wake for us alone.
 * False where there is none. */
bool power_gpu_sleeps(const char *sys);

#endif
