/* Answers sealed and opened. */
#include "node/redis/redis_seal.h"

#include <errno.h>
#include <limits.h>
#include <openssl/evp.h>
#include <openssl/rand.h>
#include <stdlib.h>
#include <string.h>

#define MAGIC      "KvA1"
#define MAGIC_LEN  4U
#define TAG_BYTES  16U
#define OPEN_BYTES (MAGIC_LEN + REDIS_NONCE_BYTES + TAG_BYTES)
#define FACT_BYTES 18U /* made_ms, cleared, type_len */
#define WHAT_BYTES (MAGIC_LEN + 32U)

static void
put_number(uint8_t *at, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        at[i] = (uint8_t)(number >> (8 * i));
    }
}

static uint64_t
get_number(const uint8_t *at, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++) {
        number |= (uint64_t)at[i] << (8 * i);
    }
    return number;
}

/* What is sealed into it without being written: whose answer it is, to what. */
static void
put_what(uint8_t what[WHAT_BYTES], const struct answers_key *key)
{
    memcpy(what, MAGIC, MAGIC_LEN);
    put_number(what + 4, key->name.low, 8);
    put_number(what + 12, key->name.high, 8);
    put_number(what + 20, key->tenant, 8);
    put_number(what + 28, key->model, 8);
}

char *
redis_hex(uint64_t number, char *at)
{
    for (int shift = 60; shift >= 0; shift -= 4) {
        *at++ = "0123456789abcdef"[number >> shift & 15];
    }
    return at;
}

size_t
redis_name(const struct answers_key *key, char out[REDIS_NAME_MAX])
{
    static const char prefix[] = "kvasir:1:";
    char *at = out + sizeof(prefix) - 1;

    memcpy(out, prefix, sizeof(prefix) - 1);
    at = redis_hex(key->name.low, redis_hex(key->name.high, at));
    *at++ = ':';
    at = redis_hex(key->tenant, at);
    *at++ = ':';
    at = redis_hex(key->model, at);
    *at = '\0';
    return (size_t)(at - out);
}

bool
redis_nonce(uint8_t nonce[REDIS_NONCE_BYTES])
{
    return RAND_bytes(nonce, REDIS_NONCE_BYTES) == 1;
}

/* Enciphers or deciphers the parts one after another, out of and into what they
 * point at. */
static bool
run(EVP_CIPHER_CTX *gcm, const struct slice *parts, unsigned count,
    uint8_t *out)
{
    int len;

    for (unsigned i = 0; i < count; i++) {
        if (parts[i].len > INT_MAX ||
            EVP_CipherUpdate(gcm, out, &len, (const uint8_t *)parts[i].ptr,
                             (int)parts[i].len) != 1) {
            return false;
        }
        out += len;
    }
    return true;
}

/* A cipher that knows what it is about; NULL: no memory. */
static EVP_CIPHER_CTX *
begin(const struct redis_secret *secret, const struct answers_key *key,
      const uint8_t *nonce, bool seals)
{
    EVP_CIPHER_CTX *gcm = EVP_CIPHER_CTX_new();
    uint8_t what[WHAT_BYTES];
    int len;

    put_what(what, key);
    if (gcm != NULL &&
        (EVP_CipherInit_ex(gcm, EVP_aes_256_gcm(), NULL, secret->key, nonce,
                           seals) != 1 ||
         EVP_CipherUpdate(gcm, NULL, &len, what, sizeof(what)) != 1)) {
        EVP_CIPHER_CTX_free(gcm);
        gcm = NULL;
    }
    return gcm;
}

int
redis_seal(const struct redis_secret *secret, const struct answers_key *key,
           const struct redis_facts *facts,
           const uint8_t nonce[REDIS_NONCE_BYTES],
           const struct answers_kept *answer, struct buf *out)
{
    size_t type_len = strnlen(answer->type, ANSWERS_TYPE_MAX);
    size_t size = OPEN_BYTES + FACT_BYTES + type_len + answer->len;
    uint8_t *at = (uint8_t *)buf_reserve(out, size);
    uint8_t fact[FACT_BYTES];
    int len;

    CHECK(type_len < ANSWERS_TYPE_MAX);
    if (at == NULL) {
        return 0; /* the buffer has failed */
    }
    put_number(fact, facts->made_ms, 8);
    put_number(fact + 8, facts->cleared, 8);
    put_number(fact + 16, type_len, 2);
    const struct slice parts[3] = {{(const char *)fact, sizeof(fact)},
                                   {answer->type, type_len},
                                   {answer->body, answer->len}};
    EVP_CIPHER_CTX *gcm = begin(secret, key, nonce, true);
    if (gcm == NULL) {
        return -ENOMEM;
    }
    memcpy(at, MAGIC, MAGIC_LEN);
    memcpy(at + MAGIC_LEN, nonce, REDIS_NONCE_BYTES);
    bool good = run(gcm, parts, 3, at + OPEN_BYTES) &&
                EVP_CipherFinal_ex(gcm, at + size, &len) == 1 && len == 0 &&
                EVP_CIPHER_CTX_ctrl(gcm, EVP_CTRL_AEAD_GET_TAG, TAG_BYTES,
                                    at + MAGIC_LEN + REDIS_NONCE_BYTES) == 1;
    EVP_CIPHER_CTX_free(gcm);
    out->len += good ? size : 0;
    return good ? 0 : -ENOMEM;
}

/* What is plain now, with the body moved to where it belongs. */
static int
take_apart(struct answers_kept *answer, size_t size, struct redis_facts *facts)
{
    const uint8_t *fact = (const uint8_t *)answer->body;

    facts->made_ms = get_number(fact, 8);
    facts->cleared = get_number(fact + 8, 8);
    size_t type_len = (size_t)get_number(fact + 16, 2);
    if (type_len >= ANSWERS_TYPE_MAX || type_len > size - FACT_BYTES ||
        memchr(answer->body + FACT_BYTES, '\0', type_len) != NULL ||
        memchr(answer->body + FACT_BYTES, '\n', type_len) != NULL ||
        memchr(answer->body + FACT_BYTES, '\r', type_len) != NULL) {
        return REDIS_SEAL_E_BAD;
    }
    memcpy(answer->type, answer->body + FACT_BYTES, type_len);
    answer->len = size - FACT_BYTES - type_len;
    memmove(answer->body, answer->body + FACT_BYTES + type_len, answer->len);
    return 0;
}

int
redis_unseal(const struct redis_secret *secret, const struct answers_key *key,
             struct slice sealed, size_t body_max, struct redis_facts *facts,
             struct answers_kept **answer)
{
    uint8_t tag[TAG_BYTES];
    uint8_t nothing[TAG_BYTES];
    int len;

    *answer = NULL;
    if (sealed.len < OPEN_BYTES + FACT_BYTES ||
        sealed.len > OPEN_BYTES + FACT_BYTES + ANSWERS_TYPE_MAX + body_max ||
        memcmp(sealed.ptr, MAGIC, MAGIC_LEN) != 0) {
        return REDIS_SEAL_E_BAD;
    }
    size_t size = sealed.len - OPEN_BYTES;
    const struct slice parts[1] = {{sealed.ptr + OPEN_BYTES, size}};
    struct answers_kept *opened = answers_kept_new(size);
    EVP_CIPHER_CTX *gcm =
        begin(secret, key, (const uint8_t *)sealed.ptr + MAGIC_LEN, false);
    if (opened == NULL || gcm == NULL) {
        EVP_CIPHER_CTX_free(gcm);
        free(opened);
        return -ENOMEM;
    }
    memcpy(tag, sealed.ptr + MAGIC_LEN + REDIS_NONCE_BYTES, TAG_BYTES);
    bool good =
        run(gcm, parts, 1, (uint8_t *)opened->body) &&
        EVP_CIPHER_CTX_ctrl(gcm, EVP_CTRL_AEAD_SET_TAG, TAG_BYTES, tag) == 1 &&
        EVP_CipherFinal_ex(gcm, nothing, &len) == 1;
    EVP_CIPHER_CTX_free(gcm);
    int outcome = good ? take_apart(opened, size, facts) : REDIS_SEAL_E_BAD;
    if (outcome == 0 && opened->len > body_max) {
        outcome = REDIS_SEAL_E_BAD;
    }
    if (outcome != 0) {
        free(opened);
        return outcome;
    }
    *answer = opened;
    return 0;
}
