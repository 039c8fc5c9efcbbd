/* Tokens: the examples of RFC 7515, and tokens of our own with every fault. */
#include <criterion/criterion.h>
#include <openssl/core_names.h>
#include <openssl/ecdsa.h>
#include <openssl/evp.h>
#include <stdio.h>
#include <string.h>

#include "index/base/buf.h"
#include "node/keys/keys_token.h"

#define NOW 1300819000 /* seconds since 1970; the examples end at ...380 */

/* RFC 7515, A.2 and A.3. */
#define RFC_RSA                                                              \
    "{\"kty\":\"RSA\",\"n\":\"ofgWCuLjybRlzo0tZWJjNiuSfb4p4fAkd_wWJcyQoTbji" \
    "9k0l8W26mPddxHmfHQp-Vaw-4qPCJrcS2mJPMEzP1Pt0Bm4d4QlL-yRT-SFd2lZS-pCgN"  \
    "MsD1W_YpRPEwOWvG6b32690r2jZ47soMZo9wGzjb_7OMg0LOL-bSf63kpaSHSXndS5z5r"  \
    "exMdbBYUsLA9e-KXBdQOS-UTo7WTBEMa2R2CapHg665xsmtdVMTBQY4uDZlxvb3qCo5Zw"  \
    "Kh9kG4LT6_I5IhlJH7aGhyxXFvUK-DWNmoudF8NAco9_h9iaGNj8q2ethFkMLs91kzk2PA" \
    "cDTW9gb54h4FRWyuXpoQ\",\"e\":\"AQAB\"}"
#define RFC_EC                                                              \
    "{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"f83OJ3D2xF1Bg8vub9tLe1gHMz"  \
    "V76e8Tus9uPHvRVEU\",\"y\":\"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5" \
    "a0\"}"
#define RFC_CLAIMS                                                         \
    "eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxl" \
    "LmNvbS9pc19yb290Ijp0cnVlfQ"
#define RFC_RS256                                                            \
    "eyJhbGciOiJSUzI1NiJ9." RFC_CLAIMS                                       \
    ".cC4hiUPoj9Eetdgtv3hF80EGrhuB__dzERat0XF9g2VtQgr9PJbu3XOiZj5RZmh7AAuHI" \
    "m4Bh-0Qc_lF5YKt_O8W2Fp5jujGbds9uJdbF9CUAr7t1dnZcAcQjbKBYNX4BAynRFdiuB"  \
    "--f_nZLgrnbyTyWzO75vRK5h6xBArLIARNPvkSjtQBMHlb1L07Qe7K0GarZRmB_eSN9383" \
    "LcOLn6_dO--xi12jzDwusC-eOkHWEsqtFZESc6BfI7noOPqvhJ1phCnvWh6IeYI2w9QOYE" \
    "UipUTI8np6LbgGY9Fs98rqVt5AXLIhWkWywlVmtVrBp0igcN_IoypGlUPQGe77Rw"
#define RFC_ES256                                                             \
    "eyJhbGciOiJFUzI1NiJ9." RFC_CLAIMS                                        \
    ".DtEhU3ljbEg8L38VWAfUAqOyKAM6-Xx-F4GawxaepmXFCgfTjDxw5djxLa8ISlSApmWQxf" \
    "KTUJqPP3-Kg6NU1Q"

static struct keys *keys;
static struct keys_token_reader *reader;
static struct keys_rules rules;
static struct keys_jwks *jwks;
static uint32_t shop;
static EVP_PKEY *signer;
static uint64_t versions;

static void
encode(struct buf *out, const void *bytes, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnop"
                                 "qrstuvwxyz0123456789-_";
    const uint8_t *at = bytes;

    for (size_t bit = 0; bit < size * 8; bit += 6) {
        unsigned value = 0;
        for (size_t i = bit; i < bit + 6; i++) {
            unsigned byte = i < size * 8 ? at[i / 8] : 0;
            unsigned one = byte >> (7 - i % 8) & 1;
            value = value << 1 | one;
        }
        buf_add(out, &digits[value], 1);
    }
}

/* The signer's public key as a member of a set. */
static void
put_key(struct buf *out, const char *kid)
{
    uint8_t point[65];
    size_t size;

    cr_assert_eq(
        EVP_PKEY_get_octet_string_param(signer, OSSL_PKEY_PARAM_PUB_KEY, point,
                                        sizeof(point), &size),
        1);
    cr_assert_eq(size, sizeof(point));
    buf_printf(out,
               "{\"kty\":\"EC\",\"crv\":\"P-256\",\"use\":\"sig\",\"kid\":"
               "\"%s\",\"x\":\"",
               kid);
    encode(out, point + 1, 32);
    buf_add_text(out, "\",\"y\":\"");
    encode(out, point + 33, 32);
    buf_add_text(out, "\"}");
}

static void
use_set(const char *json)
{
    const char *why;

    keys_jwks_free(jwks);
    jwks = keys_jwks_new(slice_of(json), &rules, &why);
    cr_assert_not_null(jwks, "%s", why);
    jwks->version = ++versions;
}

/* The set of the signer's key, under that name. */
static void
use_signer(const char *kid)
{
    struct buf set;

    buf_init(&set, 4096);
    buf_add_text(&set, "{\"keys\":[" RFC_RSA ",");
    put_key(&set, kid);
    buf_add(&set, "]}", 3);
    use_set(set.ptr);
    buf_fini(&set);
}

static int
check(struct slice token, int64_t now_s, uint32_t *tenant)
{
    bool verified;

    return keys_token_check(reader, jwks, keys, token, now_s, tenant,
                            &verified);
}

/* A token by the signer. */
static void
make(struct buf *out, const char *head, const char *claims)
{
    uint8_t der[80];
    size_t size = sizeof(der);
    uint8_t raw[64];

    encode(out, head, strlen(head));
    buf_add_text(out, ".");
    encode(out, claims, strlen(claims));
    EVP_MD_CTX *ctx = EVP_MD_CTX_new();
    cr_assert_eq(
        EVP_DigestSignInit_ex(ctx, NULL, "SHA256", NULL, NULL, signer, NULL),
        1);
    cr_assert_eq(EVP_DigestSign(ctx, der, &size,
                                (const unsigned char *)out->ptr, out->len),
                 1);
    EVP_MD_CTX_free(ctx);
    const unsigned char *at = der;
    ECDSA_SIG *sig = d2i_ECDSA_SIG(NULL, &at, (long)size);
    cr_assert_eq(BN_bn2binpad(ECDSA_SIG_get0_r(sig), raw, 32), 32);
    cr_assert_eq(BN_bn2binpad(ECDSA_SIG_get0_s(sig), raw + 32, 32), 32);
    ECDSA_SIG_free(sig);
    buf_add_text(out, ".");
    encode(out, raw, sizeof(raw));
}

#define HEAD "{\"alg\":\"ES256\",\"kid\":\"one\"}"

/* What becomes of a token with these claims at that time. */
static int
says(const char *head, const char *claims, int64_t now_s)
{
    struct buf token;
    uint32_t tenant = 0;

    buf_init(&token, (size_t)16 << 10);
    make(&token, head, claims);
    int outcome = check(buf_slice(&token), now_s, &tenant);
    cr_assert(outcome != KEYS_TOKEN_FINE || tenant == shop);
    buf_fini(&token);
    return outcome;
}

static void
setup(void)
{
    rules = (struct keys_rules){.tenant_claim = "tenant"};
    cr_assert_eq(keys_new(&keys, NULL), 0);
    cr_assert_eq(keys_add_tenant(keys, SLICE("shop"), &shop), 0);
    cr_assert_eq(keys_token_reader_new(&reader), 0);
    signer = EVP_EC_gen("P-256");
    use_signer("one");
}

static void
teardown(void)
{
    EVP_PKEY_free(signer);
    keys_token_reader_free(reader);
    keys_jwks_free(jwks);
    keys_free(keys);
    jwks = NULL;
}

TestSuite(node_keys_token, .init = setup, .fini = teardown);

Test(node_keys_token, the_examples_of_the_rfc_are_good)
{
    uint32_t tenant;

    memcpy(rules.default_tenant, "shop", 5);
    memcpy(rules.issuer, "joe", 4);
    use_set("{\"keys\":[" RFC_RSA "," RFC_EC "]}");
    cr_assert_eq(check(SLICE(RFC_RS256), NOW, &tenant), KEYS_TOKEN_FINE);
    cr_assert_eq(tenant, shop);
    cr_assert_eq(check(SLICE(RFC_ES256), NOW, &tenant), KEYS_TOKEN_FINE);
    cr_assert_eq(check(SLICE(RFC_ES256), NOW + 380, &tenant),
                 KEYS_TOKEN_EXPIRED);
}

Test(node_keys_token, each_changed_byte_is_noticed)
{
    char token[] = RFC_ES256;
    uint32_t tenant;

    memcpy(rules.default_tenant, "shop", 5);
    use_set("{\"keys\":[" RFC_RSA "," RFC_EC "]}");
    for (size_t i = 0; i < sizeof(token) - 1; i++) {
        char right = token[i];
        token[i] = right == 'A' ? 'B' : 'A';
        cr_assert_neq(check(slice_of(token), NOW, &tenant), KEYS_TOKEN_FINE,
                      "byte %zu", i);
        token[i] = right;
    }
    for (size_t len = 0; len < sizeof(token) - 1; len++) {
        struct slice cut = {token, len};
        cr_assert_neq(check(cut, NOW, &tenant), KEYS_TOKEN_FINE);
    }
    cr_assert_eq(check(slice_of(token), NOW, &tenant), KEYS_TOKEN_FINE);
}

Test(node_keys_token, the_algorithm_is_the_keys)
{
    const char *claims = "{\"exp\":2000,\"tenant\":\"shop\"}";

    cr_assert_eq(says(HEAD, claims, 0), KEYS_TOKEN_FINE);
    cr_assert_eq(says("{\"alg\":\"ES256\"}", claims, 0), KEYS_TOKEN_FINE);
    static const char *const heads[] = {
        "{\"alg\":\"none\",\"kid\":\"one\"}",
        "{\"alg\":\"HS256\",\"kid\":\"one\"}",
        "{\"alg\":\"RS256\",\"kid\":\"one\"}",
        "{\"alg\":\"ES256\",\"kid\":\"two\"}",
    };
    for (size_t i = 0; i < sizeof(heads) / sizeof(heads[0]); i++) {
        cr_assert_eq(says(heads[i], claims, 0), KEYS_TOKEN_KEY, "%s", heads[i]);
    }
    static const char *const bad[] = {
        "{\"kid\":\"one\"} ,",
        "[]",
        "{\"alg\":1}",
        "{\"alg\":\"ES256\",\"crit\":[\"b64\"],\"b64\":false}",
        "{\"alg\":\"ES256\",\"alg\":\"ES256\"}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(says(bad[i], claims, 0), KEYS_TOKEN_BAD, "%s", bad[i]);
    }
}

Test(node_keys_token, times_count_with_a_leeway)
{
    const char *claims =
        "{\"nbf\":1000,\"exp\":2000.9,\"tenant\":\"shop\",\"x\":{\"a\":[1]}}";

    cr_assert_eq(says(HEAD, claims, 999), KEYS_TOKEN_EARLY);
    cr_assert_eq(says(HEAD, claims, 1000), KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, claims, 1999), KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, claims, 2000), KEYS_TOKEN_EXPIRED);
    rules.leeway_s = 60;
    use_signer("one");
    cr_assert_eq(says(HEAD, claims, 939), KEYS_TOKEN_EARLY);
    cr_assert_eq(says(HEAD, claims, 940), KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, claims, 2059), KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, claims, 2060), KEYS_TOKEN_EXPIRED);
    static const char *const bad[] = {
        "{\"tenant\":\"shop\"}",
        "{\"exp\":\"2000\",\"tenant\":\"shop\"}",
        "{\"exp\":-1,\"tenant\":\"shop\"}",
        "{\"exp\":2e3,\"tenant\":\"shop\"}",
        "{\"exp\":99999999999999999999,\"tenant\":\"shop\"}",
        "{\"exp\":2000,\"exp\":3000,\"tenant\":\"shop\"}",
        "{\"exp\":2000,\"nbf\":null,\"tenant\":\"shop\"}",
        "{\"exp\":2000,\"tenant\":7}",
        "{\"exp\":2000,\"tenant\":\"shop\"}}",
    };
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_eq(says(HEAD, bad[i], 1000), KEYS_TOKEN_BAD, "%s", bad[i]);
    }
}

Test(node_keys_token, issuer_audience_and_tenant_are_held_to_the_rules)
{
    memcpy(rules.issuer, "https://id.example/", 20);
    memcpy(rules.audience, "kvasir", 7);
    use_signer("one");
#define MORE ",\"exp\":2000,\"tenant\":\"shop\"}"
#define ISS  "{\"iss\":\"https:\\/\\/id.example/\""
    cr_assert_eq(says(HEAD, ISS ",\"aud\":\"kvasir\"" MORE, 0),
                 KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, ISS ",\"aud\":[\"a\",\"kvasir\"]" MORE, 0),
                 KEYS_TOKEN_FINE);
    cr_assert_eq(says(HEAD, ISS ",\"aud\":[\"a\"]" MORE, 0),
                 KEYS_TOKEN_AUDIENCE);
    cr_assert_eq(says(HEAD, ISS MORE, 0), KEYS_TOKEN_AUDIENCE);
    cr_assert_eq(says(HEAD, ISS ",\"aud\":7" MORE, 0), KEYS_TOKEN_BAD);
    cr_assert_eq(says(HEAD, "{\"iss\":\"other\",\"aud\":\"kvasir\"" MORE, 0),
                 KEYS_TOKEN_ISSUER);
    cr_assert_eq(says(HEAD, "{\"aud\":\"kvasir\"" MORE, 0), KEYS_TOKEN_ISSUER);
    cr_assert_eq(says(HEAD, ISS ",\"aud\":\"kvasir\",\"exp\":2000}", 0),
                 KEYS_TOKEN_TENANT);
    cr_assert_eq(
        says(HEAD, ISS ",\"aud\":\"kvasir\",\"exp\":2000,\"tenant\":\"x\"}", 0),
        KEYS_TOKEN_TENANT);
    memcpy(rules.default_tenant, "shop", 5);
    use_signer("one");
    cr_assert_eq(
        says(HEAD, ISS ",\"aud\":\"kvasir\",\"exp\":2000,\"tenant\":\"x\"}", 0),
        KEYS_TOKEN_FINE);
}

Test(node_keys_token, a_token_is_remembered_until_its_key_goes)
{
    struct buf token;
    uint32_t tenant;
    bool verified;

    buf_init(&token, 4096);
    make(&token, HEAD, "{\"exp\":2000,\"tenant\":\"shop\"}");
    struct slice text = buf_slice(&token);
    for (int i = 0; i < 2; i++) {
        cr_assert_eq(
            keys_token_check(reader, jwks, keys, text, 0, &tenant, &verified),
            KEYS_TOKEN_FINE);
        cr_assert_eq(verified, i == 0);
    }
    cr_assert_eq(check(text, 2000, &tenant), KEYS_TOKEN_EXPIRED);

    struct keys *fresh; /* its tenant is gone, and comes back */
    cr_assert_eq(keys_new(&fresh, keys), 0);
    keys_free(keys);
    keys = fresh;
    cr_assert_eq(check(text, 0, &tenant), KEYS_TOKEN_TENANT);
    cr_assert_eq(keys_add_tenant(keys, SLICE("shop"), &shop), 0);
    cr_assert_eq(check(text, 0, &tenant), KEYS_TOKEN_FINE);

    use_signer("two"); /* another set: nothing is remembered of the first */
    cr_assert_eq(check(text, 0, &tenant), KEYS_TOKEN_KEY);
    use_signer("one");
    cr_assert_eq(check(text, 0, &tenant), KEYS_TOKEN_FINE);
    EVP_PKEY_free(signer);
    signer = EVP_EC_gen("P-256");
    use_signer("one");
    cr_assert_eq(check(text, 0, &tenant), KEYS_TOKEN_SIGNATURE);
    buf_fini(&token);
}

Test(node_keys_token, more_tokens_than_are_remembered_are_good_all_the_same)
{
    char claims[80];

    for (unsigned i = 0; i < 2 * KEYS_TOKENS_MAX; i++) {
        (void)snprintf(claims, sizeof(claims),
                       "{\"exp\":2000,\"tenant\":\"shop\",\"n\":%u}", i);
        cr_assert_eq(says(HEAD, claims, 0), KEYS_TOKEN_FINE);
    }
}

Test(node_keys_token, sets_are_read_and_what_cannot_be_used_passed_over)
{
    static const struct {
        const char *json;
        const char *why;
    } bad[] = {
        {"", "is no JSON object"},
        {"[]", "is no JSON object"},
        {"{\"keys\":{}}", "has no list named keys"},
        {"{\"keys\":[1]}", "has a key that is no object"},
        {"{\"keys\":[]}", "has no key for RS256 or ES256"},
        {"{\"keys\":[" RFC_EC "]} x", "is no JSON object"},
        {"{\"keys\":[{\"kty\":\"oct\",\"k\":\"AAAA\"}]}",
         "has no key for RS256 or ES256"},
        {"{\"keys\":[{\"kty\":\"EC\",\"crv\":\"P-256\",\"x\":\"AAAA\","
         "\"y\":\"AAAA\"}]}",
         "has no key for RS256 or ES256"},
        {"{\"keys\":[{\"kty\":\"RSA\",\"n\":\"AQAB\",\"e\":\"AQAB\"}]}",
         "has no key for RS256 or ES256"},
    };
    const char *why;

    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_null(keys_jwks_new(slice_of(bad[i].json), &rules, &why));
        cr_assert_str_eq(why, bad[i].why, "%s", bad[i].json);
    }
    use_set("{\"a\":[{}],\"keys\":[{\"kty\":\"oct\"}," RFC_EC
            ",{\"kty\":[1],\"use\":\"enc\"}," RFC_RSA "]}");
    cr_assert_eq(jwks->count, 2);
}

Test(node_keys_token, base64url_is_strict)
{
    uint8_t out[4];
    size_t size;

    cr_assert(keys_base64url(SLICE("-_8"), out, sizeof(out), &size));
    cr_assert(size == 2 && out[0] == 0xfb && out[1] == 0xff);
    cr_assert(keys_base64url(SLICE(""), out, sizeof(out), &size) && size == 0);
    static const char *const bad[] = {"A", "AB", "AA==", "A+A=", "AA A", "AAB"};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        cr_assert_not(keys_base64url(slice_of(bad[i]), out, sizeof(out), &size),
                      "%s", bad[i]);
    }
    cr_assert_not(keys_base64url(SLICE("AAAAAAA"), out, sizeof(out), &size));
}
