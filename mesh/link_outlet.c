/* One outbound connection, from dialling to closing. */
#include <stdlib.h>

#include "mesh/link_wire_internal.h"

struct message *
message_new(size_t len)
{
    struct message *msg = malloc(sizeof *msg + len);

    if (msg != NULL) {
        msg->len = len;
        msg->pipe = 0;
    }
    return msg;
}

void
link_message_free(struct mesh_link *link, struct message *msg)
{
    CHECK(link->messages > 0);
    link->messages--;
    free(msg);
}

struct outlet *
outlet_open(struct channel *channel, const char *address)
{
    struct outlet *outlet = calloc(1, sizeof *outlet);

    if (outlet == NULL) {
        return NULL;
    }
    outlet->link = channel->link;
    outlet->channel = channel;
    outlet->wire = wire_dial(outlet->link, address, outlet);
    if (outlet->wire == NULL) {
        free(outlet);
        return NULL;
    }
    return outlet;
}

void
outlet_retire(struct outlet *outlet)
{
    if (outlet->wire != NULL) {
        wire_close(outlet->wire);
    }
    free(outlet);
}

void
outlet_send(struct outlet *outlet, struct message *msg)
{
    if (outlet->wire != NULL) {
        wire_send(outlet->wire, msg);
        return;
    }
    /* The connection is lost, so the channel is broken. */
    uv_mutex_lock(&outlet->link->lock);
    link_message_free(outlet->link, msg);
    uv_mutex_unlock(&outlet->link->lock);
}

void
outlet_opened(struct outlet *outlet)
{
    outlet->opened = true;
    uv_mutex_lock(&outlet->link->lock);
    channel_on_attached(outlet->channel);
    uv_mutex_unlock(&outlet->link->lock);
    (void)uv_async_send(&outlet->link->async);
}

void
outlet_lost(struct outlet *outlet)
{
    outlet->wire = NULL;
    if (!outlet->opened) {
        channel_on_failed(outlet->channel);
        return;
    }
    uv_mutex_lock(&outlet->link->lock);
    channel_on_broken(outlet->channel);
    uv_mutex_unlock(&outlet->link->lock);
    (void)uv_async_send(&outlet->link->async);
}

void
outlet_wrote(struct outlet *outlet, struct message *msg)
{
    struct message *next = NULL;

    uv_mutex_lock(&outlet->link->lock);
    link_message_free(outlet->link, msg);
    bool wake = channel_on_sent(outlet->channel, &next);
    uv_mutex_unlock(&outlet->link->lock);
    if (next != NULL) {
        wire_send(outlet->wire, next);
    }
    if (wake) {
        (void)uv_async_send(&outlet->link->async);
    }
}
