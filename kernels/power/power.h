/* power.h - raises each number to a power: x = x^exponent. x is positive, normal and finite, |exponent| <= 4, and the
 * result must be normal and finite. */
#ifndef PRIMEKNET_POWER_H
#define PRIMEKNET_POWER_H

enum { POWER_PAD = 16 };

struct power {
    unsigned n;
    float exponent;
    float *x; /* [n], padded to a multiple of POWER_PAD with valid numbers, which may change */
};

void power_ref(const struct power *a);

#endif
