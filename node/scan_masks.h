/*
 * What a kernel of the scanner says of 64 bytes: bit i speaks of byte i.
 * Private to scan; scan_advance.h uses them. Split by when they are needed, so
 * that plain text costs four masks and no more.
 *
 * Role: core. Owns: nothing, plain values.
 */
#ifndef NODE_SCAN_MASKS_H
#define NODE_SCAN_MASKS_H

#include <stdint.h>

/* Of every block. */
struct text_masks {
    uint64_t quote;
    uint64_t slash;   /* \ */
    uint64_t control; /* below 20 */
    uint64_t high;    /* 80 and above */
};

/* Of blocks that have something outside strings. */
struct frame_masks {
    uint64_t open;  /* { [ */
    uint64_t close; /* } ] */
    uint64_t brace; /* { } among the two above; anything elsewhere */
    uint64_t comma;
    uint64_t colon;
    uint64_t space; /* space, \t, \n, \r */
};

/* Of blocks that have a backslash. */
struct escape_masks {
    uint64_t allowed; /* " \ / b f n r t u */
    uint64_t u;
};

/* Of blocks that have scalars. */
struct digit_masks {
    uint64_t digit; /* 0-9 */
    uint64_t zero;
};

/* Of blocks that have bytes above 7F. */
struct utf8_masks {
    uint64_t continuation; /* 80..BF */
    uint64_t from_90;      /* 90 and above, as the others */
    uint64_t from_a0;
    uint64_t from_c0; /* lead bytes of two or more */
    uint64_t from_e0; /* ... three or more */
    uint64_t from_f0; /* ... four */
    uint64_t never;   /* C0, C1, F5 and above */
    uint64_t e0;
    uint64_t ed;
    uint64_t f0;
    uint64_t f4;
};

#endif
