/*
 * The HTTP side of the stand-in engine: requests become model requests, the
 * model's outputs become answers.
 *
 * One loop, one thread, one timer: it fires when a model has something to do,
 * and everything the model puts out then is sent at once.
 *
 * Role: shell. Owns: the models, the server, the calls under way.
 * Thread: the loop's. Limits: options.requests_max calls,
 * options.connections_max clients, ENGINE_BODY_BYTES_MAX,
 * ENGINE_UNSENT_BYTES_MAX. Errors: below zero -errno.
 */
#ifndef CHAOS_ENGINE_HTTP_INTERNAL_H
#define CHAOS_ENGINE_HTTP_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <uv.h>

#include "chaos/engine/engine_fault_internal.h"
#include "chaos/engine/engine_model.h"
#include "chaos/engine/engine_options_internal.h"
#include "chaos/engine/engine_prompt_internal.h"
#include "chaos/engine/engine_ranks_internal.h"
#include "chaos/engine/engine_tools_internal.h"
#include "index/base/buf.h"
#include "node/node.h"

#define ENGINE_BODY_BYTES_MAX   ((size_t)16 << 20)
#define ENGINE_UNSENT_BYTES_MAX ((size_t)1 << 20) /* of a slow client */
#define ENGINE_KEPT_MAX         4096U /* prompts that other engines may ask for */
#define ENGINE_MAX_TOKENS       16 /* of an answer whose length is not asked */

/* What a generation request is to do for, or with, another engine. */
enum engine_pass {
    ENGINE_PASS_NOTHING,
    ENGINE_PASS_TELL, /* vllm: its answer says where its prompt is */
    ENGINE_PASS_HAND, /* sglang: ends when the other engine has its prompt */
    ENGINE_PASS_TAKE, /* gets its prompt from the other engine */
    ENGINE_PASS_PULL, /* no generation: the other engine asks for a prompt */
};

/* A part of a split request. */
struct engine_split {
    enum engine_pass pass;
    uint64_t key;        /* under which the prompt is known at both */
    char host[64];       /* TAKE: where it is */
    uint16_t port;       /* likewise */
    struct httpc *pull;  /* TAKE: being asked for; NULL: it is not */
    uint64_t here_us;    /* TAKE: model's clock, when all is here; 0: later */
    uint32_t *ids;       /* TAKE: prompt and answer, until then */
    uint32_t prompt_len; /* likewise */
    uint64_t root;       /* likewise */
    bool computed;       /* HAND */
    struct engine_usage usage; /* HAND, computed: of its answer */
};

/* One generation request under way. */
struct engine_call {
    struct httpd_request *request; /* NULL: this place is unused */
    uint64_t ticket;     /* of its rank's model; 0: hangs on purpose */
    uint64_t number;     /* its id */
    uint64_t reply_hash; /* what its words come from */
    bool reply_spaced;   /* the first begins with a space */
    uint64_t created_s;  /* wall clock */
    uint64_t token_us;   /* model's clock: the last token */
    char *salt;          /* of its namespace; NULL: none */
    uint32_t output_len;
    uint32_t model; /* in options.models */
    uint32_t rank;
    uint32_t die_after_tokens; /* ENGINE_FAULT_NEVER */
    enum scan_api api;
    struct engine_tool tool; /* its words are the arguments of this one */
    bool stream;
    bool include_usage;
    bool usage_of_each; /* event of the stream */
    char event[ENGINE_EVENT_TOKENS * ENGINE_TOKEN_BYTES_MAX];
    size_t event_len;   /* text that was not sent yet, ... */
    uint32_t event_due; /* ... and goes out with this token */
    uint32_t events;    /* of a streamed response, that were written */
    struct engine_split split;
    struct engine_server *server;
};

struct engine_server {
    uv_loop_t *loop;
    const struct engine_options *options;
    struct httpd *httpd;
    uv_timer_t timer;       /* the model's deadline */
    uv_timer_t stop_timer;  /* while stopping: is everyone gone? */
    uv_timer_t stall_timer; /* the end of a stall of events */
    uv_signal_t terminate;
    uv_signal_t interrupt;
    char headers[ENGINE_NAME_MAX + 32]; /* of every answer */

    struct engine_rank *ranks;
    uint32_t ranks_count;
    double speed;
    uint64_t wall_us;  /* where the model's clock was set last, ... */
    uint64_t model_us; /* ... and to what */

    struct engine_call *calls;
    uint32_t calls_count; /* requests_max of all ranks together */
    uint32_t *idle_calls; /* stack of unused ones */
    uint32_t idle_count;
    uint64_t next_number;
    uint64_t restarts;              /* ordered ones */
    uint32_t coming;                /* calls with split.here_us */
    uint64_t kept[ENGINE_KEPT_MAX]; /* vllm: keys of prompts that were told */
    uint32_t kept_next;

    struct engine_faults faults;
    struct engine_files files;   /* --tokens */
    struct engine_prompt prompt; /* of the request being read */
    struct buf out;              /* the answer being written */
    bool stopping;
};

/* Listens as the options say. 0, or -errno, and then nothing is left behind. */
int engine_server_init(struct engine_server *server, uv_loop_t *loop,
                       const struct engine_options *options) MUST_CHECK;

/* The port that it listens on. */
uint16_t engine_server_port(const struct engine_server *server);

/* After the loop has ended. */
void engine_server_fini(struct engine_server *server);

/* The rest is shared by the files of the shell. */

/* Now, on the model's clock. */
uint64_t engine_server_now(const struct engine_server *server);

/* A time span of the model's clock in seconds of the wall's. */
double engine_server_seconds(const struct engine_server *server,
                             uint64_t span_us);

/* Sets the timer by the model's deadline; after each change of the model. */
void engine_server_arm(struct engine_server *server);

/* From now on the model's clock runs at this speed. */
void engine_server_set_speed(struct engine_server *server, double speed);

/* Answers with what is in server->out, or with 500 when it did not fit. */
void engine_server_answer(struct engine_server *server,
                          struct httpd_request *request,
                          const char *content_type);

/* Scans the body, written for that API, into server->prompt. False: refused
 * with 400. */
bool engine_server_scan(struct engine_server *server,
                        struct httpd_request *request, enum scan_api api);

/* Renders what was scanned. False: answered already. */
bool engine_server_render(struct engine_server *server,
                          struct httpd_request *request, bool speak);

/* Which of the models has that name; an empty one stands for the first. False:
 * refused with 404. */
bool engine_server_model_named(struct engine_server *server,
                               struct httpd_request *request, struct slice name,
                               uint32_t *model);

/* Which of them the scanned body asks for. False: refused with 404. */
bool engine_server_find_model(struct engine_server *server,
                              struct httpd_request *request, uint32_t *model);

/* engine_split.c: prefill and decode apart. */

/* What the body asks of this engine for a split. False: refused with 400. */
bool engine_split_read(struct engine_server *server,
                       struct httpd_request *request,
                       struct engine_split *split);

/* A call that takes its prompt from another engine: asks for it. The scratch
 * has prompt and answer. False: refused. */
bool engine_split_take(struct engine_server *server, struct engine_call *call,
                       const struct engine_request *wanted);

/* Passes prompts to the model whose transfer is over. */
void engine_split_due(struct engine_server *server);

/* When the first of them is; UINT64_MAX: none. */
uint64_t engine_split_deadline(const struct engine_server *server);

/* The call's model output has ended. True: it waits for the other engine. */
bool engine_split_holds(struct engine_server *server, struct engine_call *call,
                        const struct engine_usage *usage);

/* Appends "kv_transfer_params", after a comma, to the answer of a call. */
void engine_split_put(struct engine_server *server,
                      const struct engine_call *call,
                      const struct engine_usage *usage);

/* The call is over. */
void engine_split_drop(struct engine_server *server, struct engine_call *call);

/* The call gets its answer now; of engine_reply.c. */
void engine_reply_end(struct engine_server *server, struct engine_call *call,
                      const struct engine_usage *usage);

/* A place for a request; there is one. */
struct engine_call *engine_call_take(struct engine_server *server,
                                     struct httpd_request *request);

/*
 * The endpoints, each named by method and path; the manual says what they do
 * (kvasir-engine --help). Each takes the request over and answers it now or
 * when the model has; a fault is answered with an OpenAI error.
 */
void engine_post_chat(struct engine_server *s, struct httpd_request *request);
void engine_post_completion(struct engine_server *s,
                            struct httpd_request *request);
void engine_post_responses(struct engine_server *s,
                           struct httpd_request *request);
void engine_post_messages(struct engine_server *s,
                          struct httpd_request *request);
void engine_post_count(struct engine_server *s, struct httpd_request *request);
void engine_post_chat_render(struct engine_server *s,
                             struct httpd_request *request);
void engine_post_responses_render(struct engine_server *s,
                                  struct httpd_request *request);
void engine_post_messages_render(struct engine_server *s,
                                 struct httpd_request *request);
void engine_post_completion_render(struct engine_server *s,
                                   struct httpd_request *request);
void engine_post_embeddings(struct engine_server *s,
                            struct httpd_request *request);
void engine_post_pooling(struct engine_server *s,
                         struct httpd_request *request);
void engine_post_rerank(struct engine_server *s, struct httpd_request *request);
void engine_post_score(struct engine_server *s, struct httpd_request *request);
void engine_post_transcriptions(struct engine_server *s,
                                struct httpd_request *request);
void engine_post_speech(struct engine_server *s, struct httpd_request *request);
void engine_post_tokenize(struct engine_server *s,
                          struct httpd_request *request);
void engine_post_detokenize(struct engine_server *s,
                            struct httpd_request *request);
void engine_post_reset(struct engine_server *s, struct httpd_request *request);
void engine_post_chaos(struct engine_server *s, struct httpd_request *request);
void engine_get_chaos(struct engine_server *s, struct httpd_request *request);
void engine_get_kv(struct engine_server *s, struct httpd_request *request);
void engine_get_cache(struct engine_server *s, struct httpd_request *request);
void engine_get_models(struct engine_server *s, struct httpd_request *request);
void engine_get_health(struct engine_server *s, struct httpd_request *request);
void engine_get_version(struct engine_server *s, struct httpd_request *request);
void engine_get_metrics(struct engine_server *s, struct httpd_request *request);
void engine_get_no_metrics(struct engine_server *s,
                           struct httpd_request *request);
void engine_get_iterations(struct engine_server *s,
                           struct httpd_request *request);
void engine_get_server_info(struct engine_server *s,
                            struct httpd_request *request);
void engine_get_slots(struct engine_server *s, struct httpd_request *request);
void engine_post_no_tokens(struct engine_server *s,
                           struct httpd_request *request);

/* What it has of its own. */
const struct engine_make_facts *
engine_server_make(const struct engine_server *server);

/* Where a call is computed. */
struct engine_rank *engine_call_rank(struct engine_server *server,
                                     const struct engine_call *call);

/* Gives a call's place back; its request was answered or is gone. */
void engine_call_drop(struct engine_server *server, struct engine_call *call);

/* Passes one output of the model on to its client. */
void engine_call_output(struct engine_server *server,
                        const struct engine_out *out);

/* Adds the text of the call's whole answer to server->out; it needs no
 * escapes. */
void engine_reply_put(struct engine_server *server,
                      const struct engine_call *call);

/*
 * What Responses and Messages have of their own (engine_reply_own.c), each
 * added to server->out: what a stream begins with, a token, what it ends with,
 * and a whole answer.
 */
void engine_own_begin(struct engine_server *server, struct engine_call *call);
void engine_own_token(struct engine_server *server, struct engine_call *call,
                      struct slice text);
void engine_own_end(struct engine_server *server, struct engine_call *call,
                    const struct engine_usage *usage);
void engine_own_whole(struct engine_server *server,
                      const struct engine_call *call,
                      const struct engine_usage *usage);

/* The client of a call has gone. */
void engine_call_gone(struct engine_server *server, struct engine_call *call);

/* Aborts the calls that hang on purpose: they would never end. */
void engine_call_abort_hanging(struct engine_server *server);

/* Aborts all calls without telling the model. */
void engine_call_abort_all(struct engine_server *server);

#endif
