/* power.h - whether a GPU should be left alone, because the machine runs on battery or its NVIDIA GPU is asleep.
 *
 * Reads what Linux tells under `sys`, which is "/sys" except in tests. Any thread. */
#ifndef PRIMEKNET_POWER_H
#define PRIMEKNET_POWER_H

#include <stdbool.h>

/* A battery of the machine (not a mouse's) discharges, and no mains supply is online. */
bool power_on_battery(const char *sys);

/* Every NVIDIA GPU is suspended, as in a laptop that draws its screen with another one. False if there is none. */
bool power_gpu_sleeps(const char *sys);

#endif
