/* From an engine's bytes to what look-ups find. */
#include "tests/bench/hearer.h"

#define BYTES_MAX  ((size_t)8 << 30)
#define VOCABULARY 128256

void
hearer_open(struct hearer *h)
{
    struct ledger_limits ledger_limits = {.bytes_max = BYTES_MAX};
    struct mirror_limits mirror_limits = {.bytes_max = BYTES_MAX};
    struct kv_limits kv_limits = KV_LIMITS_DEFAULT;

    qsbr_init(&h->qsbr);
    CHECK(ledger_new(&h->ledger, &ledger_limits) == 0);
    CHECK(mirror_new(&h->mirror, &mirror_limits, &h->qsbr) == 0);
    CHECK(kv_reader_new(&h->reader, &kv_limits) == 0);
    h->counters = (struct kv_counters){0};
    for (uint32_t i = 0; i < HEARER_STREAMS; i++) {
        CHECK(ledger_open(h->ledger, &h->stream[i]) == 0);
        CHECK(mirror_open(h->mirror, &h->slot[i]) == 0);
        h->apply[i] = (struct kv_apply){.rank = -1};
    }
}

void
hearer_close(struct hearer *h)
{
    kv_reader_free(h->reader);
    mirror_free(h->mirror);
    ledger_free(h->ledger);
    qsbr_fini(&h->qsbr);
}

void
hearer_take(struct hearer *h, uint32_t who, struct slice batch)
{
    struct event_words out = {.words = h->words, .max = HEARER_WORDS_MAX};
    uint32_t stream = h->stream[who];

    CHECK(kv_reader_begin(h->reader, batch) == 0);
    CHECK(kv_apply(&h->apply[who], h->reader, h->ledger, stream, &h->counters,
                   &out) == 0);
    CHECK(mirror_apply(h->mirror, h->slot[who], out.words, out.count,
                       ledger_holes(h->ledger, stream)) == 0);
}

void
hearer_work(struct hearer *h)
{
    (void)mirror_work(h->mirror, 64);
    (void)ledger_work(h->ledger, 64);
}

void
hearer_tokens(uint64_t name, uint32_t tokens[HEARER_TOKENS])
{
    for (uint32_t i = 0; i < HEARER_TOKENS; i++) {
        name = name * 0x9E3779B97F4A7C15U + 1;
        tokens[i] = (uint32_t)(name >> 40) % VOCABULARY;
    }
}
