/* A reading that goes on from the names that another one told. */
#include <stdlib.h>
#include <string.h>

#include "node/events/decoder.h"

struct decoder_hand *
decoder_hand_new(const struct names *table, uint64_t seq, uint64_t fingerprint)
{
    struct decoder_hand *hand = NULL;
    struct buf image;
    uint64_t next = 0;

    buf_init(&image, DECODER_BYTES_MAX);
    if (table->count < UINT32_MAX &&
        decoder_image_of(table->reader, table->reader_count, seq, fingerprint,
                         &image)) {
        size_t bytes = ((size_t)table->count + 1) * sizeof hand->block[0];
        hand = malloc(sizeof *hand + bytes + image.len);
        if (hand != NULL) {
            char *copy = (char *)hand + sizeof *hand + bytes;
            memcpy(copy, image.ptr, image.len);
            hand->image = (struct slice){.ptr = copy, .len = image.len};
            hand->count = names_page(table, 0, hand->block,
                                     (uint32_t)table->count + 1, &next);
        }
        if (hand != NULL && hand->count != table->count) {
            free(hand); /* a page found no memory */
            hand = NULL;
        }
    }
    buf_fini(&image);
    return hand;
}

void
decoder_hand_free(struct decoder_hand *hand)
{
    free(hand);
}

bool
decoder_adopt(struct decoder *decoder, const struct decoder_hand *hand)
{
    struct ledger *ledger = decoder->tools->ledger;
    uint32_t stream;

    CHECK(!decoder->has_ledger && decoder->stream != NULL);
    int outcome = ledger_open(ledger, &stream);
    while (outcome == LEDGER_E_FULL && ledger_work(ledger, UINT32_MAX)) {
        outcome = ledger_open(ledger, &stream);
    }
    if (outcome != 0) {
        return false;
    }
    if (ledger_adopt(ledger, stream, hand->block, hand->count) != 0) {
        ledger_close(ledger, stream);
        return false;
    }
    return decoder_resume(decoder, stream, hand->image);
}
