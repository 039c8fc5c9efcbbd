/*
 * Where this node's tokens of a prompt and an engine's differ first. After a way
 * of a model was switched off, the next prompt of that way that an engine is
 * asked about is made here, too, and the log shows both.
 */
#include <stdlib.h>

#include "node/edge/inquiry_internal.h"
#include "node/local/local_differ.h"
#include "node/local/local_tokens.h"

#define AROUND 8U /* ids shown on either side */

/* What this node made of the prompt that an engine is asked about. */
struct inquiry_ours {
    struct local_model *model; /* held */
    enum local_way way;
    uint32_t count;
    uint32_t ids[];
};

void
inquiry_differ_begin(struct exchange *x, const struct inquiry_source *source)
{
    struct lane *lane = x->client->lane;
    struct local_answer *answer = &lane->local_answer;
    struct local_patience patience = LOCAL_AT_ONCE;
    struct local_question question;
    struct inquiry_ours *ours;

    if (x->inquiry == NULL ||
        !local_model_owes_difference(source->model, answer->way) ||
        !inquiry_make_question(x, source, &question)) {
        return;
    }
    question.distrusted = true;
    if (local_tokens(&question, &patience, NULL, answer) != 0) {
        return; /* the next one, then */
    }
    ours = malloc(sizeof *ours + answer->ids.count * sizeof ours->ids[0]);
    if (ours == NULL) {
        return;
    }
    *ours = (struct inquiry_ours){.model = source->model,
                                  .way = answer->way,
                                  .count = (uint32_t)answer->ids.count};
    if (ours->count != 0) {
        memcpy(ours->ids, answer->ids.ptr, ours->count * sizeof ours->ids[0]);
    }
    local_model_hold(ours->model);
    x->inquiry->ours = ours;
}

/* Both around the first difference. */
static void
show(const struct inquiry_ours *ours, const struct token_answer *theirs,
     uint32_t at)
{
    uint32_t from = at > AROUND ? at - AROUND : 0;
    uint32_t our_end = at + AROUND < ours->count ? at + AROUND : ours->count;
    uint32_t their_end =
        at + AROUND < theirs->count ? at + AROUND : theirs->count;

    local_differ_log(ours->model, ours->way, at, from, ours->ids + from,
                     our_end - from, theirs->tokens + from, their_end - from);
}

void
inquiry_differ_end(struct inquiry *inquiry, const struct token_answer *theirs)
{
    struct inquiry_ours *ours = inquiry->ours;
    struct lane *lane = inquiry->lane;
    uint32_t at = 0;

    if (ours == NULL) {
        return;
    }
    inquiry->ours = NULL;
    if (theirs != NULL && theirs->outcome == TOKEN_OK) {
        while (at < ours->count && at < theirs->count &&
               ours->ids[at] == theirs->tokens[at]) {
            at++;
        }
        bool alike = at == ours->count && at == theirs->count;
        if (!alike && local_model_pay_difference(ours->model, ours->way)) {
            show(ours, theirs, at);
        }
    }
    qsbr_online(&lane->node->qsbr, lane->shared->reader);
    local_model_leave(ours->model);
    qsbr_offline(lane->shared->reader);
    free(ours);
}
