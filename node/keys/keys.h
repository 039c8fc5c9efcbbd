/*
 * The tenants of a node: the keys that their requests carry, and the models
 * that they may ask for.
 *
 * A key is made by keys_make(), never chosen:
 *
 *   kvk-ID-SECRET                 ID: 12 hex digits, public
 *                                 SECRET: 64 hex digits, 256 random bits
 *   ID:sha256:SALT:HASH           what a file keeps of it
 *                                 HASH: SHA-256 of SALT's and SECRET's bytes
 *
 * So a key is found by its ID and checked by one hash. A hash that is slow on
 * purpose protects secrets that can be guessed. 256 random bits cannot, at any
 * speed; and whoever sends wrong keys would have a node pay for each of them.
 *
 * A tenant keeps its slot for the life of the node, whatever later files say,
 * so that its counters go on. Slot 0 is the tenant of requests that need no
 * key.
 *
 * Role: core. Owns: its entries. Thread: any number of readers once it is
 * finished. Limits: KEYS_*_MAX. Errors: named outcomes, -ENOMEM.
 */
#ifndef NODE_KEYS_H
#define NODE_KEYS_H

#include <stdbool.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/qsbr.h"
#include "index/base/slice.h"
#include "node/limits/limits_rate.h"

#define KEYS_TENANTS_MAX 256U  /* since the node began; slot 0 is one */
#define KEYS_MAX         4096U /* of all tenants */
#define KEYS_MODELS_MAX  4096U /* the same, each time that one is named */
#define KEYS_LIMITS_MAX  256U  /* of all tenants */
#define KEYS_NAME_MAX    64U   /* of a tenant, with its NUL */
#define KEYS_MODEL_MAX   128U  /* of a model, with its NUL */

#define KEYS_WEIGHT_MAX 1000
#define KEYS_FIRST      (-4)
#define KEYS_LAST       3

#define KEYS_ID_BYTES     6U
#define KEYS_SALT_BYTES   16U
#define KEYS_SECRET_BYTES 32U
#define KEYS_HASH_BYTES   32U

#define KEYS_CACHE_SALT_ROOM 33U /* 128 bits in hex digits, and a NUL */

#define KEYS_RESIDENCY_MAX 192U /* islands between blanks, and a NUL */

#define KEYS_DEFAULT "default" /* the tenant of slot 0 */

/* A key, as far as the node knows it. */
struct keys_entry {
    uint64_t id;
    uint32_t tenant;
    uint8_t salt[KEYS_SALT_BYTES];
    uint8_t hash[KEYS_HASH_BYTES];
};

/*
 * How a tenant's prompts are kept apart from others' in engines' caches: its
 * cache salt, which nobody can guess who does not know the file's secret, and
 * the key that the salts of its clients are combined with.
 */
struct keys_isolation {
    bool strict; /* false: they are not, and the rest is nothing */
    char salt[KEYS_CACHE_SALT_ROOM];
    uint8_t key[KEYS_HASH_BYTES];
};

/* Where a tenant's requests may be served: prefixes of islands
 * (node/view/island.h) between blanks; "": anywhere. */
struct keys_residency {
    char islands[KEYS_RESIDENCY_MAX];
};

/* One limit of a tenant's, of its requests for a model or for all. */
struct keys_limit {
    uint32_t tenant;
    enum limits_of of;
    struct limits_rate rate;
    char model[KEYS_MODEL_MAX]; /* "": all; with a * at its end all that
                                   begin so */
};

struct keys;

enum {
    KEYS_E_BAD = 1, /* the text is none of these */
    KEYS_E_TWICE,   /* it is there already */
    KEYS_E_FULL,    /* a KEYS_*_MAX is reached */
    KEYS_E_UNKNOWN, /* nobody's key */
};

/* No keys, and of `before` (may be NULL; borrowed for the call) the names of
 * tenants in their slots. 0 and *out, or -ENOMEM. */
int keys_new(struct keys **out, const struct keys *before) MUST_CHECK;

/* NULL is fine. */
void keys_free(struct keys *keys);

/* For qsbr_retire() with keys_free_retired(). */
struct qsbr_node *keys_retired(struct keys *keys);
void keys_free_retired(struct qsbr_node *retired);

/* Adds a tenant, which may use every model until one is named. Its name is a
 * label of 1 to KEYS_NAME_MAX - 1 bytes, which the caller has checked. 0 and
 * *tenant, KEYS_E_TWICE, KEYS_E_FULL. */
int keys_add_tenant(struct keys *keys, struct slice name, uint32_t *tenant)
    MUST_CHECK;

/* The tenant may use the models that are added, and no others. */
void keys_limit_models(struct keys *keys, uint32_t tenant);

/* How much of the queue is the tenant's while its requests wait (queue.h): its
 * weight, 1 to KEYS_WEIGHT_MAX, and the priority of its requests, KEYS_FIRST to
 * KEYS_LAST, the lower first. Before: 1 and 0. */
void keys_set_weight(struct keys *keys, uint32_t tenant, uint32_t weight);
void keys_set_priority(struct keys *keys, uint32_t tenant, int32_t priority);

/* Of a tenant's slot, whoever has it. */
uint32_t keys_weight(const struct keys *keys, uint32_t tenant);
int32_t keys_priority(const struct keys *keys, uint32_t tenant);

/* How the tenant is isolated; before: it is not. */
void keys_set_isolation(struct keys *keys, uint32_t tenant,
                        const struct keys_isolation *isolation);

/* Of a tenant's slot, whoever has it; good as long as keys. */
const struct keys_isolation *keys_isolation(const struct keys *keys,
                                            uint32_t tenant);

/* Adds an island, which the caller has checked, to those where the tenant's
 * requests may be served; before the first: anywhere. 0, or KEYS_E_FULL. */
int keys_add_residency(struct keys *keys, uint32_t tenant, struct slice island)
    MUST_CHECK;

/* Of a tenant's slot, whoever has it; good as long as keys. */
const struct keys_residency *keys_residency(const struct keys *keys,
                                            uint32_t tenant);

/* Whether a worker of another model, one for embeddings, may see the words of
 * who has that isolation (NULL: none) and may only be served in those islands
 * (NULL or "": any). */
bool keys_may_embed(const struct keys_isolation *isolation,
                    const char *islands);

/* Whether some tenant is isolated. */
bool keys_isolates(const struct keys *keys);

/* The slot of a tenant that is there now; 0: there is none of that name. */
uint32_t keys_find_tenant(const struct keys *keys, struct slice name);

/* Adds a model that it may use: a name, or with a * at its end all that begin
 * so. The tenant is limited. 0, KEYS_E_BAD, KEYS_E_FULL, -ENOMEM. */
int keys_add_model(struct keys *keys, uint32_t tenant, struct slice text)
    MUST_CHECK;

/* Adds a limit of a tenant that was added. 0, KEYS_E_BAD (the model),
 * KEYS_E_TWICE, KEYS_E_FULL, -ENOMEM. */
int keys_add_limit(struct keys *keys, uint32_t tenant, struct slice model,
                   enum limits_of of, const struct limits_rate *rate)
    MUST_CHECK;

/* All limits, those of one tenant in the order of the file; NULL: there are
 * not so many. */
const struct keys_limit *keys_limit(const struct keys *keys, uint32_t at);

/* Adds a key as a file keeps it. 0, KEYS_E_BAD, KEYS_E_TWICE, KEYS_E_FULL,
 * -ENOMEM. */
int keys_add(struct keys *keys, uint32_t tenant, struct slice line) MUST_CHECK;

/* Takes a client's key apart. 0, or KEYS_E_BAD. */
int keys_parse(struct slice key, uint64_t *id,
               uint8_t secret[KEYS_SECRET_BYTES]) MUST_CHECK;

/* Reads a secret of 2 * KEYS_SECRET_BYTES small hex digits. False: it is none. */
bool keys_read_secret(struct slice text, uint8_t secret[KEYS_SECRET_BYTES]);

/* The key with this id, good as long as keys; NULL: there is none. */
const struct keys_entry *keys_find(const struct keys *keys, uint64_t id);

/* Whether the tenant may use a model; "": a request that names none. */
bool keys_allows(const struct keys *keys, uint32_t tenant, struct slice model);

/* Whether it may use an adapter of a model that it may use: by its name, or as
 * MODEL:ADAPTER. */
bool keys_allows_adapter(const struct keys *keys, uint32_t tenant,
                         struct slice model, struct slice adapter);

/* Whether it has a list of models. */
bool keys_is_limited(const struct keys *keys, uint32_t tenant);

/* The name in a slot, good as long as keys; "": nobody's. */
const char *keys_tenant_name(const struct keys *keys, uint32_t tenant);

/* Whether the slot has a tenant now, and not only had one. */
bool keys_has_tenant(const struct keys *keys, uint32_t tenant);

/* How many there are now. */
uint32_t keys_count(const struct keys *keys);
uint32_t keys_tenants_count(const struct keys *keys);

#endif
