/*
 * What all kernels share: windows, containers nested deeper than a word, and the
 * choice of a kernel.
 */
#include "node/scan/scan_block_internal.h"

#include <string.h>

void
scan_blocks_init(struct scan_blocks *b, const char *body, size_t at, size_t end,
                 uint32_t depth_max)
{
    CHECK(at <= end && depth_max <= SCAN_DEPTH_MAX);
    /* All else of a window is written before it is read. */
    b->window.frames.count = 0;
    b->strings = (struct scan_string_carry){.in_string = 0};
    b->frame = (struct scan_frame_carry){.separated = 1}; /* a value comes */
    b->body = body;
    b->end = end;
    b->next = at;
    b->depth_max = (int32_t)depth_max;
    b->ok = true;
    b->closed = false;
}

void
scan_wipe(void *at, size_t bytes)
{
    CHECK_SLOW(at != NULL);
    memset(at, 0, bytes);
}

bool
scan_window_start(struct scan_blocks *b)
{
    struct scan_window *w = &b->window;
    size_t left = b->end - b->next;
    size_t part = left % SCAN_BLOCK;

    CHECK_SLOW(b->next <= b->end);
    w->at = b->next;
    w->count = 0;
    w->frames.count = 0;
    if (left == 0 || !b->ok || b->closed) {
        return false;
    }
    if (left >= (size_t)SCAN_WINDOW * SCAN_BLOCK) {
        w->count = SCAN_WINDOW;
        b->next += (size_t)SCAN_WINDOW * SCAN_BLOCK;
        return true;
    }
    w->count = (unsigned)(left / SCAN_BLOCK);
    b->next = b->end;
    if (part != 0) {
        memset(b->tail, ' ', SCAN_BLOCK);
        memcpy(b->tail, b->body + b->end - part, part);
        w->count++;
    }
    return true;
}

/* All ones: the container at this depth is an object. */
static uint64_t
deep_kind(const struct scan_blocks *b, int32_t depth)
{
    unsigned bit = (unsigned)depth - 1;

    CHECK_SLOW(depth <= SCAN_DEPTH_MAX + SCAN_BLOCK);
    return depth > 0 ? 0 - (b->deep_kinds[bit / 64] >> bit % 64 & 1) : 0;
}

static void
set_deep_kind(struct scan_blocks *b, int32_t depth, bool object)
{
    unsigned bit = (unsigned)depth - 1;

    CHECK_SLOW(depth <= SCAN_DEPTH_MAX + SCAN_BLOCK);
    if (depth > 0) { /* not so: brackets follow the end of the body */
        b->deep_kinds[bit / 64] &= ~(UINT64_C(1) << bit % 64);
        b->deep_kinds[bit / 64] |= (uint64_t)object << bit % 64;
    }
}

uint64_t
scan_deep_objects(struct scan_blocks *b, unsigned k)
{
    const struct scan_frames *f = &b->window.frames;
    struct scan_frame_carry *c = &b->frame;
    CHECK_SLOW(k < f->count);
    int32_t depth = c->depth;

    CHECK(depth <= SCAN_DEPTH_MAX);
    if (depth > 0 && depth <= 64) {
        b->deep_kinds[0] = c->kinds >> (64 - depth);
    }
    uint64_t objects = deep_kind(b, depth);
    for (uint64_t left = f->open[k] | f->close[k]; left != 0;
         left &= left - 1) {
        uint64_t bit = left & (0 - left);
        if ((f->open[k] & bit) != 0) {
            set_deep_kind(b, ++depth, (f->brace[k] & bit) != 0);
        } else {
            depth--;
        }
        objects ^= (objects ^ deep_kind(b, depth)) & ~(left ^ (left - 1));
    }
    if (depth > 0 && depth <= 64) {
        c->kinds = b->deep_kinds[0] << (64 - depth);
    }
    return objects;
}

const struct scan_kernel *
scan_kernel_nth(unsigned i)
{
    static const struct scan_kernel *const kernels[] = {
#if defined(__x86_64__)
        &scan_kernel_avx512,
        &scan_kernel_avx2,
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
