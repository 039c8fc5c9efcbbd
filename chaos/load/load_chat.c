/* A conversation as the JSON of its next request. */
#include "chaos/load/load_chat_internal.h"

#include <inttypes.h>

#include "index/base/check.h"

#define BODY_END "]}"

void
load_chat_init(struct load_chat *chat, size_t bytes_max)
{
    *chat = (struct load_chat){.messages = 0};
    buf_init(&chat->json, bytes_max);
}

void
load_chat_fini(struct load_chat *chat)
{
    buf_fini(&chat->json);
}

void
load_chat_begin(struct load_chat *chat, const char *model, uint64_t max_tokens)
{
    buf_clear(&chat->json);
    chat->messages = 0;
    chat->is_closed = false;
    buf_printf(&chat->json,
               "{\"model\":\"%s\",\"max_tokens\":%" PRIu64
               ",\"stream\":true,\"stream_options\":{\"include_usage\":true},"
               "\"messages\":[",
               model, max_tokens);
}

void
load_chat_open(struct load_chat *chat, const char *role)
{
    if (chat->is_closed && !chat->json.failed) {
        chat->json.len -= sizeof(BODY_END) - 1;
    }
    chat->is_closed = false;
    buf_printf(&chat->json, "%s{\"role\":\"%s\",\"content\":\"",
               chat->messages > 0 ? "," : "", role);
    chat->messages++;
}

void
load_chat_close(struct load_chat *chat)
{
    CHECK(chat->messages > 0 && !chat->is_closed);
    buf_add_text(&chat->json, "\"}");
}

struct slice
load_chat_body(struct load_chat *chat)
{
    if (!chat->is_closed) {
        buf_add_text(&chat->json, BODY_END);
        chat->is_closed = true;
    }
    return chat->json.failed ? (struct slice){.ptr = NULL}
                             : buf_slice(&chat->json);
}
