/*
 * What the files of node/local share.
 *
 * Role: core, private to node/local.
 */
#ifndef NODE_LOCAL_INTERNAL_H
#define NODE_LOCAL_INTERNAL_H

#include "index/base/latch.h"
#include "node/local/local_model.h"
#include "node/template/template_chat.h"
#include "node/tokenizer/tokenizer.h"

/* What a template wants of a chat. */
struct local_wish {
    bool parts[TEMPLATE_RULES]; /* content part by part, as each engine finds */
    bool developer;             /* it knows messages in that role */
};

/* A place for one thread's buffers; taken by the latch. */
struct local_scratch {
    _Alignas(64) struct latch free;
    struct tokenizer_scratch *scratch; /* made when first needed */
};

struct local_model {
    struct qsbr_node retired;
    struct tokenizer *tokenizer; /* NULL: nothing can be answered */
    struct template_chat *chat;  /* NULL: chats cannot */
    struct local_wish wish[2];   /* its template's, without and with tools */
    uint64_t version;
    struct gauge held;
    struct gauge off[LOCAL_WAYS];    /* 0: trusted */
    struct gauge heard[LOCAL_WAYS];  /* 1: a peer switched it off */
    struct gauge shown[LOCAL_WAYS];  /* 1: the first difference is in the log */
    struct gauge credit[LOCAL_WAYS]; /* counts that agreed lately */
    struct gauge right[LOCAL_WAYS];  /* 1: some engine had what was predicted */
    struct gauge more[LOCAL_WAYS];   /* times that one had more, before that */
    struct gauge agreed[LOCAL_WAYS]; /* 1: a prompt's blocks were the same */
    struct gauge differs[LOCAL_WAYS]; /* prompts since whose were not */
    struct local_counts counts;
    char name[LOCAL_NAME_MAX];
    char place[LOCAL_PATH_MAX];
    char why[LOCAL_WHY_MAX];
    struct local_scratch scratches[LOCAL_SCRATCHES_MAX];
};

/* Buffers for this thread, from the place of that number on; NULL: all are
 * taken, or no memory. */
struct local_scratch *local_scratch_take(struct local_model *model,
                                         uint32_t first);

/* The place is free again. */
void local_scratch_give(struct local_scratch *scratch);

#endif
