/* JSON Web Key Sets. */
#include "node/keys/keys_jwks.h"

#include <openssl/bn.h>
#include <openssl/core_names.h>
#include <openssl/evp.h>
#include <openssl/param_build.h>
#include <stdlib.h>
#include <string.h>

#include "node/text/json_pull.h"

#define RSA_BITS_MIN 2048
#define RSA_BITS_MAX 4096
#define NUMBER_BYTES (RSA_BITS_MAX / 8 + 1) /* there may be a zero in front */
#define NUMBER_TEXT  ((size_t)NUMBER_BYTES * 4 / 3 + 4)
#define POINT_BYTES  32U /* of a coordinate on P-256 */
#define EXPONENT_MAX 8U
#define WORD_TEXT    16U

/* The members of a key that matter, as text. */
struct raw {
    char kty[WORD_TEXT];
    char use[WORD_TEXT];
    char alg[WORD_TEXT];
    char crv[WORD_TEXT];
    char kid[KEYS_KID_MAX];
    char n[NUMBER_TEXT]; /* of RSA: modulus and exponent */
    char e[NUMBER_TEXT];
    char x[NUMBER_TEXT]; /* of a curve: a point */
    char y[NUMBER_TEXT];
    bool private; /* it holds what must not be in such a file */
    bool odd;     /* some member is no text, or too long */
};

static int
digit_of(char c)
{
    return c >= 'A' && c <= 'Z'   ? c - 'A'
           : c >= 'a' && c <= 'z' ? c - 'a' + 26
           : c >= '0' && c <= '9' ? c - '0' + 52
           : c == '-'             ? 62
           : c == '_'             ? 63
                                  : -1;
}

bool
keys_base64url(struct slice text, uint8_t *out, size_t room, size_t *size)
{
    uint32_t bits = 0;
    unsigned have = 0;
    size_t len = 0;

    if (text.len % 4 == 1) {
        return false;
    }
    for (size_t i = 0; i < text.len; i++) {
        int digit = digit_of(text.ptr[i]);
        if (digit < 0) {
            return false;
        }
        bits = bits << 6 | (uint32_t)digit;
        have += 6;
        if (have >= 8) {
            have -= 8;
            if (len == room) {
                return false;
            }
            out[len++] = (uint8_t)(bits >> have);
            bits &= (1U << have) - 1;
        }
    }
    *size = len;
    return bits == 0;
}

/* Reading */

static void
take_text(struct json_pull *pull, struct raw *raw, char *out, size_t room)
{
    if (json_pull_next(pull) != PULL_STRING ||
        json_pull_copy(pull, out, room) < 0) {
        raw->odd = true;
        (void)!json_pull_skip(pull);
    }
}

/* One member of a key; false: the document is bad. */
static bool
take_member(struct json_pull *pull, struct raw *raw)
{
    const struct {
        struct slice name;
        char *out;
        size_t room;
    } texts[] = {
        {SLICE("kty"), raw->kty, sizeof(raw->kty)},
        {SLICE("use"), raw->use, sizeof(raw->use)},
        {SLICE("alg"), raw->alg, sizeof(raw->alg)},
        {SLICE("crv"), raw->crv, sizeof(raw->crv)},
        {SLICE("kid"), raw->kid, sizeof(raw->kid)},
        {SLICE("n"), raw->n, sizeof(raw->n)},
        {SLICE("e"), raw->e, sizeof(raw->e)},
        {SLICE("x"), raw->x, sizeof(raw->x)},
        {SLICE("y"), raw->y, sizeof(raw->y)},
    };

    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
        if (json_pull_is(pull, texts[i].name)) {
            take_text(pull, raw, texts[i].out, texts[i].room);
            return pull->fault == NULL;
        }
    }
    raw->private = raw->private || json_pull_is(pull, SLICE("d"));
    return json_pull_skip(pull);
}

/* The parts of a key into what OpenSSL has; NULL: they are none. */
static EVP_PKEY *
make(const char *type, OSSL_PARAM_BLD *parts)
{
    OSSL_PARAM *params = OSSL_PARAM_BLD_to_param(parts);
    EVP_PKEY_CTX *ctx = EVP_PKEY_CTX_new_from_name(NULL, type, NULL);
    EVP_PKEY *key = NULL;

    if (params == NULL || ctx == NULL || EVP_PKEY_fromdata_init(ctx) != 1 ||
        EVP_PKEY_fromdata(ctx, &key, EVP_PKEY_PUBLIC_KEY, params) != 1) {
        key = NULL;
    }
    EVP_PKEY_CTX_free(ctx);
    OSSL_PARAM_free(params);
    return key;
}

static EVP_PKEY *
make_rsa(const struct raw *raw)
{
    uint8_t n[NUMBER_BYTES];
    uint8_t e[EXPONENT_MAX];
    size_t n_size;
    size_t e_size;
    EVP_PKEY *key = NULL;

    if (!keys_base64url(slice_of(raw->n), n, sizeof(n), &n_size) ||
        !keys_base64url(slice_of(raw->e), e, sizeof(e), &e_size)) {
        return NULL;
    }
    BIGNUM *modulus = BN_bin2bn(n, (int)n_size, NULL);
    BIGNUM *exponent = BN_bin2bn(e, (int)e_size, NULL);
    OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
    if (modulus != NULL && exponent != NULL && parts != NULL &&
        BN_num_bits(modulus) >= RSA_BITS_MIN &&
        BN_num_bits(modulus) <= RSA_BITS_MAX && BN_is_odd(exponent) &&
        !BN_is_one(exponent) &&
        OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_N, modulus) == 1 &&
        OSSL_PARAM_BLD_push_BN(parts, OSSL_PKEY_PARAM_RSA_E, exponent) == 1) {
        key = make("RSA", parts);
    }
    OSSL_PARAM_BLD_free(parts);
    BN_free(exponent);
    BN_free(modulus);
    return key;
}

static EVP_PKEY *
make_point(const struct raw *raw)
{
    uint8_t point[1 + 2 * POINT_BYTES] = {4}; /* both coordinates follow */
    size_t x_size;
    size_t y_size;
    EVP_PKEY *key = NULL;

    if (!keys_base64url(slice_of(raw->x), point + 1, POINT_BYTES, &x_size) ||
        !keys_base64url(slice_of(raw->y), point + 1 + POINT_BYTES, POINT_BYTES,
                        &y_size) ||
        x_size != POINT_BYTES || y_size != POINT_BYTES) {
        return NULL;
    }
    OSSL_PARAM_BLD *parts = OSSL_PARAM_BLD_new();
    if (parts != NULL &&
        OSSL_PARAM_BLD_push_utf8_string(parts, OSSL_PKEY_PARAM_GROUP_NAME,
                                        "P-256", 0) == 1 &&
        OSSL_PARAM_BLD_push_octet_string(parts, OSSL_PKEY_PARAM_PUB_KEY, point,
                                         sizeof(point)) == 1) {
        key = make("EC", parts);
    }
    OSSL_PARAM_BLD_free(parts);
    return key;
}

static bool
is_text(const char *a, const char *b)
{
    return strcmp(a, b) == 0;
}

/* A key that can be used joins the set; others are passed over. */
static void
add(struct keys_jwks *jwks, const struct raw *raw)
{
    struct keys_jwk *jwk = &jwks->jwk[jwks->count];
    bool rsa = is_text(raw->kty, "RSA");
    bool point = is_text(raw->kty, "EC") && is_text(raw->crv, "P-256");
    const char *alg = rsa ? "RS256" : "ES256";

    CHECK(jwks->count < KEYS_JWKS_MAX);
    if (raw->odd || raw->private || (!rsa && !point) ||
        (raw->use[0] != '\0' && !is_text(raw->use, "sig")) ||
        (raw->alg[0] != '\0' && !is_text(raw->alg, alg))) {
        return;
    }
    jwk->alg = rsa ? KEYS_RS256 : KEYS_ES256;
    if (keys_jwks_find(jwks, raw->kid, jwk->alg) != NULL &&
        raw->kid[0] != '\0') {
        return; /* the first of its name counts */
    }
    jwk->key = rsa ? make_rsa(raw) : make_point(raw);
    if (jwk->key != NULL) {
        memcpy(jwk->kid, raw->kid, sizeof(jwk->kid));
        jwks->count++;
    }
}

/* One key, whose bracket was read. NULL, or why not. */
static const char *
take_key(struct json_pull *pull, struct keys_jwks *jwks)
{
    struct raw raw = {.private = false};
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_KEY) {
        if (!take_member(pull, &raw)) {
            return pull->fault;
        }
    }
    if (token != PULL_OBJECT_END) {
        return pull->fault;
    }
    if (jwks->count == KEYS_JWKS_MAX) {
        return "has too many keys";
    }
    add(jwks, &raw);
    return NULL;
}

static const char *
take_keys(struct json_pull *pull, struct keys_jwks *jwks)
{
    const char *why = NULL;
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        return "has no list named keys";
    }
    while (why == NULL && (token = json_pull_next(pull)) == PULL_OBJECT) {
        why = take_key(pull, jwks);
    }
    return why != NULL               ? why
           : token == PULL_ARRAY_END ? NULL
                                     : "has a key that is no object";
}

static const char *
take_set(struct json_pull *pull, struct keys_jwks *jwks)
{
    const char *why = NULL;
    bool seen = false;
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_OBJECT) {
        return "is no JSON object";
    }
    while (why == NULL && (token = json_pull_next(pull)) == PULL_KEY) {
        if (json_pull_is(pull, SLICE("keys")) && !seen) {
            seen = true;
            why = take_keys(pull, jwks);
        } else if (!json_pull_skip(pull)) {
            why = pull->fault;
        }
    }
    if (why == NULL &&
        (token != PULL_OBJECT_END || json_pull_next(pull) != PULL_END)) {
        why = "is no JSON object";
    }
    return why != NULL        ? why
           : jwks->count == 0 ? "has no key for RS256 or ES256"
                              : NULL;
}

struct keys_jwks *
keys_jwks_new(struct slice json, const struct keys_rules *rules,
              const char **why)
{
    struct keys_jwks *jwks = calloc(1, sizeof(*jwks));
    struct json_pull pull;

    CHECK(rules->tenant_claim[0] != '\0');
    *why = jwks == NULL                     ? "out of memory"
           : json.len > KEYS_JWKS_BYTES_MAX ? "is over 256 KiB"
                                            : NULL;
    if (*why == NULL) {
        jwks->rules = *rules;
        json_pull_init(&pull, json);
        *why = take_set(&pull, jwks);
    }
    if (*why != NULL) {
        keys_jwks_free(jwks);
        return NULL;
    }
    return jwks;
}

void
keys_jwks_free(struct keys_jwks *jwks)
{
    if (jwks != NULL) {
        for (uint32_t i = 0; i < jwks->count; i++) {
            EVP_PKEY_free(jwks->jwk[i].key);
        }
        free(jwks);
    }
}

void
keys_jwks_free_retired(struct qsbr_node *retired)
{
    keys_jwks_free((struct keys_jwks *)(void *)retired); /* first member */
}

const struct keys_jwk *
keys_jwks_find(const struct keys_jwks *jwks, const char *kid, enum keys_alg alg)
{
    const struct keys_jwk *only = NULL;
    uint32_t count = 0;

    for (uint32_t i = 0; i < jwks->count; i++) {
        const struct keys_jwk *jwk = &jwks->jwk[i];
        if (jwk->alg != alg) {
            continue;
        }
        if (kid[0] != '\0' && is_text(jwk->kid, kid)) {
            return jwk;
        }
        only = jwk;
        count++;
    }
    return kid[0] == '\0' && count == 1 ? only : NULL;
}
