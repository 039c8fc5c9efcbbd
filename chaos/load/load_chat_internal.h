/*
 * One conversation as the bodies of its requests: each turn sends everything
 * said so far.
 *
 *   load_chat_begin(&chat, model, max_tokens);
 *   load_chat_open(&chat, "user"); ... append its text ...; load_chat_close()
 *   load_chat_body(&chat)                     -> the request
 *   load_chat_open(&chat, "assistant"); ...   <- the answer, then the next turn
 *
 * Role: core. Owns: one buffer. Thread: one owner. Limits: bytes_max.
 * Errors: the body is empty when memory or room was short.
 */
#ifndef CHAOS_LOAD_CHAT_INTERNAL_H
#define CHAOS_LOAD_CHAT_INTERNAL_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/slice.h"

struct load_chat {
    struct buf json;   /* texts are appended here, escaped as JSON wants it */
    uint32_t messages; /* so far */
    bool is_closed;    /* json ends as a body does */
};

/* Allocates nothing yet. */
void load_chat_init(struct load_chat *chat, size_t bytes_max);

/* Frees what it owns. */
void load_chat_fini(struct load_chat *chat);

/* Forgets what was said; memory is kept. model needs no escapes. */
void load_chat_begin(struct load_chat *chat, const char *model,
                     uint64_t max_tokens);

/* A message of that role: its text goes to chat->json between the two. */
void load_chat_open(struct load_chat *chat, const char *role);
void load_chat_close(struct load_chat *chat);

/* The request body; good until the next call. Empty: it did not fit. */
struct slice load_chat_body(struct load_chat *chat);

#endif
