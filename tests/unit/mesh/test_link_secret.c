/*
 * A secret that nodes share: who knows it is a peer, and nobody else gets as far
 * as a hello.
 */
#include <arpa/inet.h>
#include <criterion/criterion.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "mesh/link_proof_internal.h"
#include "tests/unit/mesh/link_rig.h"

#define ONE "the first secret of these nodes\n"
#define TWO "the second secret of these nodes\n"

static char paths[RIG_NODES][32];
static unsigned failures; /* of the next HMACs */

/* In place of the library's. */
unsigned char *
HMAC(const EVP_MD *evp_md, const void *key, int key_len,
     const unsigned char *data, size_t data_len, unsigned char *md,
     unsigned *md_len)
{
    size_t made = 0;

    if (failures > 0) {
        failures--;
        return NULL;
    }
    cr_assert_not_null(EVP_Q_mac(NULL, "HMAC", NULL, EVP_MD_get0_name(evp_md),
                                 NULL, key, (size_t)key_len, data, data_len, md,
                                 EVP_MAX_MD_SIZE, &made));
    *md_len = (unsigned)made;
    return md;
}

static void
write_secret(unsigned n, const char *text)
{
    FILE *file = fopen(paths[n], "w");

    cr_assert_not_null(file);
    cr_assert_geq(fputs(text, file), 0);
    cr_assert_eq(fclose(file), 0);
}

static void
init(void)
{
    rig_init();
    for (unsigned n = 0; n < RIG_NODES; n++) {
        (void)snprintf(paths[n], sizeof paths[n], "/tmp/kvasir-secret-XXXXXX");
        int fd = mkstemp(paths[n]);
        cr_assert_geq(fd, 0);
        (void)close(fd);
    }
}

static void
fini(void)
{
    rig_fini();
    for (unsigned n = 0; n < RIG_NODES; n++) {
        (void)unlink(paths[n]);
    }
}

TestSuite(mesh_link_secret, .init = init, .fini = fini, .timeout = 60);

static void
open_secret(unsigned n, const char *text)
{
    struct mesh_link_config config = rig_config(n);

    write_secret(n, text);
    config.secret_path = paths[n];
    (void)rig_open(n, &config);
}

Test(mesh_link_secret, nodes_that_share_it_meet)
{
    open_secret(0, ONE);
    open_secret(1, ONE);
    rig_meet(0, 1);
    cr_assert_eq(rig_send(1, 0, MESH_BULK, "page"), 0);
    RIG_UNTIL(rig.nodes[0].received[MESH_BULK] == 1);
}

static void
expect_refused(const char *what)
{
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] > 1);
    cr_assert_str_eq(rig.nodes[0].refused_what, what);
    cr_assert_eq(rig_stats(0).peers, 0);
    cr_assert_eq(rig_stats(0).pipes, 0);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
    cr_assert_eq(rig.nodes[1].ups, 0);
}

Test(mesh_link_secret, who_knows_another_one_is_refused)
{
    open_secret(0, ONE);
    open_secret(1, TWO);
    expect_refused("it does not know the shared secret");
}

Test(mesh_link_secret, who_knows_none_is_refused)
{
    open_secret(0, ONE);
    (void)rig_open_default(1);
    expect_refused("it has no shared secret");
}

Test(mesh_link_secret, who_has_one_is_refused_where_there_is_none)
{
    (void)rig_open_default(0);
    open_secret(1, ONE);
    expect_refused("it asks for a shared secret");
}

/* Node by node: both are taken, then the new one is shown, then the old one is
 * gone. */
Test(mesh_link_secret, it_is_replaced_while_nodes_run)
{
    open_secret(0, ONE TWO);
    open_secret(1, ONE);
    rig_meet(0, 1);
    write_secret(1, TWO ONE);
    open_secret(2, TWO ONE);
    rig_meet(2, 0);
    rig_meet(1, 2); /* once node 1 has read its file */
    write_secret(0, TWO);
    open_secret(3, TWO);
    rig_meet(3, 0);
    cr_assert_eq(rig.nodes[0].downs, 0);
}

/* The server's number, for a greeting and a number of the client's. */
static void
ask(int fd, const uint8_t number[PROOF_SIZE], uint8_t theirs[PROOF_SIZE])
{
    uint8_t answer[8 + PROOF_SIZE];

    cr_assert_eq(send(fd, "\0SP\0\0P\0\1", 8, MSG_NOSIGNAL), 8);
    cr_assert_eq(send(fd, number, PROOF_SIZE, MSG_NOSIGNAL), PROOF_SIZE);
    RIG_UNTIL(recv(fd, answer, sizeof answer, MSG_DONTWAIT | MSG_PEEK) ==
              (ssize_t)sizeof answer);
    cr_assert_eq(recv(fd, answer, sizeof answer, 0), (ssize_t)sizeof answer);
    memcpy(theirs, answer + 8, PROOF_SIZE);
}

/* What one connection proved is worth nothing on the next one; and a server
 * says nothing that depends on the secret before the client has. */
Test(mesh_link_secret, a_proof_that_was_overheard_is_worth_nothing)
{
    const uint8_t number[PROOF_SIZE] = "any number that the client takes";
    uint8_t theirs[PROOF_SIZE];
    uint8_t proof[PROOF_SIZE];
    struct secrets secrets;
    const char *why;
    char byte;

    open_secret(0, ONE);
    cr_assert_eq(secrets_read(&secrets, paths[0], &why), 0);
    int fd = rig_connect(0, INADDR_LOOPBACK);
    ask(fd, number, theirs);
    const struct proof_claim claim = {
        .cluster = "blue", .client_number = number, .server_number = theirs};
    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    cr_assert_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    cr_assert_eq(send(fd, proof, sizeof proof, MSG_NOSIGNAL), PROOF_SIZE);
    RIG_UNTIL(rig_stats(0).pipes == 1);
    (void)close(fd);
    fd = rig_connect(0, INADDR_LOOPBACK);
    ask(fd, number, theirs);
    cr_assert_eq(send(fd, proof, sizeof proof, MSG_NOSIGNAL), PROOF_SIZE);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] == 1);
    RIG_UNTIL(rig_stats(0).pipes == 0);
    (void)close(fd);
}

/* A server's proof is no client's: nothing is gained by sending it back. */
Test(mesh_link_secret, each_side_proves_something_else)
{
    const uint8_t numbers[2][PROOF_SIZE] = {"one", "two"};
    struct proof_claim claim = {.server = true,
                                .cluster = "blue",
                                .client_number = numbers[0],
                                .server_number = numbers[1]};
    struct secrets secrets = {.count = 2,
                              .lens = {16, 16},
                              .texts = {"sixteen letters.", "another "}};
    uint8_t proof[PROOF_SIZE];

    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    cr_assert_eq(proof_check(&secrets, &claim, proof), 0);
    claim.server = false;
    cr_assert_eq(proof_check(&secrets, &claim, proof), PROOF_E_WRONG);
    claim.server = true;
    claim.cluster = "green";
    cr_assert_eq(proof_check(&secrets, &claim, proof), PROOF_E_WRONG);
    claim.cluster = "blue";
    proof[31] ^= 1;
    cr_assert_eq(proof_check(&secrets, &claim, proof), PROOF_E_WRONG);
}

/* A proof that cannot be computed is neither right nor wrong: the connection is
 * lost, and the next one does. */
Test(mesh_link_secret, a_proof_without_memory_is_tried_again)
{
    const uint8_t number[PROOF_SIZE] = "a number";
    const struct proof_claim claim = {
        .cluster = "blue", .client_number = number, .server_number = number};
    const struct secrets secrets = {
        .count = 1, .lens = {16}, .texts = {"sixteen letters."}};
    uint8_t proof[PROOF_SIZE];

    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    failures = 2;
    cr_assert_eq(proof_check(&secrets, &claim, proof), -ENOMEM);
    cr_assert_eq(proof_make(&secrets, &claim, proof), -ENOMEM);
    failures = 3; /* of whichever side */
    open_secret(0, ONE);
    open_secret(1, ONE);
    rig_meet(0, 1);
    cr_assert_eq(failures, 0);
    cr_assert_eq(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT], 0);
    cr_assert_eq(rig.nodes[1].refused[MESH_REFUSED_TRANSPORT], 0);
}

Test(mesh_link_secret, files_that_cannot_be_used_say_why)
{
    struct secrets secrets = {.count = 1};
    const char *why;

    cr_assert_eq(secrets_read(&secrets, "/nonexistent/secret", &why), -2);
    cr_assert_str_eq(why, "the secret's file cannot be read");
    write_secret(0, "");
    cr_assert_eq(secrets_read(&secrets, paths[0], &why), MESH_LINK_E_CONFIG);
    cr_assert_str_eq(why, "the secret's file is empty");
    write_secret(0, "too short\n");
    cr_assert_eq(secrets_read(&secrets, paths[0], &why), MESH_LINK_E_CONFIG);
    cr_assert_str_eq(why, "a secret has 16 to 256 characters");
    write_secret(0, ONE TWO ONE);
    cr_assert_eq(secrets_read(&secrets, paths[0], &why), MESH_LINK_E_CONFIG);
    cr_assert_str_eq(why, "the secret's file has more than two lines");
    cr_assert_eq(secrets.count, 1); /* and nothing was changed */
}
