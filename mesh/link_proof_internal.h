/*
 * A secret that all nodes share, in place of certificates. Before the first
 * frame each side of a connection proves that it knows the secret: by an
 * HMAC-SHA256 over two random numbers, one from each side, and over who the
 * client says that it is: its name, address and process, and the channel and the
 * number of this connection. So a proof that somebody overhears is worth nothing
 * on another connection, and who passes a proof on cannot take it for a hello of
 * another node, nor give another address to dial: each hello of the connection
 * must be of whom the proof was about. The secret decides who may join. It
 * encrypts nothing, and does not protect the frames that follow: whoever can
 * stand between two nodes, or is dialled in place of one, can pass the handshake
 * and the hello on as they are and then speak in that node's name. Against that
 * there is TLS. The hello itself has no proof, because it is repeated with what
 * was heard meanwhile.
 *
 * The file has one secret per line, two at most. This node makes proofs with
 * the first secret and accepts proofs with either, so that a secret can be
 * replaced while nodes run. The file is read again each idle_ms.
 *
 * Role: shell (the file). Owns: nothing. Thread: the loop's. Limits: below.
 */
#ifndef MESH_LINK_PROOF_INTERNAL_H
#define MESH_LINK_PROOF_INTERNAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "mesh/frame.h"

#define PROOF_SIZE     32U /* bytes, of a number and of a proof */
#define WHO_SIZE       (17U + 2U * FRAME_TEXT_MAX) /* see proof_who() */
#define SECRETS_MAX    2U
#define SECRET_LEN_MIN 16U
#define SECRET_LEN_MAX 256U

struct secrets {
    uint32_t count;
    size_t lens[SECRETS_MAX];
    char texts[SECRETS_MAX][SECRET_LEN_MAX];
};

/* Reads the file. 0 and *secrets; or -errno or MESH_LINK_E_CONFIG, and *why,
 * static text: then *secrets stays as it was. */
int secrets_read(struct secrets *secrets, const char *path, const char **why)
    MUST_CHECK;

/* Erases the secrets from memory. */
void secrets_forget(struct secrets *secrets);

/* Who a hello is of, as bytes: session u64 and nonce u64, little endian, channel
 * u8, name and address, both filled up with zeros. */
void proof_who(const struct frame_hello *hello, uint64_t session,
               uint8_t who[WHO_SIZE]);

/* What a proof says: the server, or else the client, of this connection in this
 * cluster knows the secret. */
struct proof_claim {
    bool server;
    const char *cluster;
    const uint8_t *client_number; /* PROOF_SIZE bytes each */
    const uint8_t *server_number;
    const uint8_t *who; /* the client: WHO_SIZE bytes */
};

enum {
    PROOF_E_WRONG = 1, /* it was made with none of the secrets */
};

/* Makes the proof with the first secret. 0 or -ENOMEM. */
int proof_make(const struct secrets *secrets, const struct proof_claim *claim,
               uint8_t proof[PROOF_SIZE]) MUST_CHECK;

/* Whether the proof was made with one of the secrets: 0, PROOF_E_WRONG, or
 * -ENOMEM: that is not known. A wrong proof takes as long to check as a right
 * one. */
int proof_check(const struct secrets *secrets, const struct proof_claim *claim,
                const uint8_t proof[PROOF_SIZE]) MUST_CHECK;

#endif
