/*
 * A request's tokens, made by this node from the model's own files: at once
 * where that is sure to be short (LOCAL_AT_ONCE), else on a thread of libuv's
 * pool. Lanes wait for no lock on the way; what a thread would have to be waited
 * for is passed by.
 */
#include <stdlib.h>

#include "node/base/log.h"
#include "node/edge/inquiry_internal.h"
#include "node/local/local_table.h"
#include "node/local/local_tokens.h"
#include "node/route/route_local.h"

struct inquiry_job {
    uv_work_t work;
    struct inquiry *inquiry;
    struct local_turns *turns;
    struct local_question question;
    struct local_answer answer;
    int outcome;
    struct quota_bucket *owner; /* of the copy, which the question borrows */
    char *body;
    size_t body_size;
};

/* Whose files */

void
inquiry_find_source(struct exchange *x, const struct route_world *world,
                    uint64_t root, struct inquiry_source *source)
{
    struct lane *lane = x->client->lane;
    struct route_scratch *route = &lane->route;
    const struct local_table *table = publish_get(&lane->node->local);

    *source = (struct inquiry_source){.name_root = root};
    source->model =
        route_local_find(route, world->view, table, x->body, &source->kind);
    if (source->model != NULL) {
        uint64_t version = local_model_version(source->model);
        source->name_root = key_next(root, &version, sizeof version);
    }
}

/* Asking */

bool
inquiry_make_question(struct exchange *x, const struct inquiry_source *source,
                      struct local_question *question)
{
    struct lane *lane = x->client->lane;
    const struct conversation *named = &lane->route.conversation;

    *question = (struct local_question){
        .model = source->model,
        .kind = source->kind,
        .body = x->body,
        .clock = route_local_clock(),
        .place = lane->number,
        .names = named->keys,
        .names_count = named->count,
    };
    return local_question_read(question, &lane->route.scan);
}

static void
count(struct lane *lane, struct local_model *model, int outcome,
      uint64_t since_us)
{
    struct metrics_lane *m = &lane->shared->metrics;
    struct local_counts *counts = local_model_counts(model);
    uint64_t us = lane_clock_us() - since_us;

    histogram_add(&m->tokens_made, us);
    counter_add(&counts->busy_us, us);
    if (outcome == 0) {
        counter_add(&counts->answered, 1);
        counter_bump(&m->tokens_local, 1);
    } else {
        counter_add(&counts->refused, 1);
        counter_bump(&m->tokens_local_refused, 1);
    }
}

/* What the request goes by, for inquiry_judge() and inquiry_ended(). What an
 * engine counts of several prompts is of all of them. */
static void ON_LANE
note(struct exchange *x, const struct local_question *question, uint64_t root,
     const struct local_answer *answer)
{
    const struct local_model *model = question->model;
    struct node_shared *node = x->client->lane->node;

    x->local_version = local_model_version(model);
    x->local_way = answer->way;
    x->local_tokens = question->several ? 0 : (uint32_t)answer->ids.count;
    if (x->sample == 0 && !question->several &&
        x->dialect.api != DIALECT_COUNT && /* none is sent */
        local_model_wants_sample(model, answer->way)) {
        x->sample = local_samples_begin(node->local_samples, x->local_version,
                                        answer->way, root, answer->ids.ptr,
                                        answer->ids.count);
    }
}

static struct token_answer
answer_of(const struct local_answer *answer, int outcome)
{
    return (struct token_answer){
        .outcome = outcome == 0 ? TOKEN_OK : TOKEN_REFUSED,
        .tokens = answer->ids.ptr,
        .count = (uint32_t)answer->ids.count,
    };
}

/* Threads */

static void
on_work(uv_work_t *work)
{
    struct inquiry_job *job = work->data;
    struct local_patience patience = LOCAL_PATIENT;

    job->outcome =
        local_tokens(&job->question, &patience, job->turns, &job->answer);
}

static void ON_LANE
leave_model(struct lane *lane, struct local_model *model)
{
    /* Online, so that whoever frees it later sees all that was done here. */
    qsbr_online(&lane->node->qsbr, lane->shared->reader);
    local_model_leave(model);
    qsbr_offline(lane->shared->reader);
}

static void ON_LANE
free_job(struct lane *lane, struct inquiry_job *job)
{
    lane_memory_give(&lane->memory, job->owner, job->body, job->body_size);
    tokenizer_ids_fini(&job->answer.ids);
    free(job);
}

static void
on_worked(uv_work_t *work, int status)
{
    struct inquiry_job *job = work->data;
    struct inquiry *inquiry = job->inquiry;
    struct lane *lane = inquiry->lane;

    role_is_lane();
    lane->local_open--;
    if (status == 0 && job->outcome == 0) {
        struct token_answer answer = answer_of(&job->answer, 0);
        count(lane, job->question.model, 0, inquiry->asked_us);
        if (inquiry->x != NULL) {
            note(inquiry->x, &job->question, inquiry->root, &job->answer);
        }
        leave_model(lane, job->question.model);
        inquiry_answer(inquiry, &answer);
    } else if (status == 0) {
        struct token_answer answer = answer_of(&job->answer, job->outcome);
        count(lane, job->question.model, job->outcome, inquiry->asked_us);
        leave_model(lane, job->question.model);
        inquiry_answer(inquiry, &answer);
    } else {
        CHECK(inquiry->x == NULL); /* it was cancelled for that */
        leave_model(lane, job->question.model);
        inquiry_drop(inquiry);
    }
    free_job(lane, job);
}

void
inquiry_cancel_job(struct inquiry_job *job)
{
    (void)uv_cancel((uv_req_t *)&job->work);
}

/* The question with its own copies, charged to the client: his request may have
 * ended long before a thread comes to it. NULL: no room, or no memory. */
static struct inquiry_job *ON_LANE
make_job(struct client *client, const struct local_question *question)
{
    struct lane *lane = client->lane;
    struct inquiry_job *job = malloc(sizeof *job);

    if (job == NULL) {
        return NULL;
    }
    *job = (struct inquiry_job){.turns = lane->node->local_turns,
                                .question = *question,
                                .answer.ids.max = LOCAL_IDS_MAX,
                                .owner = client->quota};
    job->body = lane_memory_take(&lane->memory, job->owner, question->body.len,
                                 &job->body_size);
    if (job->body == NULL) {
        free(job);
        return NULL;
    }
    memcpy(job->body, question->body.ptr, question->body.len);
    job->question.body.ptr = job->body;
    if (question->prompt.ptr != NULL) {
        job->question.prompt.ptr =
            job->body + (question->prompt.ptr - question->body.ptr);
    }
    job->work.data = job;
    return job;
}

/* Hands the question to a thread. */
static enum inquiry_local_outcome ON_LANE
queue(struct exchange *x, const struct route_world *world, uint64_t root,
      const struct local_question *question)
{
    struct lane *lane = x->client->lane;
    struct inquiry *inquiry;
    struct inquiry_job *job;

    job = lane->local_open < lane->node->config->tokens.open_max
              ? make_job(x->client, question)
              : NULL;
    if (job == NULL) {
        counter_bump(&lane->shared->metrics.tokens_local_busy, 1);
        return INQUIRY_FULL;
    }
    inquiry = inquiry_new(lane, world, root);
    if (inquiry == NULL) {
        free_job(lane, job);
        return INQUIRY_FULL;
    }
    job->inquiry = inquiry;
    job->question.names = inquiry->conversation.keys;
    inquiry->job = job;
    if (uv_queue_work(&lane->loop, &job->work, on_work, on_worked) != 0) {
        free(inquiry);
        free_job(lane, job);
        return INQUIRY_FULL;
    }
    lane->local_open++;
    local_model_hold(question->model);
    inquiry_enter(inquiry);
    inquiry->x = x;
    x->inquiry = inquiry;
    return INQUIRY_WAITS;
}

/* Compared with what engines store */

void
inquiry_sent(const struct exchange *x)
{
    const struct route_choice *choice = &x->dispatch.choice;
    struct node_shared *node = x->client->lane->node;

    if (x->sample != 0) {
        local_samples_sent(node->local_samples, x->sample, choice->lease.slot,
                           choice->lease.generation,
                           choice->exact ? choice->best.tokens : 0);
    }
}

void
inquiry_ended(struct exchange *x, const struct usage *usage)
{
    struct node_shared *node = x->client->lane->node;

    if (x->sample != 0) {
        local_samples_end(
            node->local_samples, x->sample,
            usage != NULL && usage->prompt_tokens == x->local_tokens,
            usage != NULL && usage->cached_known && !x->dispatch.several
                ? (uint32_t)usage->cached_tokens
                : 0);
        x->sample = 0;
    }
}

enum inquiry_local_outcome
inquiry_local(struct exchange *x, const struct route_world *world,
              const struct inquiry_source *source, uint64_t root)
{
    struct lane *lane = x->client->lane;
    struct local_answer *answer = &lane->local_answer;
    struct local_patience patience = LOCAL_AT_ONCE;
    struct local_question question;
    uint64_t since_us = lane_clock_us();
    uint32_t grains[MIRROR_GROUPS_MAX];

    if (!inquiry_make_question(x, source, &question)) {
        return INQUIRY_REFUSED;
    }
    answer->ids.max = LOCAL_IDS_MAX;
    int outcome =
        local_tokens(&question, &patience, lane->node->local_turns, answer);
    if (outcome == LOCAL_E_LATER) {
        return queue(x, world, root, &question);
    }
    count(lane, source->model, outcome, since_us);
    if (outcome != 0) {
        return INQUIRY_REFUSED;
    }
    note(x, &question, root, answer);
    struct token_text prompt = {answer->ids.ptr, (uint32_t)answer->ids.count,
                                NULL};
    token_cache_add(lane->node->token_cache, &lane->route.conversation, root,
                    &prompt, grains,
                    inquiry_grains(world->tokens.view, grains));
    return INQUIRY_DONE;
}
