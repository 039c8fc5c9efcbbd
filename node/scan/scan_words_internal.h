/*
 * Words of several blocks side by side: the arithmetic of the scanner on
 * SCAN_LANES blocks at once, in the compiler's vector extension, so that it
 * reads as plain C and fits every processor. Part of each of the scanner's
 * kernels: see scan_window_internal.h.
 *
 * Lane k is block k of a group; what one block leaves to the next goes from
 * lane to lane, and from a group's last lane to the next group's first.
 */
#include <string.h>

#include "node/scan/scan_block_internal.h"

/* Eight bytes for each of the lanes. */
typedef uint64_t words __attribute__((vector_size(8 * SCAN_LANES)));

/* The words of SCAN_LANES blocks. */
SCAN_TARGET static inline words
load_words(const uint64_t *from)
{
    words x;

    memcpy(&x, from, sizeof(x));
    return x;
}

/* Stores the words of SCAN_LANES blocks. */
SCAN_TARGET static inline void
store_words(uint64_t *to, words x)
{
    memcpy(to, &x, sizeof(x));
}

/* The same word in each lane. */
SCAN_TARGET static inline words
all_lanes(uint64_t word)
{
    return (words){0} + word;
}

/* Each lane has what the lane before it has in x; the first, what the last
 * has in before. */
SCAN_TARGET static inline words
next_lane(words before, words x)
{
#if SCAN_LANES == 8
    return __builtin_shufflevector(before, x, 7, 8, 9, 10, 11, 12, 13, 14);
#elif SCAN_LANES == 4
    return __builtin_shufflevector(before, x, 3, 4, 5, 6);
#elif SCAN_LANES == 2
    return __builtin_shufflevector(before, x, 1, 2);
#else
    (void)x;
    return before;
#endif
}

/* The lane of x that belongs to the last of count. */
SCAN_TARGET static inline uint64_t
last_of(words x, unsigned count)
{
    uint64_t lanes[SCAN_LANES];

    CHECK_SLOW(count > 0);
    store_words(lanes, x);
    return lanes[(count - 1) % SCAN_LANES];
}
