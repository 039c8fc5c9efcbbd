/* Keys and their hashes. */
#include "node/keys/keys_check.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct keys_checker {
    EVP_MD *sha256;  /* fetched once: a fetch takes a lock */
    EVP_MD_CTX *ctx; /* has its memory from the beginning */
};

int
keys_checker_new(struct keys_checker **out)
{
    struct keys_checker *checker = calloc(1, sizeof(*checker));

    *out = NULL;
    if (checker == NULL) {
        return -ENOMEM;
    }
    checker->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    checker->ctx = EVP_MD_CTX_new();
    if (checker->sha256 == NULL || checker->ctx == NULL ||
        EVP_DigestInit_ex2(checker->ctx, checker->sha256, NULL) != 1) {
        keys_checker_free(checker);
        return -ENOMEM;
    }
    *out = checker;
    return 0;
}

void
keys_checker_free(struct keys_checker *checker)
{
    if (checker != NULL) {
        EVP_MD_CTX_free(checker->ctx);
        EVP_MD_free(checker->sha256);
        free(checker);
    }
}

static int
hash(struct keys_checker *checker, const uint8_t salt[KEYS_SALT_BYTES],
     const uint8_t secret[KEYS_SECRET_BYTES], uint8_t out[KEYS_HASH_BYTES])
{
    unsigned len = 0;
    bool done =
        EVP_DigestInit_ex2(checker->ctx, NULL, NULL) == 1 &&
        EVP_DigestUpdate(checker->ctx, salt, KEYS_SALT_BYTES) == 1 &&
        EVP_DigestUpdate(checker->ctx, secret, KEYS_SECRET_BYTES) == 1 &&
        EVP_DigestFinal_ex(checker->ctx, out, &len) == 1;

    CHECK(!done || len == KEYS_HASH_BYTES);
    return done ? 0 : -EIO;
}

int
keys_check(struct keys_checker *checker, const struct keys *keys,
           struct slice key, uint32_t *tenant)
{
    uint8_t secret[KEYS_SECRET_BYTES];
    uint8_t made[KEYS_HASH_BYTES];
    uint64_t id;

    if (keys_parse(key, &id, secret) != 0) {
        return KEYS_E_UNKNOWN;
    }
    const struct keys_entry *entry = keys_find(keys, id);
    if (entry == NULL) {
        return KEYS_E_UNKNOWN;
    }
    int error = hash(checker, entry->salt, secret, made);
    OPENSSL_cleanse(secret, sizeof(secret));
    if (error < 0) {
        return error;
    }
    if (CRYPTO_memcmp(made, entry->hash, sizeof(made)) != 0) {
        return KEYS_E_UNKNOWN;
    }
    *tenant = entry->tenant;
    return 0;
}

static char *
put_hex(char *out, const uint8_t *bytes, size_t size)
{
    for (size_t i = 0; i < size; i++) {
        *out++ = "0123456789abcdef"[bytes[i] >> 4];
        *out++ = "0123456789abcdef"[bytes[i] & 15];
    }
    *out = '\0';
    return out;
}

int
keys_make(struct keys_checker *checker, const uint8_t random[KEYS_RANDOM_BYTES],
          char key[KEYS_KEY_ROOM], char line[KEYS_LINE_ROOM])
{
    const uint8_t *salt = random + KEYS_ID_BYTES;
    const uint8_t *secret = salt + KEYS_SALT_BYTES;
    char id[2 * KEYS_ID_BYTES + 1];
    char text[2 * KEYS_SECRET_BYTES + 1];
    char salted[2 * KEYS_SALT_BYTES + 1];
    uint8_t made[KEYS_HASH_BYTES];

    int error = hash(checker, salt, secret, made);
    if (error < 0) {
        return error;
    }
    (void)put_hex(id, random, KEYS_ID_BYTES);
    (void)put_hex(text, secret, KEYS_SECRET_BYTES);
    (void)snprintf(key, KEYS_KEY_ROOM, "kvk-%s-%s", id, text);
    (void)put_hex(salted, salt, KEYS_SALT_BYTES);
    (void)put_hex(text, made, KEYS_HASH_BYTES);
    (void)snprintf(line, KEYS_LINE_ROOM, "%s:sha256:%s:%s", id, salted, text);
    return 0;
}

static int
sign(const uint8_t key[KEYS_HASH_BYTES], struct slice text,
     uint8_t out[KEYS_HASH_BYTES])
{
    unsigned len = 0;
    const void *bytes = text.len != 0 ? text.ptr : "";
    bool done = HMAC(EVP_sha256(), key, KEYS_HASH_BYTES, bytes, text.len, out,
                     &len) != NULL;

    CHECK(!done || len == KEYS_HASH_BYTES);
    return done ? 0 : -EIO;
}

int
keys_isolate(const uint8_t secret[KEYS_SECRET_BYTES], struct slice tenant,
             struct keys_isolation *isolation)
{
    _Static_assert(KEYS_SECRET_BYTES == KEYS_HASH_BYTES, "both are keys");
    uint8_t made[KEYS_HASH_BYTES];
    int error = sign(secret, tenant, isolation->key);

    if (error == 0) {
        error = sign(isolation->key, SLICE(""), made);
    }
    if (error < 0) {
        return error;
    }
    (void)put_hex(isolation->salt, made, (KEYS_CACHE_SALT_ROOM - 1) / 2);
    isolation->strict = true;
    return 0;
}

/* Should the library fail, the client's own salt is left out: that keeps its
 * prompts from other tenants all the same. */
void
keys_cache_salt(const struct keys_isolation *isolation, struct slice given,
                char out[KEYS_CACHE_SALT_ROOM])
{
    uint8_t made[KEYS_HASH_BYTES];

    CHECK(isolation->strict);
    if (given.len == 0 || sign(isolation->key, given, made) < 0) {
        memcpy(out, isolation->salt, KEYS_CACHE_SALT_ROOM);
    } else {
        (void)put_hex(out, made, (KEYS_CACHE_SALT_ROOM - 1) / 2);
    }
}
