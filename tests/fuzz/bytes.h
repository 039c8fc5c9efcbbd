/* The bytes that a fuzz target is given, one after the other. */
#ifndef TESTS_FUZZ_BYTES_H
#define TESTS_FUZZ_BYTES_H

#include <stddef.h>
#include <stdint.h>

struct input {
    const uint8_t *data;
    size_t left;
};

/* The next one; 0 when there are no more. */
static inline uint8_t
take(struct input *in)
{
    if (in->left == 0) {
        return 0;
    }
    in->left--;
    return *in->data++;
}

#endif
