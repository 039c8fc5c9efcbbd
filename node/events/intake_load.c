/* State that the intake is given before its thread starts. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "node/events/intake_internal.h"

struct ledger *
intake_ledger(const struct intake *intake)
{
    CHECK(!intake->runs);
    return intake->tools.ledger;
}

int
intake_ledger_renew(struct intake *intake)
{
    const struct ledger_limits limits = {.bytes_max = intake->ledger_bytes_max};

    CHECK(!intake->runs && intake->twin == NULL);
    intake_load_drop(intake);
    ledger_free(intake->tools.ledger);
    intake->tools.ledger = NULL;
    return ledger_new(&intake->tools.ledger, &limits);
}

bool
intake_load(struct intake *intake, struct event_stream name,
            uint32_t ledger_stream, struct slice bytes)
{
    CHECK(!intake->runs && bytes.len <= DECODER_BYTES_MAX);
    if (intake->loaded_count == WORKERS_MAX) {
        return false;
    }
    char *copy = malloc(bytes.len + 1);
    if (copy == NULL) {
        return false;
    }
    memcpy(copy, bytes.ptr, bytes.len);
    intake->loaded[intake->loaded_count++] =
        (struct intake_loaded){.name = name,
                               .ledger_stream = ledger_stream,
                               .len = (uint32_t)bytes.len,
                               .bytes = copy};
    return true;
}

void
intake_load_drop(struct intake *intake)
{
    for (uint32_t i = 0; i < intake->loaded_count; i++) {
        free(intake->loaded[i].bytes);
    }
    intake->loaded_count = 0;
}

/* The last one takes its place. */
static void
remove_loaded(struct intake *intake, uint32_t at)
{
    free(intake->loaded[at].bytes);
    intake->loaded[at] = intake->loaded[--intake->loaded_count];
}

void
intake_load_rank(struct intake *intake, struct intake_rank *rank)
{
    for (uint32_t at = 0; at < intake->loaded_count; at++) {
        const struct intake_loaded *loaded = &intake->loaded[at];
        if (loaded->name.worker != rank->decoder.identity ||
            loaded->name.rank != rank->decoder.rank) {
            continue;
        }
        rank->resumes = decoder_resume(
            &rank->decoder, loaded->ledger_stream,
            (struct slice){.ptr = loaded->bytes, .len = loaded->len});
        remove_loaded(intake, at);
        return;
    }
}

bool
intake_forget_loaded(struct intake *intake)
{
    while (intake->loaded_count > 0) {
        uint32_t at = intake->loaded_count - 1;
        struct intake_command forget = {
            .kind = INTAKE_FORGET,
            .ledger_stream = intake->loaded[at].ledger_stream};
        if (intake_send_command(intake, &forget) != 0) {
            return false;
        }
        remove_loaded(intake, at);
    }
    return true;
}

static void
wake_ledger(void *context)
{
    intake_ring_bell(context);
}

int
intake_twin(struct intake *intake, struct storage_twin **out,
            void (*wake)(void *context), void *context)
{
    const struct storage_twin_calls calls = {.wake_ledger = wake_ledger,
                                             .ledger_context = intake,
                                             .wake_control = wake,
                                             .control_context = context};

    CHECK(!intake->runs && intake->twin == NULL);
    if (intake->tools.ledger == NULL) {
        return -ENOMEM; /* as intake_ledger_renew() said */
    }
    intake->twin = storage_twin_new(intake->tools.ledger, &calls);
    *out = intake->twin;
    return intake->twin != NULL ? 0 : -ENOMEM;
}
