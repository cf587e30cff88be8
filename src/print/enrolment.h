/* enrolment.h - the print of the voice that My Voice keeps, in a file of its own: $XDG_DATA_HOME/primeknet/my-voice.json
 * (~/.local/share by default), which only its owner can read. Nothing else keeps a print, and no message contains one.
 *
 * Functions return 0 or a negative errno, with an error line that names the file. Any thread. */
#ifndef PRIMEKNET_ENROLMENT_H
#define PRIMEKNET_ENROLMENT_H

#include "base/err.h"

enum { ENROLMENT_MAX = 1024 };

struct enrolment {
    char encoder[64]; /* the encoder's name (print.h) */
    unsigned size;
    float print[ENROLMENT_MAX]; /* [size], of length 1 */
};

/* Reads the enrolment. -ENOENT: no voice has been learned; -EINVAL: the file is damaged. ret is then unchanged. */
int enrolment_read(struct enrolment *ret, struct err *err);
int enrolment_write(const struct enrolment *e, struct err *err); /* replaces the earlier one, if any, atomically */
int enrolment_remove(struct err *err);                           /* 0 if there is none */

#endif
