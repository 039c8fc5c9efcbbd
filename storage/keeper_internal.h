/*
 * The questions of a node to its keeper, and the answers.
 *
 * Role: core, private to the keeper's two files. Both sides are one program on
 * one machine, so numbers have the machine's byte order. Owns: nothing.
 */
#ifndef STORAGE_KEEPER_INTERNAL_H
#define STORAGE_KEEPER_INTERNAL_H

#include <stdint.h>

enum keeper_op {
    KEEPER_CREATE, /* bytes: the name */
    KEEPER_OPEN,   /* bytes: the name */
    KEEPER_CLOSE,
    KEEPER_BEGIN,
    KEEPER_PUT, /* bytes: the value */
    KEEPER_DROP,
    KEEPER_COMMIT,
    KEEPER_ABORT,
    KEEPER_GET,
};

struct keeper_question { /* followed by len bytes */
    uint32_t op;
    uint32_t zero;
    uint64_t key;
    uint64_t len;
};

struct keeper_answer { /* followed by len bytes: a GET's value */
    uint32_t outcome;
    uint32_t zero;
    uint64_t size; /* of the file that is open */
    uint64_t len;
};

#endif
