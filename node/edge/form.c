/*
 * Forms that go to a worker while they come. Files of sound and images are
 * large, and all that routing needs of them is the field `model`: as soon as
 * that has come, a worker is elected, and gets the rest as the client sends it.
 *
 * FORM_HELD_MAX of a form is held at most, from its beginning: until more than
 * that has come, another worker can be asked as with any request. Then what the
 * worker has taken makes room for what comes, and nobody else can be asked. A
 * worker that takes nothing stops the client, whose time does not run then.
 *
 * Forms that name their model behind their file come whole before they go, as
 * nobody knows where to; and so do those in chunks, whose length no head can
 * tell, those whose name stands for models and is replaced, and those of tenants
 * that may use some models only: that no second field names another model shows
 * at the end (scan_form.h).
 */
#include "node/edge/client_internal.h"
#include "node/scan/scan_form.h"

#define FORM_HELD_MAX ((size_t)1 << 20) /* a power of two, as buffers are */

/* The beginning */

static bool
is_form(const struct http_head *head)
{
    struct slice kind = SLICE("multipart/form-data");
    const struct http_header *type =
        http_head_find(head, HTTP_FIELD_CONTENT_TYPE);

    return type != NULL && type->value.len > kind.len &&
           slice_equal_nocase((struct slice){type->value.ptr, kind.len}, kind);
}

bool
form_may_go(const struct http_head *head)
{
    return head->method_id == HTTP_POST && head->body == HTTP_BODY_LENGTH &&
           is_form(head);
}

/* Whether any model is its tenant's. */
static bool ON_LANE
is_free(struct client *client)
{
    struct lane *lane = client->lane;

    qsbr_online(&lane->node->qsbr, lane->shared->reader);
    bool allowed =
        admit_allows(client, publish_get(&lane->node->keys), SLICE(""));
    qsbr_offline(lane->shared->reader);
    return allowed;
}

bool
form_goes(struct client *client)
{
    struct client_framing *f = &client->framing;
    size_t came = client->in_len - f->head_bytes;

    /* It is looked at when it fills its buffer, each of which is twice as large
     * as the one before: so all looks together cost two. */
    if (!f->form || client->in_len < client->in_size || came >= f->body_bytes) {
        return false;
    }
    struct slice model =
        scan_form_model((struct slice){client->in + f->head_bytes, came});
    if (model.len == 0) {
        return false;
    }
    if (naming_stands(client->lane, model) || !is_free(client)) {
        f->form = false;
        return false;
    }
    f->missing = f->body_bytes - came;
    f->since_us = f->since_us != 0 ? f->since_us : lane_now_us(client->lane);
    client->request_bytes = client->in_len;
    counter_bump(&client->lane->shared->metrics.forms_ahead, 1);
    return true;
}

/* Its rest */

/* Forgets what the worker has. */
static void
drop_taken(struct exchange *x, size_t taken)
{
    struct client *client = x->client;
    char *body = client->in + client->framing.head_bytes;

    CHECK(taken <= x->body.len);
    x->body.len -= taken;
    memmove(body, body + taken, x->body.len);
    client->in_len -= taken;
    client->request_bytes = client->in_len;
    client->framing.dropped += taken;
    x->dispatch.spent = true;
}

static void ON_LANE
make_room(struct exchange *x, size_t taken)
{
    struct client *client = x->client;

    if (client->in_len < client->in_size) {
        return;
    }
    if (client->in_size < FORM_HELD_MAX &&
        client_grow_in(client, 2 * client->in_size)) {
        x->body.ptr = client->in + client->framing.head_bytes;
        x->read = false; /* what the scratch names has moved */
    } else if (taken != 0) {
        drop_taken(x, taken);
    }
}

/* The client's time runs while more of its form can be read. */
static void ON_LANE
keep_time(struct client *client, bool reads)
{
    struct client_framing *f = &client->framing;
    uint64_t now_us = lane_now_us(client->lane);

    if (reads) {
        f->since_us += f->stopped_us != 0 ? now_us - f->stopped_us : 0;
        f->stopped_us = 0;
        lane_time(client->lane, &client->deadline, LANE_TIMEOUT_BODY);
    } else {
        f->stopped_us = f->stopped_us != 0 ? f->stopped_us : now_us;
        deadline_clear(&client->deadline);
    }
}

void
form_taken(struct exchange *x, size_t taken)
{
    struct client *client = x->client;

    if (client->framing.missing != 0) {
        make_room(x, taken);
        keep_time(client, client->in_len < client->in_size);
        client_update_interest(client);
    }
}

void
form_begin(struct client *client)
{
    if (client->exchange != NULL) {
        form_taken(client->exchange, 0);
    }
}

void
form_read(struct client *client)
{
    struct exchange *x = client->exchange;
    struct client_framing *f = &client->framing;
    size_t room = client->in_size - client->in_len;

    CHECK(x != NULL && f->missing != 0 && client->state == CLIENT_BUSY);
    room = room < f->missing ? room : f->missing;
    ssize_t n =
        room != 0 ? sock_recv(&client->sock, client->in + client->in_len, room)
                  : -ECONNRESET; /* not reading, so it is the end */
    if (n == -EAGAIN) {
        return;
    }
    if (n <= 0) {
        client_close(client, false);
        return;
    }
    client->in_len += (size_t)n;
    client->request_bytes = client->in_len;
    x->body.len += (size_t)n;
    f->missing -= (size_t)n;
    counter_bump(&client->lane->shared->metrics.bytes_in, (uint64_t)n);
    x->dispatch.bytes += (uint64_t)n;
    if (f->missing != 0 && client_is_slow(client, f->dropped + x->body.len)) {
        client_refuse_slow(client);
        return;
    }
    if (f->missing == 0) {
        deadline_clear(&client->deadline);
        client_update_interest(client);
    }
    upstream_more(x); /* ends in form_taken() */
}

void
form_cut(struct client *client)
{
    if (client->framing.missing != 0) {
        client->framing.missing = 0;
        client->close_after = true;
        client->drop = true;
        deadline_clear(&client->deadline);
    }
}
