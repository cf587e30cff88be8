/* gcd.h - the greatest common divisor; of 0 and b it is b. */
#ifndef PRIMEKNET_GCD_H
#define PRIMEKNET_GCD_H

static inline unsigned gcd(unsigned a, unsigned b) {
    while (b) {
        const unsigned rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

#endif
