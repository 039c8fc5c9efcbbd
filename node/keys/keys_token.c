/* Tokens: their parts, their claims, and those that are remembered. */
#include "node/keys/keys_token.h"

#include <errno.h>
#include <openssl/crypto.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>

#include "node/keys/keys_token_internal.h"
#include "node/text/json_pull.h"

#define HASH_BYTES      32U
#define SIGNATURE_BYTES 512U /* of RSA with 4,096 bits */
#define POINT_BYTES     32U  /* half of a signature by ES256 */
#define DER_MAX         80   /* the same with its frame */
#define WAYS            4U
#define SETS            (KEYS_TOKENS_MAX / WAYS)
#define TIME_MAX        (INT64_C(1) << 53)

/* A token that was found good. */
struct known {
    uint8_t hash[HASH_BYTES];
    uint64_t version; /* of the set of keys; 0: unused */
    uint64_t used;
    int64_t exp_s;
    int64_t nbf_s;
    uint32_t tenant;          /* 0: not looked for yet, or KEYS_DEFAULT */
    char name[KEYS_NAME_MAX]; /* of its tenant */
};

struct keys_token_reader {
    EVP_MD *sha256; /* fetched once: a fetch takes a lock */
    EVP_MD_CTX *hashes;
    EVP_MD_CTX *verifies;
    uint64_t uses;
    uint8_t text[KEYS_TOKEN_BYTES_MAX]; /* of the part being read */
    struct known known[SETS][WAYS];
};

const char *
keys_token_why(enum keys_token_outcome outcome)
{
    static const char *const why[KEYS_TOKEN_OUTCOMES] = {
        [KEYS_TOKEN_FINE] = "",
        [KEYS_TOKEN_BAD] =
            ("this token cannot be read: expected a JWT by RS256 or ES256 "
             "with an exp"),
        [KEYS_TOKEN_KEY] = "this token's key is not known here",
        [KEYS_TOKEN_SIGNATURE] = "this token's signature is wrong",
        [KEYS_TOKEN_EXPIRED] = "this token has expired",
        [KEYS_TOKEN_EARLY] = "this token is not valid yet",
        [KEYS_TOKEN_ISSUER] = "this token is by another issuer",
        [KEYS_TOKEN_AUDIENCE] = "this token is for another audience",
        [KEYS_TOKEN_TENANT] = "this token names no tenant of this node",
    };

    CHECK(outcome < KEYS_TOKEN_OUTCOMES);
    return why[outcome];
}

bool
keys_token_is(struct slice text)
{
    return text.len > 2 && text.ptr[0] == 'e' && text.ptr[1] == 'y';
}

int
keys_token_reader_new(struct keys_token_reader **out)
{
    struct keys_token_reader *reader = calloc(1, sizeof(*reader));

    *out = NULL;
    if (reader == NULL) {
        return -ENOMEM;
    }
    reader->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
    reader->hashes = EVP_MD_CTX_new();
    reader->verifies = EVP_MD_CTX_new();
    if (reader->sha256 == NULL || reader->hashes == NULL ||
        reader->verifies == NULL ||
        EVP_DigestInit_ex2(reader->hashes, reader->sha256, NULL) != 1) {
        keys_token_reader_free(reader);
        return -ENOMEM;
    }
    *out = reader;
    return 0;
}

void
keys_token_reader_free(struct keys_token_reader *reader)
{
    if (reader != NULL) {
        EVP_MD_CTX_free(reader->verifies);
        EVP_MD_CTX_free(reader->hashes);
        EVP_MD_free(reader->sha256);
        free(reader);
    }
}

/* JSON */

bool
keys_token_read_head(struct slice json, struct token_head *head)
{
    struct json_pull pull;
    enum pull_token token;

    *head = (struct token_head){.alg = ""};
    json_pull_init(&pull, json);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        char *out = json_pull_is(&pull, SLICE("alg"))   ? head->alg
                    : json_pull_is(&pull, SLICE("kid")) ? head->kid
                                                        : NULL;
        size_t room = out == head->alg ? sizeof(head->alg) : sizeof(head->kid);
        if (json_pull_is(&pull, SLICE("crit"))) {
            return false;
        }
        if (out == NULL
                ? !json_pull_skip(&pull)
                : out[0] != '\0' || json_pull_next(&pull) != PULL_STRING ||
                      json_pull_copy(&pull, out, room) <= 0) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END;
}

/* Seconds since 1970; what comes after a point is let go. */
static bool
read_time(struct json_pull *pull, int64_t *time_s)
{
    int64_t value = 0;
    size_t at = 0;

    if (json_pull_next(pull) != PULL_NUMBER) {
        return false;
    }
    while (at < pull->text.len && pull->text.ptr[at] >= '0' &&
           pull->text.ptr[at] <= '9' && value < TIME_MAX) {
        value = value * 10 + (pull->text.ptr[at++] - '0');
    }
    *time_s = value;
    if (at == 0 || value >= TIME_MAX ||
        (at < pull->text.len && pull->text.ptr[at] != '.')) {
        return false;
    }
    return memchr(pull->text.ptr, 'e', pull->text.len) == NULL &&
           memchr(pull->text.ptr, 'E', pull->text.len) == NULL;
}

/* One text or a list of them, of which one is right. False: it is neither. */
static bool
read_audience(struct json_pull *pull, struct slice wanted, bool *right)
{
    enum pull_token token = json_pull_next(pull);

    if (token == PULL_STRING) {
        *right = *right || json_pull_is(pull, wanted);
        return true;
    }
    if (token != PULL_ARRAY) {
        return false;
    }
    while ((token = json_pull_next(pull)) == PULL_STRING) {
        *right = *right || json_pull_is(pull, wanted);
    }
    return token == PULL_ARRAY_END;
}

/* A claim whose name was read. False: it has another type. */
static bool
read_claim(struct json_pull *pull, const struct keys_rules *rules,
           struct token_claims *claims)
{
    if (json_pull_is(pull, SLICE("exp"))) {
        bool again = claims->has_exp;
        claims->has_exp = true;
        return !again && read_time(pull, &claims->exp_s);
    }
    if (json_pull_is(pull, SLICE("nbf"))) {
        return claims->nbf_s == INT64_MIN && read_time(pull, &claims->nbf_s);
    }
    if (json_pull_is(pull, SLICE("aud"))) {
        return read_audience(pull, slice_of(rules->audience),
                             &claims->right_audience);
    }
    bool issuer = json_pull_is(pull, SLICE("iss"));
    bool tenant = json_pull_is(pull, slice_of(rules->tenant_claim));
    if (!issuer && !tenant) {
        return json_pull_skip(pull);
    }
    if (json_pull_next(pull) != PULL_STRING) {
        return false;
    }
    claims->right_issuer =
        claims->right_issuer ||
        (issuer && json_pull_is(pull, slice_of(rules->issuer)));
    if (tenant && json_pull_copy(pull, claims->tenant, KEYS_NAME_MAX) < 0) {
        claims->tenant[0] = '\0'; /* no tenant of ours has such a name */
    }
    return true;
}

bool
keys_token_read_claims(struct slice json, const struct keys_rules *rules,
                       struct token_claims *claims)
{
    struct json_pull pull;
    enum pull_token token;

    *claims = (struct token_claims){
        .nbf_s = INT64_MIN,
        .right_issuer = rules->issuer[0] == '\0',
        .right_audience = rules->audience[0] == '\0',
    };
    json_pull_init(&pull, json);
    if (json_pull_next(&pull) != PULL_OBJECT) {
        return false;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (!read_claim(&pull, rules, claims)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && json_pull_next(&pull) == PULL_END &&
           claims->has_exp;
}

/* Signatures */

/* ES256 has two numbers, and OpenSSL their frame in DER. 0: not possible. */
static size_t
to_der(const uint8_t raw[2 * POINT_BYTES], uint8_t der[DER_MAX])
{
    ECDSA_SIG *sig = ECDSA_SIG_new();
    BIGNUM *r = BN_bin2bn(raw, POINT_BYTES, NULL);
    BIGNUM *s = BN_bin2bn(raw + POINT_BYTES, POINT_BYTES, NULL);
    int size = 0;

    if (sig != NULL && r != NULL && s != NULL &&
        ECDSA_SIG_set0(sig, r, s) == 1) {
        r = s = NULL; /* the signature's */
        size =
            i2d_ECDSA_SIG(sig, NULL) <= DER_MAX ? i2d_ECDSA_SIG(sig, &der) : 0;
    }
    BN_free(r);
    BN_free(s);
    ECDSA_SIG_free(sig);
    return size > 0 ? (size_t)size : 0;
}

/* KEYS_TOKEN_FINE, KEYS_TOKEN_SIGNATURE or -EIO. */
static int
verify(struct keys_token_reader *reader, const struct keys_jwk *jwk,
       struct slice text, const uint8_t *signature, size_t size)
{
    uint8_t der[DER_MAX];

    if (jwk->alg == KEYS_ES256) {
        if (size != (size_t)2 * POINT_BYTES) {
            return KEYS_TOKEN_SIGNATURE;
        }
        size = to_der(signature, der);
        signature = der;
    }
    if (size == 0) {
        return KEYS_TOKEN_SIGNATURE;
    }
    if (EVP_DigestVerifyInit_ex(reader->verifies, NULL, "SHA256", NULL, NULL,
                                jwk->key, NULL) != 1) {
        return -EIO;
    }
    int right = EVP_DigestVerify(reader->verifies, signature, size,
                                 (const unsigned char *)text.ptr, text.len);
    (void)EVP_MD_CTX_reset(reader->verifies);
    return right == 1 ? KEYS_TOKEN_FINE : KEYS_TOKEN_SIGNATURE;
}

static const struct keys_jwk *
key_of(const struct keys_jwks *jwks, const struct token_head *head)
{
    bool rsa = strcmp(head->alg, "RS256") == 0;

    if (!rsa && strcmp(head->alg, "ES256") != 0) {
        return NULL;
    }
    return keys_jwks_find(jwks, head->kid, rsa ? KEYS_RS256 : KEYS_ES256);
}

/* The part before the next point, decoded into the reader's text. */
static bool
take_part(struct keys_token_reader *reader, struct slice *rest,
          struct slice *part)
{
    size_t size;
    bool good = keys_base64url(slice_take(rest, '.'), reader->text,
                               sizeof(reader->text), &size);

    *part = (struct slice){.ptr = (const char *)reader->text, .len = size};
    return good;
}

/* What a token says, if its signature is right. */
static int
read_token(struct keys_token_reader *reader, const struct keys_jwks *jwks,
           struct slice token, struct token_claims *claims)
{
    uint8_t signature[SIGNATURE_BYTES];
    size_t size;
    struct token_head head;
    struct slice rest = token;
    struct slice part;

    if (!take_part(reader, &rest, &part) ||
        !keys_token_read_head(part, &head)) {
        return KEYS_TOKEN_BAD;
    }
    struct slice payload = slice_take(&rest, '.');
    if (payload.len == 0 ||
        !keys_base64url(rest, signature, sizeof(signature), &size)) {
        return KEYS_TOKEN_BAD;
    }
    const struct keys_jwk *jwk = key_of(jwks, &head);
    if (jwk == NULL) {
        return KEYS_TOKEN_KEY;
    }
    struct slice signed_text = {
        .ptr = token.ptr,
        .len = (size_t)(payload.ptr + payload.len - token.ptr)};
    int outcome = verify(reader, jwk, signed_text, signature, size);
    if (outcome != KEYS_TOKEN_FINE) {
        return outcome;
    }
    return take_part(reader, &payload, &part) &&
                   keys_token_read_claims(part, &jwks->rules, claims)
               ? KEYS_TOKEN_FINE
               : KEYS_TOKEN_BAD;
}

/* Tokens that are remembered */

static int
hash_of(struct keys_token_reader *reader, struct slice token,
        uint8_t out[HASH_BYTES])
{
    unsigned len = 0;
    bool done = EVP_DigestInit_ex2(reader->hashes, NULL, NULL) == 1 &&
                EVP_DigestUpdate(reader->hashes, token.ptr, token.len) == 1 &&
                EVP_DigestFinal_ex(reader->hashes, out, &len) == 1;

    CHECK(!done || len == HASH_BYTES);
    return done ? 0 : -EIO;
}

static struct known *
set_of(struct keys_token_reader *reader, const uint8_t hash[HASH_BYTES])
{
    return reader->known[(hash[0] | (uint32_t)hash[1] << 8) % SETS];
}

static struct known *
find(struct keys_token_reader *reader, uint64_t version,
     const uint8_t hash[HASH_BYTES])
{
    struct known *set = set_of(reader, hash);

    for (uint32_t i = 0; i < WAYS; i++) {
        if (set[i].version == version &&
            CRYPTO_memcmp(set[i].hash, hash, HASH_BYTES) == 0) {
            set[i].used = ++reader->uses;
            return &set[i];
        }
    }
    return NULL;
}

/* In the place of one that can be used no more, or was not for longest. */
static struct known *
remember(struct keys_token_reader *reader, uint64_t version,
         const uint8_t hash[HASH_BYTES], const struct token_claims *claims)
{
    struct known *set = set_of(reader, hash);
    struct known *into = &set[0];

    for (uint32_t i = 1; i < WAYS; i++) {
        if (into->version == version &&
            (set[i].version != version || set[i].used < into->used)) {
            into = &set[i];
        }
    }
    *into = (struct known){
        .version = version,
        .used = ++reader->uses,
        .exp_s = claims->exp_s,
        .nbf_s = claims->nbf_s,
    };
    memcpy(into->hash, hash, HASH_BYTES);
    memcpy(into->name, claims->tenant, sizeof(into->name));
    return into;
}

/* The tenant's slot, looked for again when keys were read anew. */
static int
tenant_of(const struct keys *keys, const struct keys_rules *rules,
          struct known *known)
{
    if (keys_has_tenant(keys, known->tenant) &&
        strcmp(keys_tenant_name(keys, known->tenant), known->name) == 0) {
        return KEYS_TOKEN_FINE;
    }
    known->tenant = keys_find_tenant(keys, slice_of(known->name));
    if (known->tenant == 0) {
        known->tenant = keys_find_tenant(keys, slice_of(rules->default_tenant));
    }
    return known->tenant != 0 ? KEYS_TOKEN_FINE : KEYS_TOKEN_TENANT;
}

int
keys_token_check(struct keys_token_reader *reader, const struct keys_jwks *jwks,
                 const struct keys *keys, struct slice token, int64_t now_s,
                 uint32_t *tenant, bool *verified)
{
    uint8_t hash[HASH_BYTES];
    struct token_claims claims;

    CHECK(jwks->version != 0);
    *verified = false;
    if (token.len > KEYS_TOKEN_BYTES_MAX) {
        return KEYS_TOKEN_BAD;
    }
    int outcome = hash_of(reader, token, hash);
    if (outcome < 0) {
        return outcome;
    }
    struct known *known = find(reader, jwks->version, hash);
    if (known == NULL) {
        *verified = true;
        outcome = read_token(reader, jwks, token, &claims);
        if (outcome != KEYS_TOKEN_FINE) {
            return outcome;
        }
        if (!claims.right_issuer || !claims.right_audience) {
            return claims.right_issuer ? KEYS_TOKEN_AUDIENCE
                                       : KEYS_TOKEN_ISSUER;
        }
        known = remember(reader, jwks->version, hash, &claims);
    }
    int64_t leeway_s = jwks->rules.leeway_s;
    if (now_s - leeway_s >= known->exp_s) {
        return KEYS_TOKEN_EXPIRED;
    }
    if (known->nbf_s != INT64_MIN && now_s + leeway_s < known->nbf_s) {
        return KEYS_TOKEN_EARLY;
    }
    outcome = tenant_of(keys, &jwks->rules, known);
    *tenant = known->tenant;
    return outcome;
}
