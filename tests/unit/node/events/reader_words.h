/* What a decoder tells of itself with the names of blocks. */
#ifndef TESTS_UNIT_NODE_EVENTS_READER_WORDS_H
#define TESTS_UNIT_NODE_EVENTS_READER_WORDS_H

#include <criterion/criterion.h>

#include "node/events/decoder.h"

/* The words of who read batches 0 to 9 of a process, NAMES_READER_MAX at most.
 * Returns how many. */
static inline uint32_t
reader_words(uint64_t process, uint64_t *words)
{
    const struct kv_stream_config config = {.has_replay = true,
                                            .replay_timeout_ms = 1000,
                                            .replay_rounds = 5,
                                            .probe_interval_ms = 1000,
                                            .retry_ms = 100,
                                            .pending_bytes_max = 1 << 20};
    const struct kv_stream_image was = {.process = process,
                                        .next_seq = 10,
                                        .complete = true,
                                        .fingerprints_count = 1};
    struct kv_counters counters = {.batches = {0}};
    struct decoder reading = {.whole = true, .process = process};

    cr_assert_eq(kv_stream_new(&reading.stream, &config, &counters, 1, 1), 0);
    cr_assert(kv_stream_resume(reading.stream, &was));
    uint32_t count = decoder_reader(&reading, words);
    cr_assert_gt(count, 0);
    kv_stream_free(reading.stream);
    return count;
}

#endif
