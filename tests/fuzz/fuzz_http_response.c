/*
 * Responses, head and body, against llhttp in strict mode. The first byte
 * says whether the response is to HEAD.
 */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/fuzz/http_differ.h"

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size);

int
LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t size)
{
    struct slice input;
    const char *fault;

    if (size == 0) {
        return 0;
    }
    input = (struct slice){.ptr = (const char *)bytes + 1, .len = size - 1};
    fault = http_differ_response(input, bytes[0] == 'H' ? HTTP_HEAD : HTTP_GET,
                                 NULL);
    if (fault != NULL) {
        (void)fprintf(stderr, "differs from llhttp: %s\n", fault);
        abort();
    }
    return 0;
}
