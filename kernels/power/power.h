/* power.h - a power of each number: x = x^exponent, for x > 0, normal and finite, where |exponent| is at most 4 and the result
 * is normal and finite. */
#ifndef PRIMEKNET_POWER_H
#define PRIMEKNET_POWER_H

enum { POWER_PAD = 16 };

struct power {
    unsigned n;
    float exponent;
    float *x; /* [n], and up to the next multiple of POWER_PAD numbers for which all that holds: they may be replaced as well */
};

void power_ref(const struct power *a);

#endif
