/*
 * UTF-8 on words: for the kernels of processors that cannot look bytes up
 * (scan_utf8_tables_internal.h is for the others). Part of each of these
 * kernels: see scan_window_internal.h. They define
 *
 *   struct utf8_masks utf8_masks(block)
 *   struct special_masks special_masks(block)
 */
#include "node/scan/scan_block_internal.h"
#include "node/scan/scan_masks_internal.h"

/* What one block leaves to the next, and whether there was a fault. */
struct utf8_state {
    uint64_t continuation; /* bits 0-2: bytes that must be 80..BF */
    uint64_t special;      /* the byte before was one of these: */
    uint64_t e0;
    uint64_t ed;
    uint64_t f0;
    uint64_t f4;
    uint64_t fault;
};

static inline struct utf8_state
utf8_none(void)
{
    return (struct utf8_state){.fault = 0};
}

/*
 * RFC 3629: continuation bytes are exactly where the lead bytes want them, and
 * behind a special one the first is in the range that it leaves.
 */
static inline void
utf8_next(struct utf8_state *c, const unsigned char *block)
{
    struct utf8_masks m = utf8_masks(block);
    uint64_t wanted = m.from_c0 << 1 | m.from_e0 << 2 | m.from_f0 << 3;

    c->fault |= (wanted | c->continuation) ^ m.continuation;
    c->continuation = m.from_c0 >> 63 | m.from_e0 >> 62 | m.from_f0 >> 61;
    if ((m.special | c->special) != 0) {
        struct special_masks s = special_masks(block);
        c->fault |= m.special & ~(s.e0 | s.ed | s.f0 | s.f4);
        c->fault |= (s.e0 << 1 | c->e0) & ~s.from_a0;
        c->fault |= (s.ed << 1 | c->ed) & s.from_a0;
        c->fault |= (s.f0 << 1 | c->f0) & ~s.from_90;
        c->fault |= (s.f4 << 1 | c->f4) & s.from_90;
        c->e0 = s.e0 >> 63;
        c->ed = s.ed >> 63;
        c->f0 = s.f0 >> 63;
        c->f4 = s.f4 >> 63;
        c->special = c->e0 | c->ed | c->f0 | c->f4;
    }
}

/* The block before the first, which was found good. */
static inline void
utf8_before(struct utf8_state *c, const unsigned char *block)
{
    utf8_next(c, block);
    c->fault = 0;
}

static inline uint64_t
utf8_fault(const struct utf8_state *c)
{
    return c->fault;
}
