/*
 * What a batch of KV events must be read as, worked out from the object trees
 * of msgpack-c by the rules of node/events/kv_wire_internal.h: slowly, a value at a time.
 *
 * msgpack-c allocates whatever a count claims, so no byte reaches it before a
 * walk of our own has found the value whole. Thread: one.
 */
#ifndef TESTS_FUZZ_KV_ORACLE_H
#define TESTS_FUZZ_KV_ORACLE_H

#include "node/events/kv_wire_internal.h"

struct kv_oracle {
    struct kv_limits limits;
    const uint8_t *end;
    const uint8_t *at;
    uint64_t left; /* events */
    bool broken;   /* there is no batch, or no more of it */
    bool tail_ok;  /* of a map: it is whole */
    bool is_map;
    uint64_t tail; /* of an array: elements behind the events */
    int64_t rank;
};

void kv_oracle_begin(struct kv_oracle *oracle, struct slice payload,
                     const struct kv_limits *limits);

/*
 * Whether an outcome of kv_reader_next() is the right one; else *why says what
 * is wrong with it. In step with the reader, call by call.
 */
bool kv_oracle_agrees(struct kv_oracle *oracle, int outcome,
                      const struct kv_event *event, enum kv_fault fault,
                      const char **why);

/* One block of extras, as kv_extras_next() tells it. */
bool kv_oracle_extras(struct slice extras, size_t block, bool first,
                      struct slice lora_name, uint64_t *media,
                      struct slice *salt);

#endif
