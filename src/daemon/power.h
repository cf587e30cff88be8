/* power.h - detects whether to avoid the GPU, because the machine runs on battery or its NVIDIA GPU sleeps.
 *
 * Reads sysfs below `sys`, which is "/sys" except in tests. Any thread. */
#ifndef PRIMEKNET_POWER_H
#define PRIMEKNET_POWER_H

#include <stdbool.h>

/* Whether a battery of the machine (not of a mouse) discharges, and no mains supply is online. */
bool power_on_battery(const char *sys);

/* Whether every NVIDIA GPU is suspended, as in a laptop that uses another GPU for its screen. False without NVIDIA
 * GPUs. */
bool power_gpu_sleeps(const char *sys);

#endif
