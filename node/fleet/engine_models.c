/* Reads a list of models as a stream of JSON tokens, then sorts the names. */
#include "node/fleet/engine_models.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "node/text/json_pull.h"

/* A name may be as long unescaped as it was raw, and one NUL longer. */
#define NAME_ROOM (ENGINE_MODEL_NAME_MAX + 1)

struct entry {
    char id[NAME_ROOM];
    int id_len; /* -1: none, or over the limit */
    bool over;
    char parent[NAME_ROOM];
    int parent_len; /* likewise */
    bool adapter;
    enum engine_kind kind;
    uint64_t created;
    struct slice fact[MODEL_FACTS]; /* in the body */
};

/* An open list: names and bytes have room for all that body can hold. */
struct reader {
    struct json_pull pull;
    struct engine_models *models;
    size_t bytes_used;
    size_t bytes_room;
};

static struct slice
keep(struct reader *reader, struct slice text)
{
    char *copy = reader->models->bytes + reader->bytes_used;

    /* Each is a part of the body, none more than three times (an adapter's parent is a
     * fact of two names, and within one of them), and unescaped text is
     * never longer than it was there. */
    CHECK(reader->bytes_used + text.len <= reader->bytes_room);
    if (text.len != 0) {
        memcpy(copy, text.ptr, text.len);
    }
    reader->bytes_used += text.len;
    return (struct slice){.ptr = copy, .len = text.len};
}

static void
remember(struct reader *reader, const struct entry *entry, struct slice name,
         uint32_t own_at)
{
    struct engine_models *models = reader->models;
    struct engine_model *model = &models->model[models->count];

    if (name.len > ENGINE_MODEL_NAME_MAX ||
        models->count == ENGINE_MODELS_MAX) {
        models->left_out++;
        return;
    }
    models->count++;
    *model = (struct engine_model){
        .name = keep(reader, name),
        .adapter = entry->adapter,
        .own_at = own_at,
        .created = entry->created,
    };
    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        model->fact[i] = keep(reader, entry->fact[i]);
    }
}

/* Under its name, and an adapter of SGLang's under what it is asked for by: its
 * name alone means the base model there. */
static void
remember_names(struct reader *reader, const struct entry *entry)
{
    bool behind = entry->kind == ENGINE_SGLANG && entry->adapter;
    char both[2 * NAME_ROOM];

    remember(reader, entry, (struct slice){entry->id, (size_t)entry->id_len},
             behind ? (uint32_t)entry->id_len : 0);
    if (behind && entry->parent_len > 0) {
        int len = snprintf(both, sizeof both, "%.*s:%.*s", entry->parent_len,
                           entry->parent, entry->id_len, entry->id);
        remember(reader, entry, (struct slice){both, (size_t)len},
                 (uint32_t)entry->parent_len + 1);
    }
}

/* By whom a model is owned_by; TGI and others name the model's author. */
static enum engine_kind
kind_of(const struct json_pull *pull)
{
    static const struct {
        struct slice owner;
        enum engine_kind kind;
    } owners[] = {
        {{"vllm", 4}, ENGINE_VLLM},
        {{"sglang", 6}, ENGINE_SGLANG},
        {{"tensorrt_llm", 12}, ENGINE_TRTLLM},
        {{"llamacpp", 8}, ENGINE_LLAMACPP},
    };

    for (size_t i = 0; i < sizeof owners / sizeof *owners; i++) {
        if (json_pull_is(pull, owners[i].owner)) {
            return owners[i].kind;
        }
    }
    return ENGINE_OTHER;
}

/* Whatever the value of the key is, as it stands in the body; empty: no scalar,
 * or too long. Goes past it. */
static bool
read_fact(struct json_pull *pull, struct slice *out)
{
    const char *at = pull->bytes.ptr + pull->at;

    if (!json_pull_skip(pull)) {
        return false;
    }
    const char *end = pull->bytes.ptr + pull->at;
    while (at != end && strchr(": \t\r\n", *at) != NULL) {
        at++;
    }
    size_t len = (size_t)(end - at);
    bool good =
        len != 0 && len <= ENGINE_MODEL_FACT_MAX && *at != '{' && *at != '[';
    *out = (struct slice){.ptr = at, .len = good ? len : 0};
    return true;
}

/* A parent of any kind makes the entry an adapter. */
static void
note_fact(struct json_pull *value, enum pull_token token, enum model_fact fact,
          struct entry *entry)
{
    if (fact == MODEL_PARENT) {
        entry->adapter = token != PULL_NULL;
        entry->parent_len =
            token == PULL_STRING
                ? json_pull_copy(value, entry->parent, sizeof entry->parent)
                : -1;
    } else if (fact == MODEL_OWNED_BY && token == PULL_STRING) {
        entry->kind = kind_of(value);
    }
}

/* Takes the value of a key of one entry. */
static bool
read_member(struct json_pull *pull, struct entry *entry)
{
    struct json_pull value = *pull;
    enum pull_token token = json_pull_next(&value);

    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        enum model_fact fact = (enum model_fact)i;
        if (json_pull_is(pull, slice_of(model_fact_name(fact)))) {
            note_fact(&value, token, fact, entry);
            return read_fact(pull, &entry->fact[i]);
        }
    }
    if (json_pull_is(pull, SLICE("created"))) {
        bool told = token == PULL_NUMBER &&
                    json_pull_uint(&value, UINT64_MAX, &entry->created);
        entry->created = told ? entry->created : 0;
    } else if (json_pull_is(pull, SLICE("id")) && token == PULL_STRING) {
        entry->id_len = json_pull_copy(&value, entry->id, sizeof entry->id);
        entry->over = entry->id_len < 0;
    }
    return json_pull_skip(pull);
}

/* One object of `data`, its opening bracket taken. */
static bool
read_entry(struct reader *reader)
{
    struct entry entry = {.id_len = -1, .parent_len = -1, .kind = ENGINE_OTHER};
    struct engine_models *models = reader->models;
    enum pull_token token = json_pull_next(&reader->pull);

    for (; token == PULL_KEY; token = json_pull_next(&reader->pull)) {
        if (!read_member(&reader->pull, &entry)) {
            return false;
        }
    }
    if (entry.kind != ENGINE_OTHER) {
        models->kind = entry.kind;
    }
    if (entry.over) {
        models->left_out++;
    } else if (entry.id_len > 0) {
        remember_names(reader, &entry);
    }
    return token == PULL_OBJECT_END;
}

static bool
read_data(struct reader *reader)
{
    enum pull_token token = json_pull_next(&reader->pull);

    for (; token != PULL_ARRAY_END; token = json_pull_next(&reader->pull)) {
        if (!(token == PULL_OBJECT ? read_entry(reader)
                                   : json_pull_skip(&reader->pull))) {
            return false;
        }
    }
    return true;
}

static int
compare_names(const void *left, const void *right)
{
    const struct engine_model *a = left;
    const struct engine_model *b = right;

    return slice_compare(a->name, b->name);
}

static void
sort_names(struct engine_models *models)
{
    size_t kept = 0;

    CHECK(models->count <= ENGINE_MODELS_MAX);
    qsort(models->model, models->count, sizeof *models->model, compare_names);
    for (size_t i = 0; i < models->count; i++) {
        const struct engine_model *model = &models->model[i];
        struct engine_model *last = kept > 0 ? &models->model[kept - 1] : NULL;
        if (last != NULL && slice_equal(model->name, last->name)) {
            last->adapter = last->adapter && model->adapter;
        } else {
            models->model[kept++] = *model;
        }
    }
    models->count = kept;
}

/* The document: an object with `data`, an array. */
static bool
read_document(struct reader *reader)
{
    struct json_pull *pull = &reader->pull;
    bool found = false;

    if (json_pull_next(pull) != PULL_OBJECT) {
        return false;
    }
    enum pull_token token = json_pull_next(pull);
    for (; token == PULL_KEY; token = json_pull_next(pull)) {
        if (found || !json_pull_is(pull, SLICE("data"))) {
            if (!json_pull_skip(pull)) {
                return false;
            }
        } else if (json_pull_next(pull) != PULL_ARRAY || !read_data(reader)) {
            return false;
        } else {
            found = true;
        }
    }
    return found && token == PULL_OBJECT_END &&
           json_pull_next(pull) == PULL_END;
}

int
engine_models_read(struct slice body, struct engine_models *models)
{
    struct reader reader = {.models = models, .bytes_room = 3 * body.len};

    *models = (struct engine_models){.kind = ENGINE_OTHER};
    models->model = calloc(ENGINE_MODELS_MAX, sizeof *models->model);
    models->bytes = malloc(3 * body.len + 1);
    if (models->model == NULL || models->bytes == NULL) {
        engine_models_fini(models);
        return -ENOMEM;
    }
    json_pull_init(&reader.pull, body);
    if (!read_document(&reader)) {
        engine_models_fini(models);
        return ENGINE_MODELS_E_BAD;
    }
    sort_names(models);
    return 0;
}

void
engine_models_fini(struct engine_models *models)
{
    free(models->model);
    free(models->bytes);
    *models = (struct engine_models){.kind = ENGINE_OTHER};
}

static bool
same_model(const struct engine_model *a, const struct engine_model *b)
{
    bool same = slice_equal(a->name, b->name) && a->adapter == b->adapter &&
                a->own_at == b->own_at;

    for (unsigned i = 0; i < MODEL_FACTS; i++) {
        same = same && slice_equal(a->fact[i], b->fact[i]);
    }
    return same;
}

bool
engine_models_equal(const struct engine_models *a,
                    const struct engine_models *b)
{
    if (a->count != b->count) {
        return false;
    }
    for (size_t i = 0; i < a->count; i++) {
        if (!same_model(&a->model[i], &b->model[i])) {
            return false;
        }
    }
    return true;
}
