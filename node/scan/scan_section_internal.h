/*
 * The parts of a body that make up the prompt: found in any order and any
 * number, left in the order in which they are rendered. Private to scan.
 *
 * Each key's spans are written where the walk meets it, the last value of a
 * key voiding those before; at the end they are moved into place. Only when
 * the room did not suffice are they gathered a second time, in order: the
 * spans that are kept must be the first.
 *
 * Role: core. Owns: nothing. Thread: one per struct sections.
 */
#ifndef NODE_SCAN_SECTION_INTERNAL_H
#define NODE_SCAN_SECTION_INTERNAL_H

#include "node/scan/scan_walk_internal.h"

/*
 * In the order in which they are rendered. Of the two names of the system
 * prompt, and of the three of the prompt proper, the first that is present is
 * meant.
 */
enum section_id {
    TOOLS,
    FUNCTIONS,
    SYSTEM,
    INSTRUCTIONS,
    MESSAGES,
    INPUT,
    PROMPT,
    SECTIONS,
};

/* The last value at one of these keys, and its spans. */
struct section {
    bool present; /* of a type that we know */
    uint32_t at;  /* the value's first byte */
    uint32_t end; /* the byte after its last */
    uint32_t first;
    uint32_t count;
    struct prompt prompt;
};

/* What the sections came to. */
struct sections_found {
    struct prompt prompt;
    bool is_input; /* the prompt is that of `input` */
    struct scan_text raw;
    struct scan_text tools; /* raw; unless empty */
};

struct sections {
    struct section of[SECTIONS];
};

/* None is present. */
static inline void
sections_init(struct sections *s)
{
    for (unsigned id = 0; id < SECTIONS; id++) {
        s->of[id].present = false;
    }
}

/* The section of that name; SECTIONS: none. */
enum section_id section_named(struct slice name);

/* Walks the value that begins with t; what the section had before is void. */
void sections_walk(struct sections *s, struct walk *w, enum section_id id,
                   struct token t);

/* The body was good: leaves in w the spans that are meant, in order, and says
 * what they are of. */
struct sections_found sections_finish(struct sections *s, struct walk *w);

#endif
