/*
 * The heart of the scanner: from bytes to a verdict and to tokens, a window of
 * blocks at a time. Included once by each kernel (scan_portable.c,
 * scan_sse2.c, ...), which defines the mask functions named below; what
 * follows is the same for all of them.
 *
 * The algorithm. A word speaks of 64 bytes, a bit of each. Finding strings by
 * arithmetic on words of quotes is Langdale and Lemire's ("Parsing gigabytes
 * of JSON per second", VLDB Journal 2019); passing runs of bytes by the carry
 * of an addition is Cameron's (Parabix). Where simdjson goes on to walk token
 * by token, or skips without a look, here the whole grammar is decided on
 * words:
 *
 *   Let follow(M) be the first bytes of the tokens that come next after the
 *   tokens ending at M: M shifted by one, then carried over white space by an
 *   addition. With the context of each byte (is the innermost container an
 *   object?), a text whose brackets match is JSON exactly when
 *
 *     1. values begin only at follow(open) and follow(comma, colon);
 *     2. what follows a comma or colon is a value;
 *     3. what follows an open bracket is a value or a close bracket;
 *     4. what follows { or a comma in an object is a string, the key (or, as 3
 *        allows, a close bracket);
 *     5. the colons are exactly what follows the keys' closing quotes;
 *     6. each close bracket is of the kind of its container.
 *
 *   1 and 2 also say that after a value comes no value: what is not a value
 *   there is a comma, a close bracket or, by 5, a colon after a key.
 *
 * Each rule is a few operations, and they are done for several blocks at once
 * (scan_words_internal.h): what one block leaves to the next goes from lane to
 * lane. Only to know the contexts are brackets visited, and of those only the
 * ones that are not plain to see (scan_frames_internal.h). Escapes, UTF-8,
 * control characters and digits are checked on words as well, in blocks that
 * have any.
 *
 * So what nobody asks about (tool schemas, response formats) is checked but
 * never walked, and text costs little more than reading it.
 *
 * Why in steps. Each step is a small loop over the window: masks first, then
 * strings, then what is outside them. In one loop the same work took twice as
 * long: a branch that depends on the block's masks is guessed wrong, and found
 * out only a long chain of operations later.
 *
 * Limits: what a processor without fast vectors gains from this is nothing;
 * the portable kernel exists to be right.
 */

/*
 * The kernel defines SCAN_TARGET and SCAN_LANES, includes
 * scan_words_internal.h, and defines these, all `SCAN_TARGET static inline`;
 * the structs are in scan_masks_internal.h. Bit i of a mask speaks of the
 * block's byte i.
 *
 *   struct text_sum                what a window's bytes have in common
 *   struct text_sum text_none(void)
 *   struct text_masks text_masks(block, struct text_sum *sum)
 *   bool text_has_control(sum), text_has_high(sum)
 *   struct escape_masks escape_masks(block)
 *   struct frame_masks frame_masks(block)
 *   struct digit_masks digit_masks(block)
 *   struct utf8_masks utf8_masks(block)
 *   struct special_masks special_masks(block)
 *   uint64_t space_mask(block)     space, \t, \n, \r
 *   uint64_t control_mask(block)   below 20
 *   uint64_t high_mask(block)      80 and above
 *   uint64_t byte_mask(block, char c)
 *   unsigned lane_tops(words)      bit k: the top bit of lane k
 *   unsigned lanes_set(words)      bit k: whether lane k is not 0
 *   words fill_lanes(unsigned)     all ones in the lanes whose bit is set
 */
#include "node/scan/scan_block_internal.h"

/* Block i of the window. */
SCAN_TARGET static inline const unsigned char *
block_of(const struct scan_blocks *b, unsigned i)
{
    size_t at = b->window.at + (size_t)i * SCAN_BLOCK;

    CHECK_SLOW(i < b->window.count && at < b->end);
    return b->end - at >= SCAN_BLOCK ? (const unsigned char *)b->body + at
                                     : b->tail;
}

#include "node/scan/scan_frames_internal.h"
#include "node/scan/scan_strings_internal.h"

/* See struct scan_kernel. */
SCAN_TARGET static bool
read_window(struct scan_blocks *b)
{
    if (!scan_window_start(b)) {
        return false;
    }
    uint64_t fault = strings_fault(b);
    fault |= frames_fault(b);
    if (fault != 0) {
        b->window.frames.count = 0;
        b->ok = false;
    }
    return b->ok;
}
