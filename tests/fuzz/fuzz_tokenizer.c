/* Any bytes as a tokenizer.json and, behind a NUL, a text: no crash, within the
 * bounds, twice the same ids, and the same ids where the text may be cut. */
#include "node/tokenizer/tokenizer.h"

#include <stdint.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define IDS_MAX 100000

struct encoded {
    struct tokenizer_ids ids;
    int outcome;
};

static struct encoded
encode(struct tokenizer_scratch *scratch, struct slice text, unsigned flags)
{
    struct encoded out = {.ids = {.max = IDS_MAX}};

    out.outcome = tokenizer_encode(scratch, text, flags, &out.ids);
    CHECK(out.ids.count <= IDS_MAX);
    CHECK(out.outcome >= TOKENIZER_OK && out.outcome <= TOKENIZER_E_UNKNOWN);
    return out;
}

static void
same(const struct encoded *a, const struct encoded *b)
{
    CHECK(a->outcome == b->outcome && a->ids.count == b->ids.count);
    CHECK(a->ids.count == 0 ||
          memcmp(a->ids.ptr, b->ids.ptr, a->ids.count * sizeof(uint32_t)) == 0);
}

/* The parts before and after a cut have the ids of the whole. */
static void
cut(const struct tokenizer *t, struct tokenizer_scratch *scratch,
    struct slice text, const struct encoded *whole)
{
    size_t at = tokenizer_cut(t, text, text.len);
    struct encoded part = encode(scratch, (struct slice){text.ptr, at}, 0);

    CHECK(at <= text.len);
    if (part.outcome == TOKENIZER_OK) {
        part.outcome = tokenizer_encode(
            scratch, (struct slice){text.ptr + at, text.len - at},
            at > 0 ? TOKENIZER_CONTINUES : 0, &part.ids);
    }
    if (whole->outcome == TOKENIZER_OK) {
        same(whole, &part);
    }
    tokenizer_ids_fini(&part.ids);
}

static void
use(const struct tokenizer *t, struct tokenizer_scratch *scratch,
    struct slice text)
{
    struct encoded first = encode(scratch, text, 0);
    struct encoded again = encode(scratch, text, 0);
    struct encoded special =
        encode(scratch, text, TOKENIZER_SPECIAL | TOKENIZER_TRUNCATE);
    struct buf out;

    same(&first, &again);
    cut(t, scratch, text, &first);
    buf_init(&out, (size_t)1 << 20);
    if (!tokenizer_decode(t, special.ids.ptr, special.ids.count, true, &out)) {
        CHECK(out.len <= (size_t)1 << 20);
    }
    buf_fini(&out);
    tokenizer_ids_fini(&first.ids);
    tokenizer_ids_fini(&again.ids);
    tokenizer_ids_fini(&special.ids);
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {(const char *)data, size};
    struct slice json = slice_take(&text, '\0');
    char why[TOKENIZER_WHY_MAX] = "";
    struct tokenizer *t = tokenizer_new(json, why);

    if (t == NULL) {
        CHECK(why[0] != '\0' && memchr(why, '\0', sizeof why) != NULL);
        return 0;
    }
    struct tokenizer_scratch *scratch = tokenizer_scratch_new(t);
    if (scratch != NULL) {
        use(t, scratch, text);
    }
    tokenizer_scratch_free(scratch);
    tokenizer_free(t);
    return 0;
}
