/* enhance-raw MODEL < IN > OUT: enhances one channel of 32-bit floats at 48 kHz; OUT is aligned with IN.
 *
 *     cc -o enhance-raw enhance-raw.c $(pkg-config --cflags --libs primeknet) */
#include <primeknet.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char **argv) {
    enum { BLOCK = 480 };
    float x[BLOCK];
    char error[PRIMEKNET_ERROR];
    struct primeknet *p;
    if (primeknet_open(&p, argc > 1 ? argv[1] : "auto", NULL, error) < 0) {
        fprintf(stderr, "%s\n", error);
        return 1;
    }
    fprintf(stderr, "%s, delay %u samples\n", primeknet_get_description(p), primeknet_get_delay(p));
    struct primeknet_controls controls = PRIMEKNET_CONTROLS;
    controls.low_cut_hz = 70;
    primeknet_set_controls(p, 0, &controls);

    size_t n, drop = primeknet_get_delay(p), missing = drop;
    while ((n = fread(x, sizeof *x, BLOCK, stdin)) > 0 || missing > 0) {
        if (n == 0) { /* the end: silence pushes out what is delayed */
            n = missing < BLOCK ? missing : BLOCK;
            memset(x, 0, n * sizeof *x);
            missing -= n;
        }
        if (primeknet_process(p, &(const float *){x}, &(float *){x}, n) < 0)
            break;
        size_t dropped = drop < n ? drop : n;
        fwrite(x + dropped, sizeof *x, n - dropped, stdout);
        drop -= dropped;
    }
    primeknet_close(p);
    return missing > 0;
}
