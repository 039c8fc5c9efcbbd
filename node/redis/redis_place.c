/* Addresses of a Redis, and its file. */
#include "node/redis/redis_place.h"

#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <string.h>

#include "node/base/file.h"

#define SECRET_MIN   16U
#define SECRET_MAX   256U
#define PORT_DEFAULT 6379U

static const char *const expected =
    "expected redis://HOST[:PORT][/NUMBER] or rediss://...; a user and a "
    "password stand in answer_cache.redis_file";

/* "/NUMBER" or "/", without its slash. */
static bool
read_database(struct slice text, uint32_t *number)
{
    *number = 0;
    for (size_t i = 0; i < text.len; i++) {
        if (text.ptr[i] < '0' || text.ptr[i] > '9' || i == 4) {
            return false;
        }
        *number = *number * 10 + (uint32_t)(text.ptr[i] - '0');
    }
    return *number < REDIS_DATABASES_MAX;
}

const char *
redis_place_read(struct slice text, struct redis_place *place)
{
    char peer[URL_TEXT_MAX];
    bool tls = slice_skip_text(&text, SLICE("rediss://"));

    if ((!tls && !slice_skip_text(&text, SLICE("redis://"))) ||
        text.len >= sizeof(peer) - 8) {
        return expected;
    }
    const char *slash = memchr(text.ptr, '/', text.len);
    size_t len = slash != NULL ? (size_t)(slash - text.ptr) : text.len;
    struct slice rest = {slash, slash != NULL ? text.len - len : 0};
    if (rest.len != 0) {
        rest.ptr++;
        rest.len--;
    }
    bool has_port = false;
    for (size_t i = len; i-- != 0 && text.ptr[i] != ']';) {
        has_port = has_port || text.ptr[i] == ':';
    }
    int size = snprintf(peer, sizeof(peer), has_port ? "%.*s" : "%.*s:%u",
                        (int)len, text.ptr, PORT_DEFAULT);
    if (url_parse_peer((struct slice){peer, (size_t)size}, &place->url) !=
            NULL ||
        !read_database(rest, &place->database)) {
        return expected;
    }
    place->url.tls = tls;
    return NULL;
}

/* As much of what the secret and that word make as there is room for. */
static bool
derive(struct slice secret, const char *word, void *out, size_t size)
{
    uint8_t made[EVP_MAX_MD_SIZE];
    unsigned len = 0;
    bool good = HMAC(EVP_sha256(), secret.ptr, (int)secret.len,
                     (const uint8_t *)word, strlen(word), made, &len) != NULL;

    CHECK(!good || size <= len);
    memcpy(out, made, good ? size : 0);
    OPENSSL_cleanse(made, sizeof(made));
    return good;
}

static bool
copy_word(struct slice value, char out[REDIS_WORD_MAX])
{
    if (value.len == 0 || value.len >= REDIS_WORD_MAX) {
        return false;
    }
    memcpy(out, value.ptr, value.len);
    out[value.len] = '\0';
    return true;
}

/* NULL, or what is wrong with the line. */
static const char *
read_line(struct slice line, struct redis_secret *secret, bool *found)
{
    while (line.len != 0 &&
           (line.ptr[line.len - 1] == '\r' || line.ptr[line.len - 1] == ' ')) {
        line.len--;
    }
    if (line.len == 0 || line.ptr[0] == '#') {
        return NULL;
    }
    if (slice_skip_text(&line, SLICE("secret "))) {
        if (*found || line.len < SECRET_MIN || line.len > SECRET_MAX) {
            return "expected one secret of 16 to 256 characters (openssl rand "
                   "-hex 32)";
        }
        *found = true;
        return derive(line, "kvasir names of answers 1", &secret->seed,
                      sizeof(secret->seed)) &&
                       derive(line, "kvasir answers 1", secret->key,
                              sizeof(secret->key))
                   ? NULL
                   : "there is no SHA-256";
    }
    if (slice_skip_text(&line, SLICE("password "))) {
        return copy_word(line, secret->password)
                   ? NULL
                   : "expected a password of 1 to 256 characters";
    }
    if (slice_skip_text(&line, SLICE("user "))) {
        return copy_word(line, secret->user)
                   ? NULL
                   : "expected a user of 1 to 256 characters";
    }
    return "expected lines of secret, password or user, a blank and its value";
}

static const char *
read_text(struct slice text, struct redis_secret *secret)
{
    const char *wrong = NULL;
    bool found = false;

    while (wrong == NULL && text.len != 0) {
        wrong = read_line(slice_take(&text, '\n'), secret, &found);
    }
    if (wrong == NULL && !found) {
        wrong = "expected a line `secret TEXT`, the same on all nodes (openssl "
                "rand -hex 32): the names of answers are made of it, and "
                "answers are sealed with it";
    }
    if (wrong == NULL && secret->user[0] != '\0' &&
        secret->password[0] == '\0') {
        wrong = "a user needs a password";
    }
    return wrong;
}

const char *
redis_secret_read(const char *path, struct redis_secret *secret)
{
    char text[REDIS_FILE_MAX];
    ssize_t len = file_read(path, text, sizeof(text));
    const char *wrong = "it cannot be read";

    memset(secret, 0, sizeof(*secret));
    if (len == (ssize_t)sizeof(text)) {
        wrong = "it is longer than 4095 bytes";
    } else if (len >= 0) {
        wrong = read_text((struct slice){text, (size_t)len}, secret);
    }
    OPENSSL_cleanse(text, sizeof(text));
    if (wrong != NULL) {
        redis_secret_forget(secret);
    }
    return wrong;
}

void
redis_secret_forget(struct redis_secret *secret)
{
    OPENSSL_cleanse(secret, sizeof(*secret));
}
