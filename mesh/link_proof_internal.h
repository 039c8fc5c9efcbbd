/*
 * A secret that all nodes share, in place of certificates: each side of a
 * connection proves that it knows it, by HMAC-SHA256 over two random numbers,
 * one of each side, before the first frame. So an answer that was overheard is
 * worth nothing on another connection. It says who may join; it hides nothing,
 * and guards no frame after it: that takes TLS.
 *
 * The file has one secret per line, and two at most: this node proves itself by
 * the first one and takes either, so that a secret can be replaced while nodes
 * run. It is read again when it changes.
 *
 * Role: shell (the file). Owns: nothing. Thread: the loop's. Limits: below.
 */
#ifndef MESH_LINK_PROOF_INTERNAL_H
#define MESH_LINK_PROOF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"

#define PROOF_SIZE     32U /* bytes, of a number and of a proof */
#define SECRETS_MAX    2U
#define SECRET_LEN_MIN 16U
#define SECRET_LEN_MAX 256U

struct secrets {
    uint32_t count;
    size_t lens[SECRETS_MAX];
    char texts[SECRETS_MAX][SECRET_LEN_MAX];
};

/* 0 and *secrets; else it stays as it was: -errno or MESH_LINK_E_CONFIG, and
 * *why, static text. */
int secrets_read(struct secrets *secrets, const char *path, const char **why)
    MUST_CHECK;

/* Leaves nothing in memory. */
void secrets_forget(struct secrets *secrets);

/* What is proven: that the client, or the server, of this connection of this
 * cluster knows the secret. */
struct proof_claim {
    bool server;
    const char *cluster;
    const uint8_t *client_number; /* PROOF_SIZE bytes each */
    const uint8_t *server_number;
};

/* By the first secret. */
void proof_make(const struct secrets *secrets, const struct proof_claim *claim,
                uint8_t proof[PROOF_SIZE]);

/* Whether it was made by any of the secrets. Takes as long when it was not. */
bool proof_check(const struct secrets *secrets, const struct proof_claim *claim,
                 const uint8_t proof[PROOF_SIZE]) MUST_CHECK;

#endif
