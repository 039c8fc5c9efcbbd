/* Filling mirror and ledger, partly at the same time. */
#include "storage/beside.h"

#include <pthread.h>

struct ending {
    struct ledger *ledger;
    const struct storage_stream *streams;
    uint32_t count;
    enum storage_outcome outcome;
};

static void *
end_ledger(void *context)
{
    struct ending *e = context;

    CHECK(e->ledger != NULL);
    e->outcome = storage_restore_ledger_end(e->ledger, e->streams, e->count);
    return NULL;
}

struct storage_beside
storage_restore_beside(const struct storage_load *load, struct mirror *mirror,
                       struct ledger *ledger,
                       const struct storage_stream *streams, uint32_t count)
{
    struct ending ending = {
        .ledger = ledger, .streams = streams, .count = count};
    enum storage_outcome rc = STORAGE_OK;
    pthread_t thread;

    CHECK(mirror != NULL);
    if (ledger != NULL) {
        ending.outcome = storage_restore_ledger(load, ledger, streams, count);
    }
    if (ending.outcome != STORAGE_OK) {
        /* The disk may have died of this part, or of the next one, which it was
         * told to expect. The mirror may be readable all the same. */
        rc = storage_load_again(load);
    }
    bool begun = ledger != NULL && ending.outcome == STORAGE_OK;
    bool started =
        begun && pthread_create(&thread, NULL, end_ledger, &ending) == 0;
    if (rc == STORAGE_OK) {
        rc = storage_restore_index(load, mirror, NULL, streams, count);
    }
    if (started) {
        (void)pthread_join(thread, NULL);
    } else if (begun) {
        (void)end_ledger(&ending);
    }
    return (struct storage_beside){.mirror = rc, .ledger = ending.outcome};
}
