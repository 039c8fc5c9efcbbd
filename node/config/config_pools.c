/* Where engines are made: from text, and back to text. */
#include "node/config/config_pools_internal.h"

#include <string.h>

#include "node/config/config_schema.h"
#include "node/config/config_value_internal.h"

#define WANT_POOL \
    "NAME,KEY=VALUE,... such as fra,command=/usr/bin/fra,island=eu/fra,max=8"

/* What was wrong with a value, by the row of its key. */
static const char *const wants[CONFIG_POOL_WORKER + 1] = {
    "a URL such as http://10.0.0.1:7000/engines as hook of a pool",
    "a file as token_file of a pool",
    "a program as command of a pool",
    "[NAMESPACE/]NAME as kubernetes of a pool",
    "an island such as eu/fra as island of a pool",
    "a number such as 2.5 as price of a pool",
    "a number up to 1024 as min of a pool",
    "a number up to 1024 as max of a pool",
    "a worker such as http://vllm-{}:8000 as worker of a pool",
};

_Static_assert(CONFIG_WORKERS_MAX == 1024, "as the texts say");
_Static_assert(SCALE_POOL_MAX == 32 && SCALE_POOLS_MAX == 16, "likewise");
_Static_assert(SCALE_POOL_MAX <= CONFIG_LABEL_MAX, "it is a label of workers");

/* What is not said is so. */
static const struct config_scale_pool unsaid = {.max = CONFIG_WORKERS_MAX};

static bool
is_name(struct slice text)
{
    static const struct config_key label = {.type = CONFIG_LABEL, .offset = 0};
    char scratch[CONFIG_LABEL_MAX];

    return text.len != 0 && text.len < SCALE_POOL_MAX &&
           memchr(text.ptr, '=', text.len) == NULL &&
           config_value_set(&label, text, scratch);
}

/* One KEY=VALUE, taken off the front of text. */
static const char *
take_key(struct slice *text, uint32_t *seen, struct config_scale_pool *pool)
{
    struct slice rest = *text;
    struct slice value = slice_take(text, ',');
    struct slice name = slice_take(&value, '=');
    const struct config_key *key =
        config_schema_find(&config_schema_pool, name);

    if (key == NULL || value.ptr == NULL) {
        return WANT_POOL "; keys are hook, token_file, command, kubernetes, "
                         "island, price, min, max, and last worker";
    }
    size_t row = (size_t)(key - config_schema_pool.keys);
    if (row == CONFIG_POOL_WORKER) { /* with all commas that follow */
        (void)slice_take(&rest, '=');
        value = rest;
        text->len = 0;
    }
    if ((*seen >> row & 1) != 0) {
        return "each key of a pool once";
    }
    *seen |= UINT32_C(1) << row;
    return config_value_set(key, value, pool) ? NULL : wants[row];
}

static const char *
add(struct config_scale_pools *pools, struct slice text)
{
    struct config_scale_pool pool = unsaid;
    struct slice name = slice_take(&text, ',');
    const char *want = is_name(name) ? NULL : WANT_POOL;
    uint32_t seen = 0;

    CHECK(pools->count <= SCALE_POOLS_MAX);
    while (want == NULL && text.len != 0) {
        want = take_key(&text, &seen, &pool);
    }
    if (want != NULL) {
        return want;
    }
    memcpy(pool.name, name.ptr, name.len);
    for (uint32_t i = 0; i < pools->count; i++) {
        if (strcmp(pools->pool[i].name, pool.name) == 0) {
            return "each pool once";
        }
    }
    if (pools->count == SCALE_POOLS_MAX) {
        return "at most 16 pools";
    }
    pools->pool[pools->count++] = pool;
    return NULL;
}

const char *
config_pools_read(struct slice text, struct config_scale_pools *pools)
{
    struct config_scale_pools read = {.count = 0};
    struct slice left;
    struct slice one;
    const char *want = config_list_begin(text, &left) ? NULL : WANT_POOL;

    while (want == NULL && config_list_next(&left, &one)) {
        want = add(&read, one);
    }
    if (want == NULL) {
        *pools = read;
    }
    return want;
}

const char *
config_pools_want(struct slice text)
{
    struct config_scale_pools scratch;
    const char *want = text.len != 0 ? config_pools_read(text, &scratch) : NULL;

    return want != NULL ? want : WANT_POOL ", or none";
}

static void
print_pool(const struct config_scale_pool *pool, struct buf *out)
{
    buf_add_text(out, pool->name);
    for (size_t i = 0; i < config_schema_pool.count; i++) {
        const struct config_key *key = &config_schema_pool.keys[i];
        bool numeric = key->type < CONFIG_CHOICE;
        size_t before = out->len;
        if (numeric && config_value_number(key, pool) ==
                           config_value_number(key, &unsaid)) {
            continue;
        }
        buf_printf(out, ",%s=", key->name);
        size_t named = out->len;
        config_value_print(key, pool, out);
        out->len = out->len == named ? before : out->len; /* it is absent */
    }
}

void
config_pools_print(const struct config_scale_pools *pools, struct buf *out)
{
    CHECK(pools->count <= SCALE_POOLS_MAX);
    for (uint32_t i = 0; i < pools->count; i++) {
        buf_add_text(out, i != 0 ? " " : "");
        print_pool(&pools->pool[i], out);
    }
    if (pools->count == 0) {
        buf_add_text(out, "none");
    }
}
