/*
 * What a kernel of the scanner says of 64 bytes: bit i speaks of byte i.
 * Private to scan; scan_window_internal.h uses them. Split by when they are
 * needed, so that plain text costs two masks and no more.
 *
 * Role: core. Owns: nothing, plain values.
 */
#ifndef NODE_SCAN_MASKS_INTERNAL_H
#define NODE_SCAN_MASKS_INTERNAL_H

#include <stdint.h>

/* Of every block. */
struct text_masks {
    uint64_t quote;
    uint64_t slash; /* \ */
};

/* Of blocks in which a backslash escapes something. */
struct escape_masks {
    uint64_t letter; /* " \ / b f n r t: all that may follow one but u */
    uint64_t u;
    uint64_t hex; /* 0-9 A-F a-f */
};

/*
 * Of blocks that have something outside strings: of the bytes { } [ ] , : and
 * no others, the bits that tell them apart. A kernel may take control
 * characters for any of these: they are refused elsewhere.
 */
struct frame_masks {
    uint64_t bit_2; /* } ] , */
    uint64_t bit_5; /* { } , : */
    uint64_t bit_6; /* { } [ ] */
    uint64_t space; /* space, \t, \n, \r */
};

/* Of blocks that have scalars. */
struct digit_masks {
    uint64_t digit; /* 0-9 */
    uint64_t zero;
};

/* Of blocks that have bytes above 7F. */
struct utf8_masks {
    uint64_t continuation; /* 80..BF */
    uint64_t from_c0;      /* lead bytes of two or more */
    uint64_t from_e0;      /* ... three or more */
    uint64_t from_f0;      /* ... four */
    uint64_t special; /* C0, C1, E0, ED, F0, F4 and above: the rare ones that
                         leave less than 80..BF to the next byte, or that never
                         occur */
};

/* Of blocks that have special ones among them. */
struct special_masks {
    uint64_t from_90; /* 90 and above; the like below */
    uint64_t from_a0;
    uint64_t e0;
    uint64_t ed;
    uint64_t f0;
    uint64_t f4;
};

#endif
