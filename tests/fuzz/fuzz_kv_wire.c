/*
 * A batch is read as msgpack-c's object trees say, event by event, fault by
 * fault, and so are its extra keys. Limits are low, so that they are met.
 */
#include <stdio.h>

#include "index/index.h"
#include "tests/fuzz/kv_oracle.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void
compare_extras(struct kv_reader *reader, const struct kv_event *event)
{
    uint64_t media;
    uint64_t right_media;
    struct slice salt;
    struct slice right_salt;
    size_t at = 0;
    struct kv_apart apart;
    enum kv_fault fault;
    int told = kv_reader_apart(reader, event, &apart, &fault);
    uint32_t ahead = event->ahead <= SHAPE_AHEAD_MAX ? event->ahead : 0;

    for (size_t block = 0; event->extras.len > 0; block++) {
        bool first = block == 0 && !event->has_parent;
        bool right =
            kv_oracle_extras(event->extras, block, first, event->lora_name,
                             &right_media, &right_salt);
        CHECK(kv_extras_next(event->extras, &at, first, event->lora_name,
                             &media, &salt) == right);
        if (block < event->hashes_count) {
            CHECK(right || told == KV_E_SKIPPED);
        }
        if (!right) {
            return;
        }
        CHECK(media == right_media && slice_equal(salt, right_salt));
        if (told == 0 && block < event->hashes_count) {
            uint64_t extra = media;
            if (ahead > 0) {
                extra = key_ahead(media, event->ahead_tokens + block * ahead,
                                  ahead);
            }
            CHECK((apart.extras != NULL ? apart.extras[block] : 0) == extra);
            CHECK(media == 0 || apart.media);
            CHECK(block > 0 || slice_equal(apart.salt, salt));
        }
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static struct kv_reader *reader;
    static const struct kv_limits limits = {.payload_bytes_max = 3500,
                                            .hashes_max = 100,
                                            .tokens_max = 400,
                                            .depth_max = 10};
    struct slice payload = {(const char *)data, size};
    struct kv_oracle oracle;
    struct kv_event event;
    enum kv_fault fault;
    uint64_t ahead[4];
    const char *why;
    size_t at;
    int rc;

    if (reader == NULL) {
        CHECK(kv_reader_new(&reader, &limits) == 0);
    }
    kv_oracle_begin(&oracle, payload, &limits);
    bool begun = kv_reader_begin(reader, payload) == 0;
    CHECK(begun || oracle.broken);
    do {
        CHECK(kv_reader_ahead(reader, ahead, 4) <= 4);
        rc = kv_reader_next(reader, &event, &fault, &at);
        bool agrees = kv_oracle_agrees(&oracle, rc, &event, fault, &why);
        if (!agrees) {
            (void)fprintf(stderr, "the event at %zu: %s\n", at, why);
        }
        CHECK(agrees);
        if (rc == 0 && event.kind == KV_STORED) {
            compare_extras(reader, &event);
        }
    } while (rc == 0 || rc == KV_E_SKIPPED);
    CHECK(rc != KV_E_END || kv_reader_rank(reader) == oracle.rank);
    return 0;
}
