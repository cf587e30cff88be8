/* hosted.c - the part of the library that only its shared object has. */
#include "base/beside.h"

__attribute__((constructor)) static void forbid(void) {
    beside_forbid();
}
