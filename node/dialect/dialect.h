/*
 * Requests of Anthropic's /v1/messages and of OpenAI's /v1/responses as those of
 * /v1/chat/completions, and the answers to these, whole or streamed, as answers
 * of theirs: so that a client gets its own API from engines that do not have it.
 *
 *   dialect_request(api, body, salt, each, &out, &why)  what the engine is sent
 *   dialect_answer(api, asked, chat, &out)        its whole answer
 *   dialect_error(api, status, body, &out)        its error
 *   dialect_stream_init(&s, api, asked, &out);
 *   dialect_stream_give(&s, piece) ...            bytes of its stream
 *   dialect_stream_end(&s)                        the stream's end
 *
 * Text passes as the raw bytes of its JSON string, never unescaped, so nothing
 * of it can change. A conversation of Messages becomes the same messages as
 * vLLM's own /v1/messages makes of it (vllm/entrypoints/anthropic/serving.py),
 * so its tokens, and with them its place in caches, are the same either way:
 *
 *   system                one message, its texts joined; likewise of that role
 *   text, image           the message's content; a single text as a string
 *   thinking              reasoning_content; redacted_thinking is left out
 *   tool_use              tool_calls of the assistant's message
 *   tool_result           a message of the role tool, before the user's own
 *   tools, tool_choice    functions; any: required; disable_parallel_tool_use
 *   thinking (the switch) chat_template_kwargs.enable_thinking
 *   stop_sequences, max_tokens, temperature, top_p, top_k, stream, metadata,
 *   output_config.format  likewise
 *
 * One of Responses, without anything stored:
 *
 *   instructions          a message of the system's
 *   input                 messages; developer: system
 *   reasoning             reasoning_content, of the assistant's message
 *   function_call         tool_calls, of the assistant's message before them
 *   function_call_output  a message of the role tool
 *   tools, tool_choice    functions; of a namespace, with its name before theirs
 *                         (SPACE__NAME, and back in the answer); the vendor's own
 *                         are left out, and the model does not hear of them
 *   text.format           response_format; reasoning.effort: reasoning_effort
 *   max_output_tokens, temperature, top_p, parallel_tool_calls, stream, user
 *
 * and of both vLLM's cache_salt, priority and chat_template_kwargs.
 *
 * A count of Messages' tokens is asked of /tokenize, which takes a chat's model,
 * messages, tools and chat_template_kwargs, and whose answer has a `count`.
 *
 * cache_control is for caches that need to be told; engines' do not. What has
 * no counterpart (documents that are no text, Anthropic's own tools, what is
 * stored) is refused by name, rather than left out.
 *
 * Role: core. Owns: nothing but a stream's buffers. Thread: one owner.
 * Limits: JSON_PULL_DEPTH_MAX of nesting, DIALECT_EVENT_MAX, the buffers'.
 * Errors: named outcomes; bytes of any origin are taken.
 */
#ifndef NODE_DIALECT_H
#define NODE_DIALECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"
#include "node/text/sse_read.h"

#define DIALECT_EVENT_MAX ((size_t)1 << 20) /* bytes of one chat event */
#define DIALECT_KEPT_MAX  ((size_t)4 << 20) /* of an answer that is said again */
#define DIALECT_SAID_MAX  (6 * DIALECT_KEPT_MAX) /* out of one piece */
#define DIALECT_STOP_MAX  256U /* bytes of a stop sequence that is told */

enum dialect {
    DIALECT_MESSAGES,
    DIALECT_RESPONSES,
    DIALECT_COUNT, /* /v1/messages/count_tokens: a question to /tokenize */
};

/*
 * Adds the chat request for that body to out. salt: the raw
 * value of cache_salt, with its quotes, in place of the body's; empty: the
 * body's own. each: a stream tells the usage with each event. False: it has none, and *why (static text) says what of it; or
 * out->failed is set, and *why is NULL.
 */
bool dialect_request(enum dialect api, struct slice body, struct slice salt,
                     bool each, struct buf *out, const char **why) MUST_CHECK;

/* Why, where it names what only the engine that made it can have. */
extern const char dialect_stored[];

/* Adds the answer for a whole chat completion, or for a count. asked: the client's
 * body. False: it is none, its engine gave it up, or out is full. */
bool dialect_answer(enum dialect api, struct slice asked, struct slice chat,
                    struct buf *out) MUST_CHECK;

/* Adds an engine's error of that status (400 to 599) in the API's form. */
void dialect_error(enum dialect api, unsigned status, struct slice body,
                   struct buf *out);

/* What an engine's error says, as text: of {"error":{"message":...}} and its
 * like. False: nothing, or more than there is room for. */
bool dialect_message(struct slice body, char *out, size_t room) MUST_CHECK;

/* What the stream's open block is. */
enum dialect_block {
    DIALECT_NONE,
    DIALECT_TEXT,
    DIALECT_THINKING,
    DIALECT_TOOL,
};

struct dialect_usage {
    uint64_t prompt;
    uint64_t cached;
    uint64_t completion;
};

struct dialect_writer; /* of one API's events */

struct dialect_stream {
    struct sse_read sse;
    struct buf *out;
    const struct dialect_writer *writer;
    bool started;  /* the first events were written */
    bool finished; /* a choice said why it ended */
    bool given_up; /* ... and that its engine gave it up */
    bool done;     /* the last event was written: nothing follows */
    bool failed;   /* ... and is an error */
    bool tools;    /* a tool was used */
    enum dialect_block block;
    uint32_t index;     /* of the open block, or of the next one */
    uint64_t tool;      /* of the chat's tool calls, the one that is open */
    const char *reason; /* static: of the end */
    struct dialect_usage usage;

    /* Of Responses, whose last event says everything again. */
    uint32_t sequence; /* of the next event */
    uint32_t id_len;   /* of the chat's id, at the end of name */
    uint32_t call_len; /* of a call's id, then its name, before text */
    uint32_t call_name_len;
    struct buf name;   /* the first members of the response */
    struct buf items;  /* the whole ones */
    struct buf text;   /* raw, of the open one */
    struct buf spaces; /* names of the request's namespaces */

    /* Of Messages. */
    uint32_t stop_len;
    char stop[DIALECT_STOP_MAX]; /* raw: the stop sequence that ended it */
};

/* Events are added to out, which is borrowed. asked: the client's body, which is
 * not kept. */
void dialect_stream_init(struct dialect_stream *s, enum dialect api,
                         struct slice asked, struct buf *out);

/* Frees its buffers. */
void dialect_stream_fini(struct dialect_stream *s);

/* The next bytes of the chat's stream. False: it is none, and an error event
 * was added; or nothing is taken any more. */
bool dialect_stream_give(struct dialect_stream *s, struct slice piece)
    MUST_CHECK;

/* The stream is over. False: it broke off, and an error event was added. */
bool dialect_stream_end(struct dialect_stream *s) MUST_CHECK;

#endif
