/* Tenants, their keys and models. */
#include "node/keys/keys.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/ascii.h"

#define ROWS_FIRST 16U

struct tenant {
    char name[KEYS_NAME_MAX]; /* "": nobody has the slot */
    bool here;                /* in this file, and not only before */
    bool limited;             /* to its models */
    uint32_t weight;          /* 0: none was set, which is 1 */
    int32_t priority;
    struct keys_isolation isolation;
    struct keys_residency residency;
};

struct model {
    uint32_t tenant;
    uint32_t len;
    bool begins; /* all that begin so */
    char text[KEYS_MODEL_MAX];
};

struct keys {
    struct qsbr_node retired; /* first */
    struct tenant tenant[KEYS_TENANTS_MAX];
    uint32_t tenants_count;
    struct keys_entry *entry; /* by rising id */
    uint32_t count;
    uint32_t size;
    struct model *model;
    uint32_t models_count;
    uint32_t models_size;
    struct keys_limit *limit;
    uint32_t limits_count;
    uint32_t limits_size;
};

int
keys_new(struct keys **out, const struct keys *before)
{
    struct keys *keys = calloc(1, sizeof(*keys));

    *out = keys;
    if (keys == NULL) {
        return -ENOMEM;
    }
    memcpy(keys->tenant[0].name, KEYS_DEFAULT, sizeof(KEYS_DEFAULT));
    for (uint32_t i = 1; before != NULL && i < KEYS_TENANTS_MAX; i++) {
        memcpy(keys->tenant[i].name, before->tenant[i].name, KEYS_NAME_MAX);
    }
    return 0;
}

void
keys_free(struct keys *keys)
{
    if (keys != NULL) {
        free(keys->entry);
        free(keys->model);
        free(keys->limit);
        free(keys);
    }
}

struct qsbr_node *
keys_retired(struct keys *keys)
{
    return &keys->retired;
}

void
keys_free_retired(struct qsbr_node *retired)
{
    keys_free((struct keys *)(void *)retired); /* its first member */
}

/* Room for one more row. 0, KEYS_E_FULL or -ENOMEM. */
static int
grow(void **rows, size_t row_bytes, uint32_t count, uint32_t *size,
     uint32_t max)
{
    CHECK(count <= *size && *size <= max);
    if (count < *size) {
        return 0;
    }
    if (count == max) {
        return KEYS_E_FULL;
    }
    uint32_t wanted = *size == 0 ? ROWS_FIRST : 2 * *size;
    wanted = wanted < max ? wanted : max;
    void *grown = realloc(*rows, wanted * row_bytes);
    if (grown == NULL) {
        return -ENOMEM;
    }
    *rows = grown;
    *size = wanted;
    return 0;
}

/* The slot of that name, or the first free one; KEYS_TENANTS_MAX: none. */
static uint32_t
slot_of(const struct keys *keys, struct slice name)
{
    for (uint32_t i = 0; i < KEYS_TENANTS_MAX; i++) {
        struct slice there = slice_of(keys->tenant[i].name);
        if (there.len == 0 || slice_equal(there, name)) {
            return i; /* slots are taken from the first on, and kept */
        }
    }
    return KEYS_TENANTS_MAX;
}

int
keys_add_tenant(struct keys *keys, struct slice name, uint32_t *tenant)
{
    uint32_t slot = slot_of(keys, name);

    CHECK(name.len != 0 && name.len < KEYS_NAME_MAX);
    if (slot == KEYS_TENANTS_MAX) {
        return KEYS_E_FULL;
    }
    struct tenant *t = &keys->tenant[slot];
    if (t->here) {
        return KEYS_E_TWICE;
    }
    memcpy(t->name, name.ptr, name.len);
    t->here = true;
    keys->tenants_count++;
    *tenant = slot;
    return 0;
}

void
keys_limit_models(struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    keys->tenant[tenant].limited = true;
}

void
keys_set_weight(struct keys *keys, uint32_t tenant, uint32_t weight)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    CHECK(weight > 0 && weight <= KEYS_WEIGHT_MAX);
    keys->tenant[tenant].weight = weight;
}

void
keys_set_priority(struct keys *keys, uint32_t tenant, int32_t priority)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    CHECK(priority >= KEYS_FIRST && priority <= KEYS_LAST);
    keys->tenant[tenant].priority = priority;
}

uint32_t
keys_weight(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    uint32_t weight = keys->tenant[tenant].weight;
    return weight != 0 ? weight : 1;
}

int32_t
keys_priority(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return keys->tenant[tenant].priority;
}

void
keys_set_isolation(struct keys *keys, uint32_t tenant,
                   const struct keys_isolation *isolation)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    keys->tenant[tenant].isolation = *isolation;
}

const struct keys_isolation *
keys_isolation(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return &keys->tenant[tenant].isolation;
}

int
keys_add_residency(struct keys *keys, uint32_t tenant, struct slice island)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    char *islands = keys->tenant[tenant].residency.islands;
    size_t len = strlen(islands);
    size_t blank = len != 0;

    if (len + blank + island.len >= KEYS_RESIDENCY_MAX) {
        return KEYS_E_FULL;
    }
    memcpy(islands + len, " ", blank);
    memcpy(islands + len + blank, island.ptr, island.len);
    islands[len + blank + island.len] = '\0';
    return 0;
}

const struct keys_residency *
keys_residency(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return &keys->tenant[tenant].residency;
}

bool
keys_may_embed(const struct keys_isolation *isolation, const char *islands)
{
    return (isolation == NULL || !isolation->strict) &&
           (islands == NULL || islands[0] == '\0');
}

bool
keys_isolates(const struct keys *keys)
{
    for (uint32_t i = 0; i < KEYS_TENANTS_MAX; i++) {
        if (keys->tenant[i].isolation.strict) {
            return true;
        }
    }
    return false;
}

uint32_t
keys_find_tenant(const struct keys *keys, struct slice name)
{
    uint32_t slot = name.len != 0 ? slot_of(keys, name) : 0;

    return slot < KEYS_TENANTS_MAX && keys->tenant[slot].here ? slot : 0;
}

int
keys_add_model(struct keys *keys, uint32_t tenant, struct slice text)
{
    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].limited);
    bool begins = text.len != 0 && text.ptr[text.len - 1] == '*';
    text.len -= begins;
    bool empty = text.len == 0 && !begins;
    if (empty || text.len >= KEYS_MODEL_MAX ||
        (text.len != 0 && memchr(text.ptr, '*', text.len) != NULL)) {
        return KEYS_E_BAD;
    }
    void *rows = keys->model;
    int outcome = grow(&rows, sizeof(*keys->model), keys->models_count,
                       &keys->models_size, KEYS_MODELS_MAX);
    keys->model = rows;
    if (outcome != 0) {
        return outcome;
    }
    struct model *model = &keys->model[keys->models_count++];
    *model = (struct model){
        .tenant = tenant, .len = (uint32_t)text.len, .begins = begins};
    if (text.len != 0) {
        memcpy(model->text, text.ptr, text.len);
    }
    return 0;
}

int
keys_add_limit(struct keys *keys, uint32_t tenant, struct slice model,
               enum limits_of of, const struct limits_rate *rate)
{
    const char *star =
        model.len != 0 ? memchr(model.ptr, '*', model.len) : NULL;

    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    if (model.len >= KEYS_MODEL_MAX ||
        (star != NULL && star != model.ptr + model.len - 1)) {
        return KEYS_E_BAD;
    }
    for (uint32_t i = 0; i < keys->limits_count; i++) {
        const struct keys_limit *there = &keys->limit[i];
        if (there->tenant == tenant && there->of == of &&
            slice_equal(slice_of(there->model), model)) {
            return KEYS_E_TWICE;
        }
    }
    void *rows = keys->limit;
    int outcome = grow(&rows, sizeof(*keys->limit), keys->limits_count,
                       &keys->limits_size, KEYS_LIMITS_MAX);
    keys->limit = rows;
    if (outcome != 0) {
        return outcome;
    }
    struct keys_limit *limit = &keys->limit[keys->limits_count++];
    *limit = (struct keys_limit){.tenant = tenant, .of = of, .rate = *rate};
    if (model.len != 0) {
        memcpy(limit->model, model.ptr, model.len);
    }
    return 0;
}

const struct keys_limit *
keys_limit(const struct keys *keys, uint32_t at)
{
    return at < keys->limits_count ? &keys->limit[at] : NULL;
}

/* Reads 2 * size small hex digits off the front of *text. */
static bool
take_hex(struct slice *text, uint8_t *out, size_t size)
{
    if (text->len < 2 * size) {
        return false;
    }
    for (size_t i = 0; i < 2 * size; i++) {
        char c = text->ptr[i];
        int digit = c >= 'A' && c <= 'F' ? -1 : ascii_hex(c);
        if (digit < 0) {
            return false;
        }
        out[i / 2] = (uint8_t)(i % 2 == 0 ? digit << 4 : out[i / 2] | digit);
    }
    slice_skip(text, 2 * size);
    return true;
}

static bool
take_id(struct slice *text, uint64_t *id)
{
    uint8_t bytes[KEYS_ID_BYTES];
    bool good = take_hex(text, bytes, sizeof(bytes));

    *id = 0;
    for (size_t i = 0; good && i < sizeof(bytes); i++) {
        *id = *id << 8 | bytes[i];
    }
    return good;
}

bool
keys_read_secret(struct slice text, uint8_t secret[KEYS_SECRET_BYTES])
{
    return take_hex(&text, secret, KEYS_SECRET_BYTES) && text.len == 0;
}

int
keys_parse(struct slice key, uint64_t *id, uint8_t secret[KEYS_SECRET_BYTES])
{
    bool good = slice_skip_text(&key, SLICE("kvk-")) && take_id(&key, id) &&
                slice_skip_text(&key, SLICE("-")) &&
                take_hex(&key, secret, KEYS_SECRET_BYTES) && key.len == 0;

    return good ? 0 : KEYS_E_BAD;
}

/* How many ids are lower. */
static uint32_t
place_of(const struct keys *keys, uint64_t id)
{
    uint32_t low = 0;
    uint32_t high = keys->count;

    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (keys->entry[middle].id < id) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

const struct keys_entry *
keys_find(const struct keys *keys, uint64_t id)
{
    uint32_t at = place_of(keys, id);

    return at < keys->count && keys->entry[at].id == id ? &keys->entry[at]
                                                        : NULL;
}

int
keys_add(struct keys *keys, uint32_t tenant, struct slice line)
{
    struct keys_entry fresh = {.tenant = tenant};

    CHECK(tenant < KEYS_TENANTS_MAX && keys->tenant[tenant].here);
    if (!take_id(&line, &fresh.id) ||
        !slice_skip_text(&line, SLICE(":sha256:")) ||
        !take_hex(&line, fresh.salt, sizeof(fresh.salt)) ||
        !slice_skip_text(&line, SLICE(":")) ||
        !take_hex(&line, fresh.hash, sizeof(fresh.hash)) || line.len != 0) {
        return KEYS_E_BAD;
    }
    if (keys_find(keys, fresh.id) != NULL) {
        return KEYS_E_TWICE;
    }
    void *rows = keys->entry;
    int outcome =
        grow(&rows, sizeof(*keys->entry), keys->count, &keys->size, KEYS_MAX);
    keys->entry = rows;
    if (outcome != 0) {
        return outcome;
    }
    uint32_t at = place_of(keys, fresh.id);
    memmove(&keys->entry[at + 1], &keys->entry[at],
            (keys->count - at) * sizeof(*keys->entry));
    keys->entry[at] = fresh;
    keys->count++;
    return 0;
}

static bool
is_named(const struct model *model, struct slice name)
{
    struct slice text = {.ptr = model->text, .len = model->len};

    if (model->begins && name.len > text.len) {
        name.len = text.len;
    }
    return slice_equal(name, text);
}

bool
keys_allows(const struct keys *keys, uint32_t tenant, struct slice model)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    if (!keys->tenant[tenant].here || !keys->tenant[tenant].limited) {
        return keys->tenant[tenant].here;
    }
    for (uint32_t i = 0; model.len != 0 && i < keys->models_count; i++) {
        if (keys->model[i].tenant == tenant &&
            is_named(&keys->model[i], model)) {
            return true;
        }
    }
    return false;
}

/* More of a name, of which no byte beyond those of a list's counts. */
static void
add_name(char room[KEYS_MODEL_MAX], size_t *len, struct slice more)
{
    size_t left = KEYS_MODEL_MAX - *len;
    size_t size = more.len < left ? more.len : left;

    memcpy(room + *len, more.ptr, size);
    *len += size;
}

bool
keys_allows_adapter(const struct keys *keys, uint32_t tenant,
                    struct slice model, struct slice adapter)
{
    char room[KEYS_MODEL_MAX];
    size_t len = 0;

    CHECK(model.len != 0 && adapter.len != 0);
    add_name(room, &len, model);
    add_name(room, &len, SLICE(":"));
    add_name(room, &len, adapter);
    return keys_allows(keys, tenant, adapter) ||
           keys_allows(keys, tenant, (struct slice){.ptr = room, .len = len});
}

bool
keys_is_limited(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return keys->tenant[tenant].limited;
}

const char *
keys_tenant_name(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return keys->tenant[tenant].name;
}

bool
keys_has_tenant(const struct keys *keys, uint32_t tenant)
{
    CHECK(tenant < KEYS_TENANTS_MAX);
    return keys->tenant[tenant].here;
}

uint32_t
keys_count(const struct keys *keys)
{
    return keys->count;
}

uint32_t
keys_tenants_count(const struct keys *keys)
{
    return keys->tenants_count;
}
