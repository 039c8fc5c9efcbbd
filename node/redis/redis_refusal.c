/* Why a Redis refuses a command. */
#include "node/redis/redis_refusal.h"

#include "index/base/check.h"

static const struct {
    const char *name;
    const char *why;
    const char *hint;
} texts[REDIS_REFUSALS] = {
    [REDIS_FULL] = {"full", "it is full",
                    "give it more maxmemory, and maxmemory-policy allkeys-lru"},
    [REDIS_READ_ONLY] = {"read_only",
                         "it follows another one, and takes nothing",
                         "answer_cache.redis must lead to the primary"},
    [REDIS_PASSWORD] = {"password", "it wants another password",
                        "set user and password in answer_cache.redis_file"},
    [REDIS_RIGHTS] = {"rights", "its user may not do that",
                      "the user needs HSETNX, HMGET, HSET, DEL, GETRANGE and "
                      "SET of kvasir:*"},
    [REDIS_OTHER] = {"other", "it refuses",
                     "redis-cli INFO and ACL LOG tell more"},
};

enum redis_refusal
redis_refusal_of(struct slice said)
{
    static const struct {
        struct slice word;
        enum redis_refusal refusal;
    } words[] = {
        {{"OOM", 3}, REDIS_FULL},        {{"READONLY", 8}, REDIS_READ_ONLY},
        {{"NOAUTH", 6}, REDIS_PASSWORD}, {{"WRONGPASS", 9}, REDIS_PASSWORD},
        {{"NOPERM", 6}, REDIS_RIGHTS},
    };
    struct slice first = slice_take(&said, ' ');

    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++) {
        if (slice_equal(first, words[i].word)) {
            return words[i].refusal;
        }
    }
    return REDIS_OTHER;
}

const char *
redis_refusal_name(enum redis_refusal refusal)
{
    CHECK(refusal < REDIS_REFUSALS);
    return texts[refusal].name;
}

const char *
redis_refusal_why(enum redis_refusal refusal)
{
    CHECK(refusal < REDIS_REFUSALS);
    return texts[refusal].why;
}

const char *
redis_refusal_hint(enum redis_refusal refusal)
{
    CHECK(refusal < REDIS_REFUSALS);
    return texts[refusal].hint;
}
