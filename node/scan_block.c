#include "node/scan_block.h"

#include <string.h>

void
scan_blocks_init(struct scan_blocks *b, const char *body, size_t at, size_t end,
                 uint32_t depth_max)
{
    CHECK(at <= end && depth_max <= SCAN_DEPTH_MAX);
    /* All but the two arrays, which are written before they are read. */
    memset(b, 0, offsetof(struct scan_blocks, tail));
    memset(b->kinds, 0, SCAN_KINDS_BELOW + 1);
    b->body = body;
    b->end = end;
    b->at = at;
    b->next = at;
    b->depth_max = (int32_t)depth_max;
    b->ok = true;
    b->after_separator = 1; /* as if: a value comes */
}

const unsigned char *
scan_blocks_tail(struct scan_blocks *b)
{
    size_t left = b->end - b->next;

    CHECK(left < SCAN_BLOCK);
    memset(b->tail, ' ', SCAN_BLOCK);
    memcpy(b->tail, b->body + b->next, left);
    return b->tail;
}

const struct scan_kernel *
scan_kernel_nth(unsigned i)
{
    static const struct scan_kernel *const kernels[] = {
#if defined(__x86_64__)
        &scan_kernel_sse2,
#endif
        &scan_kernel_portable,
    };

    return i < sizeof(kernels) / sizeof(kernels[0]) ? kernels[i] : NULL;
}

const struct scan_kernel *
scan_kernel_best(void)
{
    const struct scan_kernel *kernel = scan_kernel_nth(0);

    for (unsigned i = 1; !kernel->usable(); i++) {
        kernel = scan_kernel_nth(i);
        CHECK(kernel != NULL);
    }
    return kernel;
}
