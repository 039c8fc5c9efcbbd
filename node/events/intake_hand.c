/*
 * A rank that goes on from names. Filling the ledger with them takes long, so it
 * is done in pieces, a turn each. The rank reads on as before until then.
 */
#include "node/events/intake_internal.h"

#define BUDGET 512U /* blocks in one turn: about half a millisecond */

static void
end(struct intake *intake)
{
    decoder_hand_free(intake->hand);
    intake->hand = NULL;
    intake->hand_rank = NULL;
    counter_bump(&intake->hands_done, 1);
}

void
intake_hand_take(struct intake *intake, struct intake_rank *rank,
                 struct decoder_hand *hand)
{
    CHECK(intake->hand == NULL && hand != NULL);
    intake->hand = hand;
    intake->hand_rank = rank;
    if (rank == NULL) {
        end(intake);
    }
}

void
intake_hand_drop(struct intake_rank *rank)
{
    if (rank->intake->hand_rank == rank) {
        end(rank->intake);
    }
}

/* The new stream is as if it had lost the connection after the last batch. */
static void
go_on(struct intake_rank *rank, struct decoder_hand *hand)
{
    struct kv_stream *stream = NULL;

    if (intake_make_stream(rank, &stream) != 0) {
        return; /* it goes on as it was */
    }
    intake_rank_close(rank);
    rank->connected = false;
    decoder_close(&rank->decoder);
    kv_stream_free(rank->decoder.stream);
    intake_emit_open(rank, rank->decoder.rank);
    rank->decoder.stream = stream;
    if (decoder_adopt(&rank->decoder, hand)) {
        decoder_tell_resume(&rank->decoder);
    }
    intake_rank_open(rank);
}

bool
intake_hand_turn(struct intake *intake)
{
    struct intake_rank *rank = intake->hand_rank;

    if (rank == NULL) {
        return false;
    }
    if (rank->decoder.whole) { /* it has found all that there is */
        end(intake);
        return false;
    }
    if (decoder_hand_step(intake->hand, intake->tools.ledger, BUDGET)) {
        return true;
    }
    go_on(rank, intake->hand);
    end(intake);
    return true;
}
