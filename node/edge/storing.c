/*
 * Requests about what a worker stores (stored.h): they go to the worker that has
 * it, and what an answer says was made is known to be at its worker.
 */
#include "node/edge/answer_internal.h"

bool
storing_begin(struct exchange *x, const struct http_head *head)
{
    if (!stored_is_path(head->path)) {
        return true;
    }
    struct slice id = stored_path_id(head->path);
    if (id.len == 0 && x->dispatch.routed) {
        id = stored_body_id(&x->client->lane->route.scan, x->body);
    }
    x->stored = id.len != 0 ? stored_key(x->tenant, id) : 0;
    x->storing = exchange_part(x, sizeof(*x->storing));
    return x->storing != NULL;
}

void
storing_pass(struct exchange *x, struct slice bytes)
{
    struct slice id;

    if (x->dispatch.status >= 300 || x->storing->len == STORED_WATCH_BYTES) {
        return;
    }
    if (x->storing->len == 0 && x->stored != 0) {
        dispatch_stores(&x->dispatch, x->stored); /* it was there */
    }
    stored_watch_give(x->storing, bytes);
    while ((id = stored_watch_next(x->storing)).len != 0) {
        dispatch_stores(&x->dispatch, stored_key(x->tenant, id));
    }
}
