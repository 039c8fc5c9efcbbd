/* Any bytes as a token, as the JSON inside one, and as a set of keys: no crash,
 * nobody is let in by a token without a signature, and what is read keeps to
 * its bounds. */
#include <string.h>

#include "node/keys/keys_token.h"
#include "node/keys/keys_token_internal.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char set[] =
    "{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9t"
    "Le1gHMzV76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjK"
    "IWI5a0\"}]}";

static const struct keys_rules rules = {
    .issuer = "i", .audience = "a", .tenant_claim = "t"};

static void
read_token(struct slice text)
{
    static struct keys_token_reader *reader;
    static struct keys_jwks *jwks;
    static struct keys *keys;
    const char *why;
    uint32_t tenant;
    bool verified;

    if (reader == NULL) {
        CHECK(keys_token_reader_new(&reader) == 0 &&
              keys_new(&keys, NULL) == 0);
        jwks = keys_jwks_new(SLICE(set), &rules, &why);
        CHECK(jwks != NULL);
        jwks->version = 1;
    }
    int outcome =
        keys_token_check(reader, jwks, keys, text, 1000, &tenant, &verified);
    CHECK(outcome > KEYS_TOKEN_FINE && outcome < KEYS_TOKEN_OUTCOMES);
    CHECK(keys_token_why((enum keys_token_outcome)outcome)[0] != '\0');
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice text = {.ptr = (const char *)data, .len = size};
    struct token_claims claims;
    struct token_head head;
    const char *why;

    read_token(text);
    if (keys_token_read_head(text, &head)) {
        CHECK(memchr(head.alg, '\0', sizeof(head.alg)) != NULL);
        CHECK(memchr(head.kid, '\0', sizeof(head.kid)) != NULL);
    }
    if (keys_token_read_claims(text, &rules, &claims)) {
        CHECK(claims.has_exp && claims.exp_s >= 0);
        CHECK(memchr(claims.tenant, '\0', sizeof(claims.tenant)) != NULL);
    }
    struct keys_jwks *jwks = keys_jwks_new(text, &rules, &why);
    CHECK(jwks == NULL || (jwks->count > 0 && jwks->count <= KEYS_JWKS_MAX));
    keys_jwks_free(jwks);
    return 0;
}
