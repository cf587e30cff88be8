/* microphone.h - which of the sources is the microphone that was chosen.
 *
 * A name such as "alsa_input.usb-Maker_Model_Serial-00.2.analog-stereo" holds the device (for built-in cards: where it
 * sits), that it is the second of two alike, and the profile that the card is switched to. Any thread. */
#ifndef PRIMEKNET_MICROPHONE_H
#define PRIMEKNET_MICROPHONE_H

/* How well a source fits what was chosen. 3: by its name; 2: by what people call it; 1: it is the same device by
 * another name, of another profile or number; 0: not at all. */
int microphone_fits(const char *chosen, const char *name, const char *description);

#endif
