/* A model's templates: from its files, and with a request's fields. */
#include "node/template/template_chat.h"
#include "node/template/template_text_internal.h"

#include <stdio.h>
#include <stdlib.h>

#define NAMED_MAX  32
#define KWARGS_MAX 256U /* each is compared with those before it */
#define TAG        "CONTINUE_FINAL_MESSAGE_TAG"
#define TAG_SPACE  "CONTINUE_FINAL_MESSAGE_TAG "

struct named {
    struct slice name;
    struct slice source;
    struct template *compiled;
};

struct template_chat {
    struct arena arena;
    struct named named[NAMED_MAX]; /* the first of them, when it is alone */
    uint32_t count;
    const struct json_member *tokens; /* bos_token and its like: strings */
    uint32_t tokens_count;
};

/* One request on its way into a template. */
struct job {
    struct arena arena;
    const struct named *named;
    struct json_member *fields; /* what the template sees */
    uint32_t fields_count;
    struct json_value messages;
    bool tagged;         /* the last message is continued: */
    struct slice ending; /* its text */
    struct template_error *error;
};

static bool
fail(struct template_error *error, const char *why)
{
    error->line = 0;
    (void)snprintf(error->text, sizeof error->text, "%s", why);
    return false;
}

static void *
take(struct arena *arena, size_t n, struct template_error *error)
{
    void *room = arena_take(arena, n);

    if (room == NULL) {
        (void)fail(error, "out of memory");
    }
    return room;
}

static struct slice
copy(struct template_chat *chat, struct slice text,
     struct template_error *error)
{
    char *to = take(&chat->arena, text.len, error);

    if (to == NULL || text.len == 0) {
        return (struct slice){to, 0};
    }
    memcpy(to, text.ptr, text.len);
    return (struct slice){to, text.len};
}

static bool
add_template(struct template_chat *chat, struct slice name, struct slice source,
             struct template_error *error)
{
    struct named *named = &chat->named[chat->count];

    if (chat->count == NAMED_MAX) {
        return fail(error, "too many chat templates");
    }
    *named = (struct named){.name = name, .source = source};
    named->compiled = template_compile(source, error);
    chat->count += named->compiled != NULL;
    return named->compiled != NULL;
}

/* The text of a token: a string, or an object with its content. */
static const struct json_value *
token_text(const struct json_value *token)
{
    if (token->kind == JSON_OBJECT) {
        token = json_tree_get(token, SLICE("content"));
    }
    return token != NULL && token->kind == JSON_STRING ? token : NULL;
}

static bool
ends_with_token(struct slice name)
{
    struct slice end = SLICE("_token");

    return name.len > end.len && slice_ends(name, end);
}

/* Keeps the members that are called ..._token. */
static bool
read_tokens(struct template_chat *chat, const struct json_value *config,
            struct template_error *error)
{
    struct json_member *tokens =
        take(&chat->arena, (config->len + 1U) * sizeof *tokens, error);

    if (tokens == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < config->len; i++) {
        const struct json_member *member = &config->as.members[i];
        const struct json_value *text = token_text(&member->value);
        if (text != NULL && ends_with_token(json_tree_slice(&member->key))) {
            tokens[chat->tokens_count++] =
                (struct json_member){member->key, *text};
        }
    }
    chat->tokens = tokens;
    return true;
}

static bool
read_named(struct template_chat *chat, const struct json_value *list,
           struct template_error *error)
{
    for (uint32_t i = 0; i < list->len; i++) {
        const struct json_value *item = &list->as.items[i];
        const struct json_value *name = NULL;
        const struct json_value *source = NULL;
        if (item->kind == JSON_OBJECT) {
            name = json_tree_get(item, SLICE("name"));
            source = json_tree_get(item, SLICE("template"));
        }
        if (name == NULL || source == NULL || name->kind != JSON_STRING ||
            source->kind != JSON_STRING) {
            return fail(error, "chat_template: expected name and template");
        }
        if (!add_template(chat, json_tree_slice(name), json_tree_slice(source),
                          error)) {
            return false;
        }
    }
    return true;
}

static bool
read_config(struct template_chat *chat, struct slice config, bool templates,
            struct template_error *error)
{
    struct json_tree_fault fault;
    struct json_value tree;
    const struct json_value *found = NULL;

    config = copy(chat, config, error);
    if (!json_tree_read(config, &chat->arena, &tree, &fault) ||
        tree.kind != JSON_OBJECT) {
        return fail(error, "tokenizer_config.json: expected a JSON object");
    }
    if (!read_tokens(chat, &tree, error)) {
        return false;
    }
    found = json_tree_get(&tree, SLICE("chat_template"));
    if (!templates || found == NULL || found->kind == JSON_NULL) {
        return true;
    }
    if (found->kind == JSON_STRING) {
        return add_template(chat, SLICE("default"), json_tree_slice(found),
                            error);
    }
    if (found->kind == JSON_ARRAY) {
        return read_named(chat, found, error);
    }
    return fail(error, "chat_template: expected a text or a list");
}

struct template_chat *
template_chat_new(struct slice config, struct slice source,
                  struct template_error *error)
{
    struct template_chat *chat = calloc(1, sizeof *chat);
    bool fine = false;

    *error = (struct template_error){.line = 0};
    if (chat == NULL) {
        (void)fail(error, "out of memory");
        return NULL;
    }
    arena_init(&chat->arena, TEMPLATE_CHAT_MEMORY);
    fine = (config.len == 0 ||
            read_config(chat, config, source.len == 0, error)) &&
           (source.len == 0 || add_template(chat, SLICE("default"),
                                            copy(chat, source, error), error));
    if (fine && chat->count == 0) {
        fine = fail(error, "no chat template");
    }
    if (!fine) {
        template_chat_free(chat);
        return NULL;
    }
    return chat;
}

void
template_chat_free(struct template_chat *chat)
{
    if (chat == NULL) {
        return;
    }
    for (uint32_t i = 0; i < chat->count; i++) {
        template_free(chat->named[i].compiled);
    }
    arena_fini(&chat->arena);
    free(chat);
}

/* --- a request */

/* A member that is there and not null, or NULL. */
static const struct json_value *
given(const struct json_value *object, const char *name)
{
    const struct json_value *value = json_tree_member(object, name);

    return value != NULL && value->kind != JSON_NULL ? value : NULL;
}

static bool
truth(const struct json_value *value, bool preset)
{
    if (value == NULL) {
        return preset;
    }
    return value->kind == JSON_BOOL || value->kind == JSON_INT
               ? value->as.integer != 0
               : value->kind != JSON_NULL && value->len > 0;
}

static const struct named *
choose(const struct template_chat *chat, bool tools)
{
    const struct named *chosen = NULL;

    for (uint32_t i = 0; i < chat->count; i++) {
        bool tool_use = slice_equal(chat->named[i].name, SLICE("tool_use"));
        if ((tool_use && tools) ||
            (chosen == NULL &&
             slice_equal(chat->named[i].name, SLICE("default")))) {
            chosen = &chat->named[i];
        }
        if (tool_use && tools) {
            break;
        }
    }
    return chosen;
}

bool
template_chat_takes_parts(const struct template_chat *chat, bool tools,
                          enum template_rule rule)
{
    const struct named *named = choose(chat, tools);

    return named != NULL && template_takes_parts(named->compiled, rule);
}

bool
template_chat_quotes(const struct template_chat *chat, bool tools,
                     const char *name)
{
    const struct named *named = choose(chat, tools);
    struct slice all = named != NULL ? named->source : SLICE("");
    size_t len = strlen(name);

    for (const char *at = all.ptr; at != NULL; at++) {
        at = memmem(at, (size_t)(all.ptr + all.len - at), name, len);
        if (at == NULL) {
            break;
        }
        if (at > all.ptr && at + len < all.ptr + all.len && at[-1] == at[len] &&
            (at[len] == '"' || at[len] == '\'')) {
            return true;
        }
    }
    return false;
}

/* A member put into a copy of a message; `first`: before all others, unless it
 * is there already. Room for two more is behind the members. */
static void
put_member(struct json_value *message, struct json_member *members,
           const char *name, struct json_value value, bool first)
{
    struct json_value key = json_tree_text(slice_of(name));

    for (uint32_t i = 0; i < message->len; i++) {
        if (slice_equal(json_tree_slice(&members[i].key), slice_of(name))) {
            if (!first) {
                members[i].value = value;
            }
            return;
        }
    }
    if (first) {
        memmove(members + 1, members, message->len * sizeof *members);
    }
    members[first ? 0 : message->len] = (struct json_member){key, value};
    message->len++;
}

static const char *const reasoning_fields[] = {"reasoning_content", "thinking",
                                               "reasoning"};

/* A copy of a message to change, under all names its reasoning may have. */
static struct json_member *
copy_message(struct job *job, struct json_value *message)
{
    struct json_member *members =
        take(&job->arena, (message->len + 3U) * sizeof *members, job->error);
    const struct json_value *reasoning = NULL;

    if (members == NULL) {
        return NULL;
    }
    for (int i = 2; i >= 0; i--) {
        const struct json_value *found = given(message, reasoning_fields[i]);
        reasoning = found != NULL ? found : reasoning;
    }
    if (message->len > 0) {
        memcpy(members, message->as.members, message->len * sizeof *members);
    }
    message->mark = 0;
    if (reasoning != NULL) {
        put_member(message, members, "thinking", *reasoning, true);
        put_member(message, members, "reasoning_content", *reasoning, false);
    }
    message->as.members = members;
    return members;
}

static bool
read_messages(struct job *job, const struct json_value *request)
{
    const struct json_value *messages = given(request, "messages");
    struct json_value *items = NULL;

    if (messages == NULL || messages->kind != JSON_ARRAY) {
        return fail(job->error, "messages: expected a list");
    }
    items = take(&job->arena, (messages->len + 1U) * sizeof *items, job->error);
    for (uint32_t i = 0; items != NULL && i < messages->len; i++) {
        items[i] = messages->as.items[i];
        if (items[i].kind != JSON_OBJECT) {
            return fail(job->error, "messages: expected objects");
        }
        if (copy_message(job, &items[i]) == NULL) {
            return false;
        }
    }
    job->messages = *messages;
    job->messages.as.items = items;
    return items != NULL;
}

/* A text with the tag behind it. */
static bool
tag(struct job *job, struct json_value *value)
{
    struct slice text = json_tree_slice(value);
    char *to = take(&job->arena, text.len + sizeof TAG_SPACE, job->error);

    if (to == NULL) {
        return false;
    }
    if (text.len > 0) {
        memcpy(to, text.ptr, text.len);
    }
    memcpy(to + text.len, TAG_SPACE, sizeof TAG_SPACE - 1);
    *value =
        json_tree_text((struct slice){to, text.len + sizeof TAG_SPACE - 1});
    return true;
}

/* Tags the last part of a content that has a text. */
static bool
tag_parts(struct job *job, struct json_value *content)
{
    struct json_value *parts =
        take(&job->arena, (content->len + 1U) * sizeof *parts, job->error);

    if (parts == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < content->len; i++) {
        parts[i] = content->as.items[i];
    }
    content->as.items = parts;
    for (uint32_t i = content->len; i-- > 0;) {
        const struct json_value *text = json_tree_member(&parts[i], "text");
        struct json_member *members = NULL;
        struct json_value tagged;
        if (text == NULL || text->kind != JSON_STRING) {
            continue;
        }
        job->ending = json_tree_slice(text);
        tagged = *text;
        members = copy_message(job, &parts[i]);
        if (members == NULL || !tag(job, &tagged)) {
            return false;
        }
        put_member(&parts[i], members, "text", tagged, false);
        return true;
    }
    return fail(job->error, "continue_final_message: no text to continue");
}

/* Marks the end of the last message, so that the text can be cut there. */
static bool
tag_last(struct job *job, const struct json_value *how)
{
    struct slice field =
        how->kind == JSON_STRING ? json_tree_slice(how) : SLICE("content");
    struct json_value *last = NULL;
    struct json_value *items = NULL;

    job->tagged = true;
    if (job->messages.len == 0) {
        return fail(job->error, "continue_final_message: no messages");
    }
    /* Ours since read_messages(). */
    items = (struct json_value *)(uintptr_t)job->messages.as.items;
    last = &items[job->messages.len - 1];
    for (int i = 0; i < 3; i++) {
        if (slice_equal(field, slice_of(reasoning_fields[i]))) {
            return fail(job->error, "continuing a message's reasoning is not "
                                    "supported");
        }
    }
    if (tpl_text_find(job->named->source, field, 0) == SIZE_MAX) {
        return fail(job->error,
                    "continue_final_message: the template has no such field");
    }
    for (uint32_t i = 0; i < last->len; i++) {
        struct json_member *member =
            (struct json_member *)(uintptr_t)&last->as.members[i];
        if (!slice_equal(json_tree_slice(&member->key), field)) {
            continue;
        }
        if (member->value.kind == JSON_ARRAY) {
            return tag_parts(job, &member->value);
        }
        if (member->value.kind == JSON_STRING) {
            job->ending = json_tree_slice(&member->value);
            return tag(job, &member->value);
        }
    }
    return fail(job->error, "continue_final_message: no text to continue");
}

static void
add_field(struct job *job, struct json_value key, struct json_value value)
{
    for (uint32_t i = 0; i < job->fields_count; i++) {
        if (slice_equal(json_tree_slice(&job->fields[i].key),
                        json_tree_slice(&key))) {
            job->fields[i].value = value;
            return;
        }
    }
    job->fields[job->fields_count++] = (struct json_member){key, value};
}

static void
add_named(struct job *job, const char *name, const struct json_value *value)
{
    add_field(job, json_tree_text(slice_of(name)),
              value != NULL ? *value : (struct json_value){.kind = JSON_NULL});
}

/* Whether a field is missing, or a list of objects. */
static bool
are_objects(struct job *job, const struct json_value *request, const char *name)
{
    const struct json_value *list = given(request, name);
    bool are = list == NULL || list->kind == JSON_ARRAY;

    for (uint32_t i = 0; are && list != NULL && i < list->len; i++) {
        are = list->as.items[i].kind == JSON_OBJECT;
    }
    return are || fail(job->error, "tools and documents: expected lists of "
                                   "objects");
}

/* What the template sees, the stronger behind the weaker. */
static bool
gather_fields(struct job *job, const struct template_chat *chat,
              const struct json_value *request)
{
    const struct json_value *kwargs = given(request, "chat_template_kwargs");
    const struct json_value *effort = given(request, "reasoning_effort");
    const struct json_value *prompt = given(request, "add_generation_prompt");
    const struct json_value *documents = given(request, "documents");
    struct json_value generate = {.kind = JSON_BOOL};
    uint32_t more =
        kwargs != NULL && kwargs->kind == JSON_OBJECT ? kwargs->len : 0;

    if (more > KWARGS_MAX) {
        return fail(job->error, "chat_template_kwargs: too many");
    }
    job->fields = take(&job->arena,
                       (chat->tokens_count + more + 8U) * sizeof *job->fields,
                       job->error);
    if (job->fields == NULL) {
        return false;
    }
    for (uint32_t i = 0; i < chat->tokens_count; i++) {
        add_field(job, chat->tokens[i].key, chat->tokens[i].value);
    }
    if (effort != NULL) {
        add_named(job, "reasoning_effort", effort);
    }
    for (uint32_t i = 0; i < more; i++) {
        add_field(job, kwargs->as.members[i].key, kwargs->as.members[i].value);
    }
    if (prompt == NULL && more > 0) {
        prompt = given(kwargs, "add_generation_prompt");
    }
    if (documents == NULL && more > 0) {
        documents = given(kwargs, "documents");
    }
    generate.as.integer = truth(prompt, !job->tagged);
    if (job->tagged && generate.as.integer != 0) {
        return fail(job->error, "continue_final_message and "
                                "add_generation_prompt are not compatible");
    }
    add_named(job, "messages", &job->messages);
    add_named(job, "tools", given(request, "tools"));
    add_named(job, "documents", documents);
    add_named(job, "add_generation_prompt", &generate);
    return true;
}

/* Cuts the text where the continued message ends. */
static bool
cut(struct job *job, struct buf *out, size_t start)
{
    struct slice text = {out->ptr + start, out->len - start};
    struct slice ending = tpl_text_lstrip(tpl_text_rstrip(job->ending));
    size_t at = tpl_text_rfind(text, SLICE(TAG), text.len);

    if (at == SIZE_MAX || tpl_text_find(text, ending, 0) == SIZE_MAX) {
        return fail(job->error,
                    "continue_final_message: the final message does "
                    "not appear in the text");
    }
    if (text.len - at < sizeof TAG_SPACE - 1 ||
        memcmp(text.ptr + at, TAG_SPACE, sizeof TAG_SPACE - 1) != 0) {
        at = tpl_text_rstrip((struct slice){text.ptr, at}).len;
    }
    out->len = start + at;
    return true;
}

static bool
run_job(struct job *job, const struct template_chat *chat,
        const struct json_value *request, const struct template_limits *limits,
        const struct template_clock *clock, struct buf *out)
{
    const struct json_value *how = given(request, "continue_final_message");
    struct json_value context = {.kind = JSON_OBJECT};
    size_t start = out->len;

    job->named = choose(chat, given(request, "tools") != NULL);
    if (job->named == NULL) {
        return fail(job->error, "no template is called default");
    }
    if (!are_objects(job, request, "tools") ||
        !are_objects(job, request, "documents") ||
        !read_messages(job, request) ||
        (truth(how, false) && !tag_last(job, how)) ||
        !gather_fields(job, chat, request)) {
        return false;
    }
    context.len = job->fields_count;
    context.as.members = job->fields;
    if (!template_render(job->named->compiled, &context, limits, clock, out,
                         job->error)) {
        return false;
    }
    if (job->tagged && !cut(job, out, start)) {
        out->len = start;
        return false;
    }
    return true;
}

bool
template_chat_render(const struct template_chat *chat,
                     const struct json_value *request,
                     const struct template_limits *limits,
                     const struct template_clock *clock, struct buf *out,
                     struct template_error *error)
{
    struct job job = {.error = error};
    bool fine = false;

    *error = (struct template_error){.line = 0};
    if (request->kind != JSON_OBJECT) {
        return fail(error, "expected a JSON object");
    }
    arena_init(&job.arena, limits->memory_bytes);
    fine = run_job(&job, chat, request, limits, clock, out);
    arena_fini(&job.arena);
    return fine;
}
