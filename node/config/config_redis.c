/* The keys of a Redis that nodes share answers by. */
#include "node/config/config_redis.h"

#include "node/config/config_error_internal.h"
#include "node/redis/redis_place.h"

void
config_redis_check(const struct config_answer_cache *cache,
                   struct config_errors *errors)
{
    struct redis_place place;

    if (cache->semantic_model[0] != '\0' && cache->bytes_max == 0) {
        config_fault(errors, "answer_cache.semantic_model",
                     "needs memory: expected answer_cache.bytes_max");
    }
    if (cache->redis[0] == '\0') {
        if (cache->redis_file[0] != '\0') {
            config_fault(errors, "answer_cache.redis_file",
                         "is for answer_cache.redis: expected both or none");
        }
        return;
    }
    const char *wrong = redis_place_read(slice_of(cache->redis), &place);
    if (wrong != NULL) {
        config_fault(errors, "answer_cache.redis", "%s", wrong);
    }
    if (cache->bytes_max == 0) {
        config_fault(errors, "answer_cache.redis",
                     "needs memory, too: expected answer_cache.bytes_max");
    }
    if (cache->redis_file[0] == '\0') {
        config_fault(
            errors, "answer_cache.redis_file",
            "missing: nodes name answers alike only by a secret that they "
            "share: expected a file with a line `secret TEXT` (openssl rand "
            "-hex 32), the same on all nodes");
    }
}

void
config_redis_files(const struct config_answer_cache *cache,
                   struct config_errors *errors)
{
    struct redis_secret secret;

    if (cache->redis_file[0] == '\0') {
        return;
    }
    const char *wrong = redis_secret_read(cache->redis_file, &secret);
    redis_secret_forget(&secret);
    if (wrong != NULL) {
        config_fault(errors, "answer_cache.redis_file", "%s", wrong);
    }
}
