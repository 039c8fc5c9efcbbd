/* Requests, head and body, against llhttp in strict mode. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/http_differ.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct slice input = {.ptr = (const char *)bytes, .len = size};
    const char *fault = http_differ_request(input, NULL);

    if (fault != NULL) {
        (void)fprintf(stderr, "differs from llhttp: %s\n", fault);
        abort();
    }
    return 0;
}
