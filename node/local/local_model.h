/*
 * One model's own files, read: its tokenizer and its chat templates, from which
 * a node makes a prompt's token ids itself.
 *
 * A model is constant but for three things that threads share: its scratch
 * buffers (each is taken by one thread at a time, and nobody waits for one), how
 * many questions use it now, and which ways of asking were switched off because
 * an engine counted otherwise.
 *
 * Role: core. Owns: tokenizer, templates, scratches. Thread: made and freed by
 * the control thread (or one it lets work), used by any. Limits:
 * LOCAL_SCRATCHES_MAX threads at one time, those of the cores below. Errors: a
 * part that is not understood is left out, and `why` names it.
 */
#ifndef NODE_LOCAL_MODEL_H
#define NODE_LOCAL_MODEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/counter.h"
#include "index/base/qsbr.h"
#include "index/base/slice.h"

#define LOCAL_NAME_MAX      192 /* bytes of a model's name, with its NUL */
#define LOCAL_PATH_MAX      1024
#define LOCAL_WHY_MAX       320
#define LOCAL_SCRATCHES_MAX 72U /* CONFIG_LANES_MAX and a pool of threads */

/* Kinds of requests whose rules differ: each is trusted by itself. */
enum local_way {
    LOCAL_TEXT,           /* /v1/completions */
    LOCAL_CHAT,           /* /v1/chat/completions */
    LOCAL_CHAT_TOOLS,     /* the same with tools or tool calls */
    LOCAL_RESPONSES,      /* /v1/responses */
    LOCAL_MESSAGES,       /* /v1/messages */
    LOCAL_MESSAGES_TOOLS, /* the same with tools or their results */
    LOCAL_EMBEDDINGS,     /* /v1/embeddings */
    /* The same, of requests that say how they are rendered, or whose messages
     * have more than roles, contents and tool calls: few do, and what they find
     * wrong is not everybody's. */
    LOCAL_TEXT_OPTIONS,
    LOCAL_CHAT_OPTIONS,
    LOCAL_RESPONSES_OPTIONS,
    LOCAL_MESSAGES_OPTIONS,
    LOCAL_EMBEDDINGS_OPTIONS,
    LOCAL_WAYS,
};

/* "text", "chat", "chat with tools", ... Static text. */
const char *local_way_name(enum local_way way);

/* How a message's content reaches the template. */
enum local_format {
    LOCAL_FORMAT_AUTO, /* as engines find out from the template */
    LOCAL_FORMAT_STRING,
    LOCAL_FORMAT_OPENAI, /* a list of parts */
};

struct local_model;

/* What a model is made of; all borrowed for the call. */
struct local_parts {
    struct slice name;  /* a request's or an engine's name for it ends so */
    struct slice place; /* where the files are, for people */
    struct slice json;  /* tokenizer.json; or */
    struct slice ranks; /* a .tiktoken file and its pattern */
    struct slice pattern;
    struct slice config;   /* tokenizer_config.json, or empty */
    struct slice template; /* chat_template.jinja, or empty */
    struct slice unread; /* a file that is there, or was asked for by name, and
                              gave nothing: nothing is answered then */
    enum local_format format;
};

/* A number for all of it but name and place: local_model_version(). */
uint64_t local_parts_digest(const struct local_parts *parts);

/* A model; where a part cannot be used local_model_why() says so. NULL: no
 * memory. The caller frees it with local_model_free(). */
struct local_model *local_model_new(const struct local_parts *parts) MUST_CHECK;

/* Nobody uses it any more. NULL is fine. */
void local_model_free(struct local_model *model);

/* Its name; the folder or file; static as long as the model is. */
const char *local_model_name(const struct local_model *model);
const char *local_model_place(const struct local_model *model);

/* What is missing or not understood, or "". */
const char *local_model_why(const struct local_model *model);

/* The same number on every node with the same files and options. */
uint64_t local_model_version(const struct local_model *model);

/* Bytes of memory, about. */
size_t local_model_bytes(const struct local_model *model);

/* Whether requests of that way are tokenised here: the parts are there, and no
 * engine has shown other tokens. */
bool local_model_can(const struct local_model *model, enum local_way way);

/* An engine has other tokens. True for the first to say so of that way. */
bool local_model_distrust(struct local_model *model, enum local_way way);

/* A peer with the same files says that an engine has other tokens. True for the
 * first to say so of that way, unless it was known here. */
bool local_model_hear_distrust(struct local_model *model, enum local_way way);

/* Whether that was found here, and not heard of. */
bool local_model_found_distrust(const struct local_model *model,
                                enum local_way way);

/*
 * An engine counted the tokens of a prompt that was tokenised here. False: these
 * are other ids, because it counted otherwise and not LOCAL_MISCOUNT counts
 * before agreed. So what one client found out to count otherwise is not
 * everybody's.
 */
#define LOCAL_MISCOUNT   8U
#define LOCAL_CREDIT_MAX 16U
bool local_model_counted(struct local_model *model, enum local_way way,
                         bool alike);

/*
 * What an engine had of a prompt that was tokenised here: as predicted, or more.
 * False: these are other ids, because it was never as predicted and
 * LOCAL_MORE_MAX times more.
 */
#define LOCAL_MORE_MAX 16U
bool local_model_judge(struct local_model *model, enum local_way way,
                       bool as_predicted, bool more);

/* Whether an engine stores a prompt's blocks with the ids that were made here. */
enum local_likeness {
    LOCAL_UNKNOWN, /* it stored none, or was not heard */
    LOCAL_AGREES,
    LOCAL_DIFFERS,
};

/*
 * What was found of one prompt (local_samples.h). Blocks that differ may be
 * another request's, so one finding is not enough. False: these are other ids,
 * because LOCAL_DIFFER_MAX prompts differed since one agreed.
 */
#define LOCAL_DIFFER_MAX 3U
bool local_model_compared(struct local_model *model, enum local_way way,
                          enum local_likeness likeness);

/* Whether a prompt of that way is to be compared: the way is trusted, and none
 * has agreed since local_model_renew(). */
bool local_model_wants_sample(const struct local_model *model,
                              enum local_way way);

/* Prompts of all ways are to be compared again. */
void local_model_renew(struct local_model *model);

/* A way was switched off, and its first difference was not shown yet. */
bool local_model_owes_difference(const struct local_model *model,
                                 enum local_way way);

/* It is shown now. True for the first. */
bool local_model_pay_difference(struct local_model *model, enum local_way way);

/* It is used until local_model_leave(), whatever is published meanwhile. */
void local_model_hold(struct local_model *model);
void local_model_leave(struct local_model *model);

/* Whether somebody holds it. */
bool local_model_is_held(const struct local_model *model);

/* For its owner, to retire it. */
struct qsbr_node *local_model_retired(struct local_model *model);
struct local_model *local_model_of(struct qsbr_node *retired);

/* What was asked of it; written by any thread. */
struct local_counts {
    struct counter answered; /* prompts that were tokenised here */
    struct counter refused;  /* that the template or tokenizer refused */
    struct counter wrong;    /* that an engine counted otherwise */
    struct counter asked;    /* that an engine was asked for all the same */
    struct counter agreed;   /* whose blocks an engine stored with these ids */
    struct counter differed; /* ... with others, as it seems */
    struct counter busy_us;  /* time that answering took */
};

/* Good as long as the model is. */
struct local_counts *local_model_counts(struct local_model *model);

#endif
