/*
 * One writer swaps an object and retires the old one, readers look at
 * whatever is published: under ASan a use after free, under TSan a race, would
 * end the program.
 */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"

#define READERS 3
#define SWAPS   20000

struct object {
    struct qsbr_node node;
    uint64_t value;
    uint64_t again;
};

static struct qsbr q;
static _Atomic(struct object *) shared;
static _Atomic int stop;

static void
object_free(struct qsbr_node *node)
{
    struct object *o = (struct object *)(void *)node;
    o->value = 0;
    free(o);
}

static struct object *
object_new(uint64_t value)
{
    struct object *o = malloc(sizeof(*o));
    CHECK(o != NULL);
    o->value = value;
    o->again = ~value;
    return o;
}

static void *
reader(void *arg)
{
    struct qsbr_reader *me = qsbr_register(&q);
    uint64_t newest = 0;

    (void)arg;
    while (!atomic_load(&stop)) {
        qsbr_online(&q, me);
        for (int i = 0; i < 50; i++) {
            struct object *o =
                atomic_load_explicit(&shared, memory_order_acquire);
            CHECK(o->again == ~o->value);
            CHECK(o->value >= newest);
            newest = o->value;
        }
        qsbr_offline(me);
    }
    return NULL;
}

int
main(void)
{
    pthread_t threads[READERS];

    qsbr_init(&q);
    atomic_store(&shared, object_new(1));
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_create(&threads[i], NULL, reader, NULL) == 0);
    }
    for (uint64_t value = 2; value < SWAPS; value++) {
        struct object *old = atomic_exchange_explicit(
            &shared, object_new(value), memory_order_acq_rel);
        qsbr_retire(&q, &old->node, object_free);
        (void)qsbr_reclaim(&q);
    }
    atomic_store(&stop, 1);
    for (int i = 0; i < READERS; i++) {
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    qsbr_fini(&q);
    free(atomic_load(&shared));
    printf("stress_qsbr: %d swaps\n", SWAPS);
    return 0;
}
