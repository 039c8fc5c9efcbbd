/* Reads credentials of NATS users, and signs by them. */
#include "node/base/nkey.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <string.h>

#include "node/base/file.h"

#define SEED_TEXT       58U /* characters of base32 ... */
#define SEED_RAW        36U /* ... and bytes: 2 of its kind, the seed, 2 to check */
#define SIGNATURE_BYTES 64U

/* The line behind the one that has the words; "": there is none. */
static struct slice
behind(struct slice text, struct slice words)
{
    while (text.len != 0) {
        struct slice line = slice_take_line(&text);
        if (memmem(line.ptr, line.len, words.ptr, words.len) != NULL) {
            return slice_trim(slice_take_line(&text));
        }
    }
    return SLICE("");
}

/* RFC 4648's base32, without padding. */
static bool
decode(struct slice text, uint8_t out[SEED_RAW])
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    uint32_t bits = 0;
    uint32_t held = 0;
    size_t len = 0;

    for (size_t i = 0; i < text.len; i++) {
        const char *digit = memchr(digits, text.ptr[i], sizeof digits - 1);
        if (digit == NULL) {
            return false;
        }
        held = (held << 5 | (uint32_t)(digit - digits)) & 0xFFFFU;
        bits += 5;
        if (bits >= 8) {
            bits -= 8;
            out[len++] = (uint8_t)(held >> bits);
        }
    }
    return len == SEED_RAW;
}

/* CRC-16/XMODEM. */
static uint16_t
check_of(const uint8_t *bytes, size_t len)
{
    uint32_t crc = 0;

    for (size_t i = 0; i < len; i++) {
        crc ^= (uint32_t)bytes[i] << 8;
        for (unsigned bit = 0; bit < 8; bit++) {
            crc = (crc & 0x8000U) != 0 ? crc << 1 ^ 0x1021U : crc << 1;
        }
    }
    return (uint16_t)crc;
}

static bool
take_seed(struct slice text, uint8_t seed[NKEY_SEED_BYTES])
{
    uint8_t raw[SEED_RAW];

    bool good = text.len == SEED_TEXT && text.ptr[0] == 'S' &&
                text.ptr[1] == 'U' && decode(text, raw) &&
                check_of(raw, SEED_RAW - 2) ==
                    (uint16_t)(raw[SEED_RAW - 2] | raw[SEED_RAW - 1] << 8);
    if (good) {
        memcpy(seed, raw + 2, NKEY_SEED_BYTES);
    }
    OPENSSL_cleanse(raw, sizeof raw);
    return good;
}

int
nkey_read(struct slice text, struct nkey *key, const char **why)
{
    struct slice jwt = behind(text, SLICE("BEGIN NATS USER JWT"));
    struct slice seed = behind(text, SLICE("BEGIN USER NKEY SEED"));

    *why = NULL;
    if (jwt.len == 0 || jwt.len >= sizeof key->jwt) {
        *why = "the file of credentials has no JWT of a user";
    } else if (!take_seed(seed, key->seed)) {
        *why = "the file of credentials has no good seed of a user";
    } else {
        memcpy(key->jwt, jwt.ptr, jwt.len);
        key->jwt[jwt.len] = '\0';
    }
    return *why == NULL ? 0 : NKEY_E_BAD;
}

int
nkey_load(const char *path, struct nkey *key, const char **why)
{
    char text[NKEY_FILE_MAX];
    ssize_t len = file_read(path, text, sizeof text);

    if (len < 0) {
        *why = "the file of credentials cannot be opened";
        return NKEY_E_BAD;
    }
    int outcome = nkey_read((struct slice){text, (size_t)len}, key, why);
    OPENSSL_cleanse(text, sizeof text);
    return outcome;
}

/* RFC 4648's base64url, without padding. */
static void
encode(const uint8_t bytes[SIGNATURE_BYTES], char out[NKEY_SIGNED_MAX])
{
    static const char digits[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    uint32_t held = 0;
    uint32_t bits = 0;
    size_t len = 0;

    for (size_t i = 0; i < SIGNATURE_BYTES; i++) {
        held = (held << 8 | bytes[i]) & 0xFFFFU;
        for (bits += 8; bits >= 6;) {
            bits -= 6;
            out[len++] = digits[held >> bits & 63];
        }
    }
    if (bits != 0) {
        out[len++] = digits[held << (6 - bits) & 63];
    }
    CHECK(len < NKEY_SIGNED_MAX);
    out[len] = '\0';
}

bool
nkey_sign(const struct nkey *key, struct slice text, char out[NKEY_SIGNED_MAX])
{
    uint8_t signature[SIGNATURE_BYTES];
    size_t size = sizeof signature;
    EVP_PKEY *pair = EVP_PKEY_new_raw_private_key(EVP_PKEY_ED25519, NULL,
                                                  key->seed, NKEY_SEED_BYTES);
    EVP_MD_CTX *context = EVP_MD_CTX_new();

    bool good = pair != NULL && context != NULL &&
                EVP_DigestSignInit(context, NULL, NULL, NULL, pair) == 1 &&
                EVP_DigestSign(context, signature, &size,
                               (const uint8_t *)text.ptr, text.len) == 1;
    EVP_MD_CTX_free(context);
    EVP_PKEY_free(pair);
    if (good) {
        CHECK(size == SIGNATURE_BYTES);
        encode(signature, out);
    }
    return good;
}

void
nkey_wipe(struct nkey *key)
{
    OPENSSL_cleanse(key, sizeof *key);
}
