/* microphone.h - finds the chosen microphone among the sources.
 *
 * A name such as "alsa_input.usb-Maker_Model_Serial-00.2.analog-stereo" consists of the device (for built-in cards: its
 * slot), its number among devices of the same kind, and the card's profile. Any thread. */
#ifndef PRIMEKNET_MICROPHONE_H
#define PRIMEKNET_MICROPHONE_H

/* Returns how well a source matches the choice. 3: by name; 2: by description; 1: the same device with another profile
 * or number; 0: not at all. */
int microphone_fits(const char *chosen, const char *name, const char *description);

#endif
