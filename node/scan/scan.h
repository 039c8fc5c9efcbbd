/*
 * Reads what routing needs out of an OpenAI-style JSON body, in one pass over
 * the bytes in place: no allocation, no object tree.
 *
 * It is right for any JSON (RFC 8259): keys in any order and spelling (compared
 * after unescaping), nesting, escapes and surrogates, duplicate keys (the last
 * one wins, whatever its type), checked UTF-8. A body that is not JSON is
 * refused with the offset. A well-known key with a value of another type counts
 * as absent: the engine will report it better than a router can.
 *
 * Role: core. Owns: nothing; spans are offsets into the caller's body. Thread:
 * any. Limits: struct scan_limits; a body of 4 GiB - 1. Errors: named outcomes;
 * `fault` says what, `fault_at` where.
 */
#ifndef NODE_SCAN_H
#define NODE_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

/* Raw bytes of the body: for strings, between the quotes. */
struct scan_text {
    uint32_t at;
    uint32_t len;
    bool present;
    bool escaped; /* holds a backslash: see scan_unescape() */
};

enum scan_span_kind {
    SCAN_ROLE,  /* a message begins: its role (empty when it has none) */
    SCAN_TEXT,  /* text the model reads: string content or a text part */
    SCAN_MEDIA, /* identity of an image, audio or file part: its uuid, URL or
                   data */
    SCAN_TOOLS, /* raw JSON of `tools` or `functions`, of a message's
                   `tool_calls`, or of a part of unknown type */
    SCAN_IDS,   /* raw JSON of an array of token ids, brackets included */
};

struct scan_span {
    uint32_t at;
    uint32_t len;
    uint8_t kind; /* enum scan_span_kind */
    bool escaped; /* string kinds: holds a backslash */
};

/* The API that a body is written for: engines render each by rules of its
 * own. */
enum scan_api {
    SCAN_API_GUESSED,    /* nobody said: of the next three, by its shape */
    SCAN_API_TEXT,       /* /v1/completions */
    SCAN_API_CHAT,       /* /v1/chat/completions */
    SCAN_API_RESPONSES,  /* /v1/responses */
    SCAN_API_MESSAGES,   /* /v1/messages */
    SCAN_API_EMBEDDINGS, /* /v1/embeddings, /classify; no renderer tells their
                            tokens */
    SCAN_API_OTHER,      /* no prompt whose tokens anybody tells */
    SCAN_API_POOLING,    /* /pooling; made good by its task: one of the two
                            before */
    SCAN_APIS,
};

/* Further keys of the body that change how it is rendered into tokens. */
enum scan_option {
    SCAN_CHAT_TEMPLATE,
    SCAN_CHAT_TEMPLATE_KWARGS,
    SCAN_REASONING_EFFORT,
    SCAN_TOOL_CHOICE,
    SCAN_DOCUMENTS,
    SCAN_ADD_GENERATION_PROMPT,
    SCAN_CONTINUE_FINAL_MESSAGE,
    SCAN_ADD_SPECIAL_TOKENS,
    SCAN_MM_PROCESSOR_KWARGS,
    SCAN_MEDIA_IO_KWARGS,
    SCAN_TRUNCATE_PROMPT_TOKENS,
    SCAN_REASONING,     /* of Responses */
    SCAN_THINKING,      /* of Messages */
    SCAN_OUTPUT_CONFIG, /* the same */
    SCAN_PREVIOUS_RESPONSE_ID,
    SCAN_CONVERSATION,
    SCAN_INPUT_FILE_ID, /* of batches */
    SCAN_TASK,          /* of pooling */
    SCAN_OPTIONS,
};

/* "chat_template", ...: the key. Static text. */
const char *scan_option_name(enum scan_option option);

/* What the prompt was. */
enum scan_shape {
    SCAN_NO_PROMPT,
    SCAN_MESSAGES, /* chat `messages`, or `input` of message objects */
    SCAN_STRING,   /* `prompt` or `input`: "..." */
    SCAN_STRINGS,  /* ["...", ...]: spans of the first only */
    SCAN_ID_LIST,  /* [1, 2, ...]: all plain digits */
    SCAN_ID_LISTS, /* [[1, 2], ...]: span of the first only */
};                 /* an empty or mixed `prompt` or `input` is none of these */

/* What a body lacks that asks for a stream with its usage. */
enum scan_usage_lack {
    SCAN_USAGE_NOTHING, /* it asks, or says something that we leave alone */
    SCAN_USAGE_MEMBER,  /* it has no stream_options */
    SCAN_USAGE_OPTIONS, /* they are null, or empty */
    SCAN_USAGE_KEY,     /* they have no include_usage */
    SCAN_USAGE_TRUE,    /* it is false, or null */
    SCAN_USAGE_EACH,    /* it asks, but not for that of each event */
};

/* The bytes [at, at + cut) of the body give way to scan_usage_text(). */
struct scan_usage {
    enum scan_usage_lack lack;
    bool each_unsaid; /* options do not name continuous_usage_stats */
    uint32_t at;
    uint32_t cut;
};

/* each: that of each event is asked for, too, of an engine that knows how; for
 * options that do not name it. Static text; empty where nothing is to be said. */
struct slice scan_usage_text(enum scan_usage_lack lack, bool each);

#define SCAN_NAME_MAX 24U /* of a member that anybody asks for */
#define SCAN_KEPT_MAX 4U

struct scan_limits {
    uint32_t depth_max;       /* of nesting; at most 1024 */
    uint32_t spans_max;       /* room at struct scan.spans */
    uint32_t kept_count;      /* SCAN_KEPT_MAX at most */
    const struct slice *kept; /* names of members that nothing above reads,
                                 and whose text is wanted: of SCAN_NAME_MAX
                                 bytes at most */
};

struct scan {
    enum scan_api api; /* the caller's; a guess is made good */
    struct scan_text model;
    struct scan_text salt; /* cache_salt, a string */
    uint32_t salt_at; /* where another salt goes: in place of that many bytes
                          of a value of any type, or as a member if there is
                          none (salt_cut 0) */
    uint32_t salt_cut;
    struct scan_text lora; /* lora_path, a string (SGLang) */
    uint32_t priority_at;  /* where the number begins, if there is one */
    struct scan_text kept[SCAN_KEPT_MAX]; /* of scan_limits.kept; strings */
    /* Raw JSON of any type, with its quotes or brackets; never `escaped`. */
    struct scan_text options[SCAN_OPTIONS];
    bool stream;
    bool include_usage;      /* stream_options.include_usage */
    bool usage_of_each;      /* its continuous_usage_stats */
    struct scan_usage usage; /* how it would become true. Left alone are
                          options with another type's value, and those that
                          ask for continuous_usage_stats, which
                          include_usage alone does not switch on */
    bool truncated; /* truncate_prompt_tokens has a value: engines leave out a
                       part of the prompt, its beginning in general */
    bool stateful;  /* previous_response_id, conversation, session_params: the
                       prompt goes on with what the engine has stored */
    bool rescored;  /* it wants something of each of the prompt's own tokens
                      (prompt_logprobs, echo with logprobs, a pooling task for
                      each): engines compute all of it, whatever they hold */
    bool apart;     /* its text's tokens are not its prompt's, or no event tells
                       whose cache it may use (SGLang: extra_key, input_ids,
                       session_params, lists; TensorRT-LLM: lora_request) */
    bool adapters;  /* it names adapters in another way than by `lora`: lists
                       and what else lora_path may be, lora_request
                       (TensorRT-LLM), lora (llama.cpp) */
    bool halved;    /* it says what a router says of a request that it splits:
                       where engines find blocks of the prompt */
    bool greedy;    /* temperature is 0 */
    bool has_max_tokens; /* from the first present of max_completion_tokens,
                            max_output_tokens and max_tokens */
    bool has_priority;
    bool priority_bad;  /* its value is neither null nor one of these integers:
                          for a node that lets requests wait to refuse */
    int64_t max_tokens; /* exact integers; 1.28e2 is 128; saturating; absent if
                           not integral; the same for priority and n */
    int64_t priority;
    uint32_t n;       /* choices asked for; 1 when absent */
    uint32_t prompts; /* 1, or the length of SCAN_STRINGS and SCAN_ID_LISTS */
    enum scan_shape shape;
    struct scan_text prompt_raw; /* the JSON of that shape, brackets and all */
    bool prompt_is_input;        /* it was the value of `input` */
    struct scan_text tools_raw;  /* `tools`, unless empty */

    /*
     * The prompt in the order chat templates render it, whatever the order
     * of the keys:
     *   1. `tools`, then `functions`: one SCAN_TOOLS each, unless empty;
     *   2. `system` or else `instructions`: a string or an array of parts;
     *   3. the first of `messages`, `input`, `prompt` that has a known shape.
     * A message is its SCAN_ROLE, the spans of its content, its `name`,
     * `reasoning_content` and `reasoning` as SCAN_TEXT, its `tool_calls`,
     * `function_call` and `summary` as SCAN_TOOLS. An item with neither role
     * nor content (a function call's output, say) is an empty SCAN_ROLE and
     * itself as SCAN_TOOLS. What is not an object among messages is passed
     * over.
     * A part is SCAN_TEXT (text, input_text, output_text, refusal, or a bare
     * string), SCAN_MEDIA (image_url, input_image, audio_url, video_url,
     * input_audio, file, image, document: the part's uuid, by which vLLM names
     * it whatever is behind its URL, or the string itself or its url, data,
     * file_data or file_id), or itself as SCAN_TOOLS. The array is the
     * caller's.
     */
    struct scan_span *spans;
    uint32_t spans_count;
    bool
        spans_truncated; /* spans_max was reached: the first spans_count are right */
    bool media;       /* some part is SCAN_MEDIA or cannot be read: tokens alone
                       do not name the prompt */
    bool media_named; /* some of these have a uuid, under which vLLM keeps them
                         for whoever says it, whatever the salt */

    const char *fault; /* static text; NULL when there is none */
    size_t fault_at;   /* offset of the first byte with which no JSON could go
                          on, or len when the body ends too early; of the
                          bracket that is too deep; of what is no object */
};

enum {
    SCAN_E_SYNTAX = 1, /* not JSON, or not UTF-8 */
    SCAN_E_DEPTH,      /* nested deeper than depth_max */
    SCAN_E_NOT_OBJECT, /* JSON, but not an object */
};

/*
 * Scans body. The caller sets scan->spans and scan->api before; everything else
 * is written.
 * 0, or an outcome above with fault and fault_at. Reads nothing beyond len.
 */
int scan_body(const char *body, size_t len, const struct scan_limits *limits,
              struct scan *scan) MUST_CHECK;

/*
 * Writes the unescaped bytes of a raw JSON string (as UTF-8; a lone surrogate
 * becomes U+FFFD) to out, which has room for len. Returns how many. raw must
 * come from a successful scan, and out is not in it.
 */
size_t scan_unescape(const char *raw, size_t len, char *out);

#define SCAN_PIECE_BYTES 1024
#define SCAN_RUN_BYTES   (64U << 10)

/*
 * The same piece by piece, for strings of any length: the next bytes that raw
 * stands for, in raw itself (SCAN_RUN_BYTES at most) or in room, which is then
 * taken off raw. A piece ends with a whole character. Empty at the end, and only
 * there.
 */
struct slice scan_unescape_next(struct slice *raw, char *room);

#endif
