/* A model made of its files, and what threads share of it. */
#include "node/local/local_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "index/index.h"
#include "node/local/local_internal.h"

const char *
local_way_name(enum local_way way)
{
    static const char *const names[LOCAL_WAYS] = {
        [LOCAL_TEXT] = "text",
        [LOCAL_CHAT] = "chat",
        [LOCAL_CHAT_TOOLS] = "chat_tools",
        [LOCAL_RESPONSES] = "responses",
        [LOCAL_MESSAGES] = "messages",
        [LOCAL_MESSAGES_TOOLS] = "messages_tools",
        [LOCAL_EMBEDDINGS] = "embeddings",
        [LOCAL_TEXT_OPTIONS] = "text_options",
        [LOCAL_CHAT_OPTIONS] = "chat_options",
        [LOCAL_RESPONSES_OPTIONS] = "responses_options",
        [LOCAL_MESSAGES_OPTIONS] = "messages_options",
        [LOCAL_EMBEDDINGS_OPTIONS] = "embeddings_options",
    };

    CHECK(way < LOCAL_WAYS);
    return names[way];
}

static void
copy_text(char *to, size_t room, struct slice text)
{
    size_t len = text.len < room ? text.len : room - 1;

    if (len != 0) {
        memcpy(to, text.ptr, len);
    }
    to[len] = '\0';
}

/* Over all that changes tokens. */
uint64_t
local_parts_digest(const struct local_parts *parts)
{
    const struct slice all[] = {parts->json, parts->ranks, parts->pattern,
                                parts->config, parts->template};
    uint64_t key = parts->format;

    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++) {
        uint64_t size = all[i].len;
        uint64_t part = key_digest(all[i]);
        key = key_next(key, &size, sizeof size);
        key = key_next(key, &part, sizeof part);
    }
    if (parts->unread.len != 0) {
        uint64_t part = key_digest(parts->unread);
        key = key_next(key, &part, sizeof part);
    }
    return key != 0 ? key : 1;
}

/* One of added_tokens_decoder: {"151643": {"content": "<|endoftext|>"}}. */
static bool
read_special(const struct json_member *member,
             struct tokenizer_special *special)
{
    struct slice key = json_tree_slice(&member->key);
    const struct json_value *content =
        json_tree_member(&member->value, "content");
    uint64_t id = 0;

    for (size_t i = 0; i < key.len; i++) {
        if (key.ptr[i] < '0' || key.ptr[i] > '9' || id > UINT32_MAX / 16) {
            return false;
        }
        id = id * 10 + (uint64_t)(key.ptr[i] - '0');
    }
    if (key.len == 0 || content == NULL || content->kind != JSON_STRING) {
        return false;
    }
    special->id = (uint32_t)id;
    special->text = json_tree_slice(content);
    return true;
}

/* A .tiktoken file knows no special tokens: they are in tokenizer_config.json,
 * as transformers keeps them. Without them texts have tokens, and chats none. */
static struct tokenizer *
tokenizer_of_ranks(struct local_model *model, const struct local_parts *parts,
                   char *why)
{
    struct tokenizer_special *specials = NULL;
    const struct json_value *added = NULL;
    struct json_tree_fault fault;
    struct json_value config;
    struct arena arena;
    size_t count = 0;

    arena_init(&arena, parts->config.len * 32 + (1U << 20));
    if (json_tree_read(parts->config, &arena, &config, &fault) &&
        config.kind == JSON_OBJECT) {
        added = json_tree_get(&config, SLICE("added_tokens_decoder"));
    }
    if (added != NULL && added->kind == JSON_OBJECT && added->len != 0) {
        specials = arena_take(&arena, added->len * sizeof *specials);
    }
    while (specials != NULL && count < added->len &&
           read_special(&added->as.members[count], &specials[count])) {
        count++;
    }
    if (specials == NULL || count < added->len) {
        (void)snprintf(model->why, sizeof model->why,
                       "tokenizer_config.json: added_tokens_decoder is missing "
                       "or not understood, and a .tiktoken file has no special "
                       "tokens");
        count = 0;
    }
    struct tokenizer *tokenizer = tokenizer_new_tiktoken(
        parts->ranks, parts->pattern, specials, count, why);
    arena_fini(&arena);
    return tokenizer;
}

static void
make_tokenizer(struct local_model *model, const struct local_parts *parts)
{
    char why[TOKENIZER_WHY_MAX] = "";

    if (parts->json.len != 0) {
        model->tokenizer = tokenizer_new(parts->json, why);
    } else if (parts->ranks.len != 0) {
        model->tokenizer = tokenizer_of_ranks(model, parts, why);
    } else {
        (void)snprintf(why, sizeof why, "there is no tokenizer.json");
    }
    if (model->tokenizer == NULL) {
        (void)snprintf(model->why, sizeof model->why, "tokenizer: %s", why);
    }
}

static void
make_chat(struct local_model *model, const struct local_parts *parts)
{
    struct template_error error;

    if (model->tokenizer == NULL || model->why[0] != '\0') {
        return;
    }
    model->chat = template_chat_new(parts->config, parts->template, &error);
    if (model->chat != NULL) {
        for (int tools = 0; tools < 2; tools++) {
            struct local_wish *wish = &model->wish[tools];
            for (int rule = 0; rule < TEMPLATE_RULES; rule++) {
                wish->parts[rule] =
                    parts->format == LOCAL_FORMAT_AUTO
                        ? template_chat_takes_parts(model->chat, tools != 0,
                                                    (enum template_rule)rule)
                        : parts->format == LOCAL_FORMAT_OPENAI;
            }
            wish->developer =
                template_chat_quotes(model->chat, tools != 0, "developer");
        }
        return;
    }
    if (error.line != 0) {
        (void)snprintf(model->why, sizeof model->why,
                       "chat template, line %u: %s", (unsigned)error.line,
                       error.text);
    } else {
        (void)snprintf(model->why, sizeof model->why, "chat template: %s",
                       error.text);
    }
}

struct local_model *
local_model_new(const struct local_parts *parts)
{
    struct local_model *model = aligned_alloc(64, sizeof *model);

    if (model == NULL) {
        return NULL;
    }
    memset(model, 0, sizeof *model);
    copy_text(model->name, sizeof model->name, parts->name);
    copy_text(model->place, sizeof model->place, parts->place);
    model->version = local_parts_digest(parts);
    if (parts->unread.len != 0) {
        (void)snprintf(model->why, sizeof model->why,
                       "%.*s: cannot be read, is empty or too large",
                       (int)parts->unread.len, parts->unread.ptr);
    } else {
        make_tokenizer(model, parts);
        make_chat(model, parts);
    }
    for (uint32_t i = 0; i < LOCAL_SCRATCHES_MAX; i++) {
        latch_arm(&model->scratches[i].free);
    }
    return model;
}

void
local_model_free(struct local_model *model)
{
    if (model == NULL) {
        return;
    }
    CHECK(!local_model_is_held(model));
    for (uint32_t i = 0; i < LOCAL_SCRATCHES_MAX; i++) {
        tokenizer_scratch_free(model->scratches[i].scratch);
    }
    template_chat_free(model->chat);
    tokenizer_free(model->tokenizer);
    free(model);
}

const char *
local_model_name(const struct local_model *model)
{
    return model->name;
}

const char *
local_model_place(const struct local_model *model)
{
    return model->place;
}

const char *
local_model_why(const struct local_model *model)
{
    return model->why;
}

uint64_t
local_model_version(const struct local_model *model)
{
    return model->version;
}

size_t
local_model_bytes(const struct local_model *model)
{
    return sizeof *model +
           (model->tokenizer != NULL ? tokenizer_bytes(model->tokenizer) : 0);
}

static bool
is_of_text(enum local_way way)
{
    return way == LOCAL_TEXT || way == LOCAL_TEXT_OPTIONS ||
           way == LOCAL_EMBEDDINGS || way == LOCAL_EMBEDDINGS_OPTIONS;
}

bool
local_model_can(const struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    return model->tokenizer != NULL &&
           (is_of_text(way) || model->chat != NULL) &&
           gauge_read(&model->off[way]) == 0;
}

bool
local_model_distrust(struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    return gauge_claim(&model->off[way]);
}

bool
local_model_hear_distrust(struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    if (!gauge_claim(&model->off[way])) {
        return false;
    }
    gauge_set(&model->heard[way], 1);
    return true;
}

bool
local_model_found_distrust(const struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    return gauge_read(&model->off[way]) != 0 &&
           gauge_read(&model->heard[way]) == 0;
}

bool
local_model_counted(struct local_model *model, enum local_way way, bool alike)
{
    CHECK(way < LOCAL_WAYS);
    uint32_t credit = gauge_read(&model->credit[way]);

    if (alike && credit < LOCAL_CREDIT_MAX) {
        gauge_add(&model->credit[way], 1);
    } else if (!alike && credit >= LOCAL_MISCOUNT) {
        gauge_add(&model->credit[way], -(int32_t)LOCAL_MISCOUNT);
    }
    return alike || credit >= LOCAL_MISCOUNT;
}

bool
local_model_judge(struct local_model *model, enum local_way way,
                  bool as_predicted, bool more)
{
    CHECK(way < LOCAL_WAYS);
    if (as_predicted) {
        (void)gauge_claim(&model->right[way]);
    } else if (more && gauge_read(&model->right[way]) == 0) {
        gauge_add(&model->more[way], 1);
        return gauge_read(&model->more[way]) < LOCAL_MORE_MAX;
    }
    return true;
}

bool
local_model_compared(struct local_model *model, enum local_way way,
                     enum local_likeness likeness)
{
    CHECK(way < LOCAL_WAYS);
    switch (likeness) {
    case LOCAL_AGREES:
        counter_add(&model->counts.agreed, 1);
        gauge_set(&model->agreed[way], 1);
        gauge_set(&model->differs[way], 0);
        break;
    case LOCAL_DIFFERS:
        counter_add(&model->counts.differed, 1);
        gauge_add(&model->differs[way], 1);
        return gauge_read(&model->differs[way]) < LOCAL_DIFFER_MAX;
    case LOCAL_UNKNOWN:
        break;
    }
    return true;
}

bool
local_model_wants_sample(const struct local_model *model, enum local_way way)
{
    return local_model_can(model, way) && gauge_read(&model->agreed[way]) == 0;
}

void
local_model_renew(struct local_model *model)
{
    for (uint32_t way = 0; way < LOCAL_WAYS; way++) {
        gauge_set(&model->agreed[way], 0);
    }
}

bool
local_model_owes_difference(const struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    return gauge_read(&model->off[way]) != 0 &&
           gauge_read(&model->shown[way]) == 0;
}

bool
local_model_pay_difference(struct local_model *model, enum local_way way)
{
    CHECK(way < LOCAL_WAYS);
    return gauge_claim(&model->shown[way]);
}

void
local_model_hold(struct local_model *model)
{
    gauge_add(&model->held, 1);
}

void
local_model_leave(struct local_model *model)
{
    CHECK(local_model_is_held(model));
    gauge_add(&model->held, -1);
}

bool
local_model_is_held(const struct local_model *model)
{
    return gauge_read(&model->held) != 0;
}

struct qsbr_node *
local_model_retired(struct local_model *model)
{
    return &model->retired;
}

struct local_model *
local_model_of(struct qsbr_node *retired)
{
    return (struct local_model *)retired; /* its first member */
}

struct local_counts *
local_model_counts(struct local_model *model)
{
    return &model->counts;
}

struct local_scratch *
local_scratch_take(struct local_model *model, uint32_t first)
{
    CHECK(model->tokenizer != NULL);
    for (uint32_t i = 0; i < LOCAL_SCRATCHES_MAX; i++) {
        struct local_scratch *place =
            &model->scratches[(first + i) % LOCAL_SCRATCHES_MAX];
        if (!latch_take(&place->free)) {
            continue;
        }
        if (place->scratch == NULL) {
            place->scratch = tokenizer_scratch_new(model->tokenizer);
        }
        if (place->scratch != NULL) {
            return place;
        }
        latch_arm(&place->free);
        return NULL;
    }
    return NULL;
}

void
local_scratch_give(struct local_scratch *scratch)
{
    latch_arm(&scratch->free);
}
