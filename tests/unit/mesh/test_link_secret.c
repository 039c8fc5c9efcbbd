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

    cr_assert_eq(send(fd, "\0SP\0\0P\0\2", 8, MSG_NOSIGNAL), 8);
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
    const uint8_t who[WHO_SIZE] = "anybody";
    uint8_t theirs[PROOF_SIZE];
    uint8_t proof[PROOF_SIZE];
    struct secrets secrets;
    const char *why;
    char byte;

    open_secret(0, ONE);
    cr_assert_eq(secrets_read(&secrets, paths[0], &why), 0);
    int fd = rig_connect(0, INADDR_LOOPBACK);
    ask(fd, number, theirs);
    const struct proof_claim claim = {.cluster = "blue",
                                      .client_number = number,
                                      .server_number = theirs,
                                      .who = who};
    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    cr_assert_eq(recv(fd, &byte, 1, MSG_DONTWAIT), -1);
    cr_assert_eq(send(fd, who, sizeof who, MSG_NOSIGNAL), WHO_SIZE);
    cr_assert_eq(send(fd, proof, sizeof proof, MSG_NOSIGNAL), PROOF_SIZE);
    RIG_UNTIL(rig_stats(0).pipes == 1);
    (void)close(fd);
    fd = rig_connect(0, INADDR_LOOPBACK);
    ask(fd, number, theirs);
    cr_assert_eq(send(fd, who, sizeof who, MSG_NOSIGNAL), WHO_SIZE);
    cr_assert_eq(send(fd, proof, sizeof proof, MSG_NOSIGNAL), PROOF_SIZE);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] == 1);
    RIG_UNTIL(rig_stats(0).pipes == 0);
    (void)close(fd);
}

/* A client that says who it is, and proves it. Returns its connection to node
 * 0. */
static int
introduce(const struct frame_hello *hello, uint64_t session)
{
    const uint8_t number[PROOF_SIZE] = "any number that the client takes";
    uint8_t theirs[PROOF_SIZE];
    uint8_t who[WHO_SIZE];
    uint8_t proof[PROOF_SIZE];
    struct secrets secrets;
    const char *why;

    cr_assert_eq(secrets_read(&secrets, paths[0], &why), 0);
    int fd = rig_connect(0, INADDR_LOOPBACK);
    ask(fd, number, theirs);
    proof_who(hello, session, who);
    const struct proof_claim claim = {.cluster = "blue",
                                      .client_number = number,
                                      .server_number = theirs,
                                      .who = who};
    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    cr_assert_eq(send(fd, who, sizeof who, MSG_NOSIGNAL), WHO_SIZE);
    cr_assert_eq(send(fd, proof, sizeof proof, MSG_NOSIGNAL), PROOF_SIZE);
    return fd;
}

Test(mesh_link_secret, who_proved_who_it_is_may_repeat_its_hello)
{
    struct frame_hello hello = rig_hello("127.0.0.1:9");

    open_secret(0, ONE);
    int fd = introduce(&hello, 7);
    rig_say_hello(fd, &hello, 7);
    RIG_UNTIL(rig_stats(0).peers == 1);
    hello.echo[MESH_CTL] = 5; /* what it heard meanwhile */
    rig_say_hello(fd, &hello, 7);
    rig_say_frame(fd,
                  &(struct frame){.major = FRAME_MAJOR_MIN,
                                  .type = FRAME_DATA,
                                  .session = 7,
                                  .sequence = 1},
                  "after it");
    RIG_UNTIL(rig.nodes[0].received[MESH_CTL] == 1);
    cr_assert_eq(rig.nodes[0].refused[MESH_REFUSED_HELLO], 0);
    (void)close(fd);
}

/* Who passes a proof on cannot say another hello behind it. */
Test(mesh_link_secret, a_proof_is_for_one_nodes_hellos)
{
    const struct frame_hello proven = rig_hello("127.0.0.1:9");

    open_secret(0, ONE);
    for (unsigned i = 0; i < 5; i++) {
        struct frame_hello hello = proven;
        int fd = introduce(&proven, 7);
        hello.name[0] ^= i == 0;
        (void)snprintf(hello.address, sizeof hello.address, "127.0.0.1:%u",
                       i == 1 ? 10U : 9U);
        hello.nonce ^= i == 2 ? UINT64_C(1) << 63 : 0;
        hello.channel ^= i == 3;
        rig_say_hello(fd, &hello, i == 4 ? 8 : 7);
        RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_HELLO] == i + 1);
        cr_assert_str_eq(rig.nodes[0].refused_what, "the proof was another's");
        cr_assert_eq(rig_stats(0).peers, 0);
        (void)close(fd);
    }
}

/* False: the node gave up this connection, as it does when it waits for long,
 * and dials again. */
static bool
take(int fd, void *bytes, size_t size)
{
    ssize_t count = 0;

    RIG_UNTIL((count = recv(fd, bytes, size, MSG_DONTWAIT | MSG_PEEK)) ==
                  (ssize_t)size ||
              count == 0 || (count < 0 && errno != EAGAIN));
    return count == (ssize_t)size && recv(fd, bytes, size, 0) == count;
}

/* A port of ours; *address: where it is. */
static int
listen_for(char *address, size_t size)
{
    struct sockaddr_in at = {.sin_family = AF_INET};
    socklen_t len = sizeof at;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);

    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    cr_assert_eq(bind(fd, (struct sockaddr *)&at, sizeof at), 0);
    cr_assert_eq(listen(fd, 16), 0);
    cr_assert_eq(getsockname(fd, (struct sockaddr *)&at, &len), 0);
    (void)snprintf(address, size, "127.0.0.1:%u", ntohs(at.sin_port));
    return fd;
}

/* What node 0 says as a client: who it is, and its proof. False: see take(). */
static bool
prove(int fd, uint8_t who[WHO_SIZE])
{
    const uint8_t theirs[PROOF_SIZE] = "any number that the server takes";
    uint8_t greeting[8];
    uint8_t number[PROOF_SIZE];
    uint8_t proof[PROOF_SIZE];
    struct secrets secrets;
    const char *why;

    cr_assert_eq(secrets_read(&secrets, paths[0], &why), 0);
    (void)send(fd, "\0SP\0\0Q\0\2", 8, MSG_NOSIGNAL);
    (void)send(fd, theirs, PROOF_SIZE, MSG_NOSIGNAL);
    if (!take(fd, greeting, sizeof greeting) ||
        !take(fd, number, sizeof number) || !take(fd, who, WHO_SIZE) ||
        !take(fd, proof, sizeof proof)) {
        return false;
    }
    struct proof_claim claim = {.cluster = "blue",
                                .client_number = number,
                                .server_number = theirs,
                                .who = who};
    cr_assert_eq(proof_check(&secrets, &claim, proof), 0);
    claim.server = true;
    cr_assert_eq(proof_make(&secrets, &claim, proof), 0);
    (void)send(fd, proof, sizeof proof, MSG_NOSIGNAL);
    return true;
}

/* ... and the first message behind it. Returns its size. */
static size_t
hear_client(int port, uint8_t who[WHO_SIZE], uint8_t *message, size_t max)
{
    uint8_t head[8];
    size_t size = 0;

    while (size == 0) {
        int fd = -1;
        RIG_UNTIL((fd = accept(port, NULL, NULL)) >= 0);
        if (prove(fd, who) && take(fd, head, sizeof head)) {
            size = (size_t)head[6] << 8 | head[7];
            cr_assert_leq(size, max);
            size = take(fd, message, size) ? size : 0;
        }
        (void)close(fd);
    }
    return size;
}

Test(mesh_link_secret, a_client_proves_who_its_hello_says_it_is)
{
    char address[MESH_ADDRESS_MAX];
    uint8_t who[2][WHO_SIZE];
    uint8_t message[FRAME_HEAD_SIZE + FRAME_HELLO_MAX];
    struct frame_hello hello;
    struct frame frame;

    open_secret(0, ONE);
    int port = listen_for(address, sizeof address);
    cr_assert_eq(mesh_link_send(rig.nodes[0].link, address, MESH_CTL,
                                (struct slice){"x", 1}),
                 0);
    size_t size = hear_client(port, who[0], message, sizeof message);
    cr_assert_eq(frame_read(message, size, &frame), 0);
    cr_assert_eq(frame_hello_read(frame.body, &hello), 0);
    proof_who(&hello, frame.session, who[1]);
    cr_assert_arr_eq(who[0], who[1], WHO_SIZE);
    (void)close(port);
}

/* A server's proof is no client's: nothing is gained by sending it back. */
Test(mesh_link_secret, each_side_proves_something_else)
{
    const uint8_t numbers[2][PROOF_SIZE] = {"one", "two"};
    const uint8_t who[WHO_SIZE] = {1};
    const uint8_t another[WHO_SIZE] = {2};
    struct proof_claim claim = {.server = true,
                                .cluster = "blue",
                                .client_number = numbers[0],
                                .server_number = numbers[1],
                                .who = who};
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
    claim.who = another;
    cr_assert_eq(proof_check(&secrets, &claim, proof), PROOF_E_WRONG);
    claim.who = who;
    proof[31] ^= 1;
    cr_assert_eq(proof_check(&secrets, &claim, proof), PROOF_E_WRONG);
}

/* A proof that cannot be computed is neither right nor wrong: the connection is
 * lost, and the next one does. */
Test(mesh_link_secret, a_proof_without_memory_is_tried_again)
{
    const uint8_t number[PROOF_SIZE] = "a number";
    const uint8_t who[WHO_SIZE] = {1};
    const struct proof_claim claim = {.cluster = "blue",
                                      .client_number = number,
                                      .server_number = number,
                                      .who = who};
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
