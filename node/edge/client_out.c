/* Sends to a client: at once, or as fast as the client reads. */
#include "node/edge/client_internal.h"

void
client_give_out(struct client *client)
{
    if (client->out != NULL) {
        lane_memory_give(&client->lane->memory, client->quota, client->out,
                         client->out_size);
        client->out = NULL;
    }
}

/* Copies what the kernel did not take, from byte `taken` on. */
static int ON_LANE
keep_rest(struct client *client, const struct iovec *parts, unsigned count,
          size_t taken)
{
    size_t rest = 0;

    for (unsigned i = 0; i < count; i++) {
        rest += parts[i].iov_len;
    }
    rest -= taken;
    client->out = lane_memory_take_out(&client->lane->memory, client->quota,
                                       rest, &client->out_size);
    if (client->out == NULL) {
        return -ENOBUFS;
    }
    client->out_len = 0;
    client->out_at = 0;
    for (unsigned i = 0; i < count; i++) {
        size_t skip = taken < parts[i].iov_len ? taken : parts[i].iov_len;
        memcpy(client->out + client->out_len,
               (const char *)parts[i].iov_base + skip, parts[i].iov_len - skip);
        client->out_len += parts[i].iov_len - skip;
        taken -= skip;
    }
    return 0;
}

int
client_send(struct client *client, const struct iovec *parts, unsigned count)
{
    size_t all = 0;

    CHECK(client->out == NULL);
    for (unsigned i = 0; i < count; i++) {
        all += parts[i].iov_len;
    }
    ssize_t n = sock_send(&client->sock, parts, count);
    if (n < 0) {
        return (int)n;
    }
    if ((size_t)n == all) {
        return 0;
    }
    int error = keep_rest(client, parts, count, (size_t)n);
    if (error < 0) {
        return error;
    }
    lane_time(client->lane, &client->deadline, LANE_TIMEOUT_WRITE);
    client_update_interest(client);
    return CLIENT_E_PENDING;
}

void
client_flush(struct client *client)
{
    struct iovec rest = {
        .iov_base = client->out + client->out_at,
        .iov_len = client->out_len - client->out_at,
    };
    ssize_t n = sock_send(&client->sock, &rest, 1);

    if (n < 0) {
        client_close(client, true);
        return;
    }
    size_t part = client->out_at / EDGE_SCRATCH_BYTES;
    client->out_at += (size_t)n;
    if (client->out_at < client->out_len) {
        /* Else the time runs on, or a trickle would keep it for ever. */
        if (client->out_at / EDGE_SCRATCH_BYTES != part) {
            lane_time(client->lane, &client->deadline, LANE_TIMEOUT_WRITE);
        }
        return;
    }
    client_give_out(client);
    deadline_clear(&client->deadline);
    client_update_interest(client);
    if (client->exchange != NULL) {
        exchange_drained(client->exchange);
    } else {
        client_answered(client);
    }
}

void
client_answered(struct client *client)
{
    CHECK(client->state == CLIENT_BUSY && client->exchange == NULL);
    if (client->close_after) {
        client_end(client);
        return;
    }
    client_release_request(client);
    client->framing = (struct client_framing){.known = false};
    client->state = CLIENT_READING;
    if (!client->processing) {
        client_process(client);
    }
}
