/* A reading that goes on from the names that another one told. */
#include <stdlib.h>

#include "node/events/decoder.h"

struct decoder_hand {
    struct buf image;
    struct names_twin names; /* the parts that are not in `block` yet */
    uint64_t count;          /* of names */
    struct names_block *block;
    uint64_t listed; /* blocks that are there */
    uint32_t
        parts; /* of `names` that are still there: memory that is freed from
                        the end on goes back bit by bit */
    struct ledger *ledger;
    struct ledger_adoption *adoption; /* NULL: not yet, or no more */
    bool open;                        /* `stream` is the ledger's */
    bool filled;
    uint32_t stream;
};

struct decoder_hand *
decoder_hand_new(struct names_twin *twin, uint64_t seq, uint64_t fingerprint)
{
    const struct names *table = &twin->table;
    struct decoder_hand *hand = calloc(1, sizeof *hand);

    CHECK(table->missing == 0);
    if (hand != NULL) {
        buf_init(&hand->image, DECODER_BYTES_MAX);
        hand->count = table->count;
        hand->block = malloc(((size_t)table->count + 1) * sizeof *hand->block);
    }
    if (hand == NULL || hand->block == NULL ||
        !decoder_image_of(table->reader, table->reader_count, seq, fingerprint,
                          &hand->image)) {
        names_clear(&twin->table, &twin->room);
        decoder_hand_free(hand);
        return NULL;
    }
    hand->names = *twin;
    hand->parts = NAMES_PARTS;
    names_twin_init(twin);
    return hand;
}

uint64_t
decoder_hand_count(const struct decoder_hand *hand)
{
    return hand->count;
}

void
decoder_hand_free(struct decoder_hand *hand)
{
    if (hand == NULL) {
        return;
    }
    ledger_adopt_end(hand->adoption);
    if (hand->open) {
        ledger_close(hand->ledger, hand->stream);
    }
    names_clear(&hand->names.table, &hand->names.room);
    free(hand->block);
    buf_fini(&hand->image);
    free(hand);
}

/* A closed stream of the ledger is free again only when it was swept. */
static bool
open_stream(struct decoder_hand *hand, struct ledger *ledger)
{
    int rc = ledger_open(ledger, &hand->stream);

    hand->ledger = ledger;
    hand->open = rc == 0;
    return hand->open &&
           ledger_adopt_begin(ledger, hand->stream, hand->block,
                              (size_t)hand->count, &hand->adoption) == 0;
}

bool
decoder_hand_step(struct decoder_hand *hand, struct ledger *ledger,
                  uint32_t budget)
{
    uint64_t listed = hand->listed;

    while (hand->parts > 0 && hand->listed - listed < budget) {
        hand->listed +=
            names_take_part(&hand->names.table, &hand->names.room,
                            --hand->parts, hand->block + hand->listed);
    }
    if (hand->parts > 0 || hand->listed > listed) {
        return true;
    }
    CHECK(hand->listed == hand->count && !hand->filled);
    if (!hand->open && !open_stream(hand, ledger)) {
        return false;
    }
    int rc = ledger_adopt_step(hand->adoption, budget);
    hand->filled = rc == 0;
    return rc == LEDGER_E_MORE;
}

bool
decoder_adopt(struct decoder *decoder, struct decoder_hand *hand)
{
    struct ledger *ledger = decoder->tools->ledger;

    CHECK(!decoder->has_ledger && decoder->stream != NULL);
    /* All of the ledger's streams were in use until now. */
    while (!hand->open && ledger_work(ledger, UINT32_MAX)) {
    }
    while (!hand->open && decoder_hand_step(hand, ledger, UINT32_MAX)) {
    }
    if (!hand->filled) {
        return false;
    }
    hand->open = false; /* it is the decoder's, which closes it if need be */
    return decoder_resume(
        decoder, hand->stream,
        (struct slice){.ptr = hand->image.ptr, .len = hand->image.len});
}
