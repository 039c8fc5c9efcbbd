/* A ring of the last requests, for /admin/decisions. */
#include "node/control/decisions.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int
decisions_init(struct decisions *d, uint32_t size)
{
    *d = (struct decisions){.size = size};
    if (size == 0) {
        return 0;
    }
    d->record = calloc(size, sizeof(*d->record));
    d->worker = calloc(size, sizeof(*d->worker));
    if (d->record == NULL || d->worker == NULL) {
        decisions_fini(d);
        return -ENOMEM;
    }
    return 0;
}

void
decisions_fini(struct decisions *d)
{
    free(d->record);
    free(d->worker);
    *d = (struct decisions){.size = 0};
}

void
decisions_add(struct decisions *d, const struct fact_decision *fact,
              const char *worker, const char *island)
{
    if (d->size == 0) {
        return;
    }
    CHECK(d->next < d->size && d->count <= d->size);
    CHECK(worker != NULL && island != NULL);
    d->record[d->next] = *fact;
    (void)strncpy(d->worker[d->next].id, worker, FACT_ID_MAX - 1);
    (void)strncpy(d->worker[d->next].island, island, FACT_ID_MAX - 1);
    d->next = (d->next + 1) % d->size;
    d->count += d->count < d->size;
}

const struct fact_decision *
decisions_get(const struct decisions *d, uint32_t i,
              const struct decisions_worker **worker)
{
    CHECK(i < d->count && d->count <= d->size);
    CHECK(d->next < d->size);
    uint32_t at = (d->next + d->size - 1 - i) % d->size;

    *worker = &d->worker[at];
    return &d->record[at];
}
