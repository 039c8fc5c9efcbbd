/* Proofs that a node knows the secret that all nodes share. */
#include "mesh/link_proof_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <string.h>
#include <unistd.h>

#include "index/base/buf.h"
#include "mesh/link.h"

#define FILE_MAX   1024U
#define CLAIM_MAX  384U
#define CLAIM_TEXT "kvasir mesh 2 "

/* Reads the lines of the file's text. NULL, or what is wrong. */
static const char *
parse(struct secrets *secrets, const char *text, size_t len)
{
    while (len > 0) {
        const char *end = memchr(text, '\n', len);
        size_t all = end != NULL ? (size_t)(end - text) : len;
        size_t line = all;

        while (line > 0 && (text[line - 1] == '\r' || text[line - 1] == ' ')) {
            line--;
        }
        if (line != 0 && secrets->count == SECRETS_MAX) {
            return "the secret's file has more than two lines";
        }
        if (line != 0 && (line < SECRET_LEN_MIN || line > SECRET_LEN_MAX)) {
            return "a secret has 16 to 256 characters";
        }
        if (line != 0) {
            memcpy(secrets->texts[secrets->count], text, line);
            secrets->lens[secrets->count++] = line;
        }
        text += all + (end != NULL);
        len -= all + (end != NULL);
    }
    return secrets->count != 0 ? NULL : "the secret's file is empty";
}

/* Returns how many bytes it read, at most size; or -errno. */
static ssize_t
read_file(const char *path, char *bytes, size_t size)
{
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    size_t len = 0;
    ssize_t count = 1;

    if (fd < 0) {
        return -errno;
    }
    while (len < size && count > 0) {
        count = read(fd, bytes + len, size - len);
        len += count > 0 ? (size_t)count : 0;
    }
    int error = errno;
    (void)close(fd);
    return count < 0 ? -error : (ssize_t)len;
}

int
secrets_read(struct secrets *secrets, const char *path, const char **why)
{
    struct secrets read = {.count = 0};
    char text[FILE_MAX];
    ssize_t len = read_file(path, text, sizeof text);

    CHECK(secrets != NULL);
    *why = "the secret's file cannot be read";
    if (len < 0) {
        return (int)len;
    }
    *why = len < (ssize_t)sizeof text ? parse(&read, text, (size_t)len)
                                      : "the secret's file is too long";
    if (*why == NULL) {
        *secrets = read;
    }
    explicit_bzero(text, sizeof text);
    secrets_forget(&read);
    return *why == NULL ? 0 : MESH_LINK_E_CONFIG;
}

void
secrets_forget(struct secrets *secrets)
{
    explicit_bzero(secrets, sizeof *secrets);
}

void
proof_who(const struct frame_hello *hello, uint64_t session,
          uint8_t who[WHO_SIZE])
{
    size_t at = 0;

    CHECK(memchr(hello->name, 0, FRAME_TEXT_MAX) != NULL);
    CHECK(memchr(hello->address, 0, FRAME_TEXT_MAX) != NULL);
    memset(who, 0, WHO_SIZE);
    for (unsigned i = 0; i < 8; i++) {
        who[at++] = (uint8_t)(session >> 8 * i);
    }
    for (unsigned i = 0; i < 8; i++) {
        who[at++] = (uint8_t)(hello->nonce >> 8 * i);
    }
    who[at++] = hello->channel;
    memcpy(who + at, hello->name, strlen(hello->name));
    memcpy(who + at + FRAME_TEXT_MAX, hello->address, strlen(hello->address));
    CHECK(at + (size_t)2 * FRAME_TEXT_MAX == WHO_SIZE);
}

/* 0 or -ENOMEM. */
static int
make(const struct secrets *secrets, uint32_t at,
     const struct proof_claim *claim, uint8_t proof[PROOF_SIZE])
{
    uint8_t bytes[CLAIM_MAX];
    struct buf out = buf_over(bytes, sizeof bytes);
    unsigned len = 0;

    CHECK(at < secrets->count);
    buf_add_text(&out, CLAIM_TEXT);
    buf_add_text(&out, claim->server ? "server " : "client ");
    buf_add(&out, claim->client_number, PROOF_SIZE);
    buf_add(&out, claim->server_number, PROOF_SIZE);
    buf_add(&out, claim->who, WHO_SIZE);
    buf_add_text(&out, claim->cluster);
    CHECK(!out.failed);
    if (HMAC(EVP_sha256(), secrets->texts[at], (int)secrets->lens[at], bytes,
             out.len, proof, &len) == NULL) {
        ERR_clear_error();
        return -ENOMEM;
    }
    CHECK(len == PROOF_SIZE);
    return 0;
}

int
proof_make(const struct secrets *secrets, const struct proof_claim *claim,
           uint8_t proof[PROOF_SIZE])
{
    return make(secrets, 0, claim, proof);
}

int
proof_check(const struct secrets *secrets, const struct proof_claim *claim,
            const uint8_t proof[PROOF_SIZE])
{
    uint8_t right[PROOF_SIZE];
    bool found = false;

    for (uint32_t i = 0; i < secrets->count; i++) {
        int rc = make(secrets, i, claim, right);
        if (rc != 0) {
            return rc;
        }
        found = (CRYPTO_memcmp(right, proof, PROOF_SIZE) == 0) || found;
    }
    return found ? 0 : PROOF_E_WRONG;
}
