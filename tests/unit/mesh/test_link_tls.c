/*
 * Mutual TLS, with certificates that the openssl command makes for each test.
 */
#include <criterion/criterion.h>
#include <nng/nng.h>

#include <nng/protocol/pipeline0/push.h>
#include <nng/supplemental/tls/tls.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/mesh/link_rig.h"

#define DIR_MAX 64U

static char dir[DIR_MAX];
static FILE *cleaner; /* takes `dir` away when this process ends, however */

/* A CA and, by it, a certificate: ca-NAME.pem, NAME.pem, NAME.key. */
static const char make[] =
    "set -e; exec 2>openssl.log;"
    "ca() { openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 "
    "  -nodes -days 2 -subj /CN=$1 -keyout ca-$1.key -out ca-$1.pem; };"
    "cert() { openssl req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes "
    "  -subj /CN=$1 -keyout $1.key -out $1.csr;"
    "  echo subjectAltName=DNS:$3 >$1.ext;"
    "  openssl x509 -req -in $1.csr -CA ca-$2.pem -CAkey ca-$2.key "
    "    -CAcreateserial -days 2 -extfile $1.ext -out $1.pem; };"
    "ca blue; ca rogue;"
    "cert one blue mesh.blue; cert two blue mesh.blue;"
    "cert rogue rogue mesh.blue; cert misnamed blue mesh.green";

/* In the test's own directory. */
static void
run(const char *script)
{
    char command[2048];

    (void)snprintf(command, sizeof command, "cd %s && { %s; }", dir, script);
    cr_assert_eq(system(command), 0, "%s", command);
}

static void
init(void)
{
    rig_init();
    if (system("openssl version >/dev/null 2>&1") != 0) {
        cr_skip_test("no openssl command on this machine");
    }
    (void)snprintf(dir, sizeof dir, "/tmp/kvasir-tls-XXXXXX");
    cr_assert_not_null(mkdtemp(dir));
    char command[DIR_MAX + 32];
    (void)snprintf(command, sizeof command, "cat; rm -r %s", dir);
    cleaner = popen(command, "we");
    cr_assert_not_null(cleaner);
    run(make);
}

static void
fini(void)
{
    rig_fini();
    if (cleaner != NULL) {
        cr_assert_eq(pclose(cleaner), 0);
    }
}

TestSuite(mesh_link_tls, .init = init, .fini = fini, .timeout = 60);

static const char *
path(const char *name)
{
    static char paths[16][DIR_MAX + 32];
    static unsigned at;
    char *out = paths[at++ % 16];

    (void)snprintf(out, DIR_MAX + 32, "%s/%s", dir, name);
    return out;
}

/* A node that trusts one CA and shows a certificate. */
static void
open_tls(unsigned n, const char *ca, const char *who)
{
    struct mesh_link_config config = rig_config(n);
    char cert[32];
    char key[32];

    (void)snprintf(cert, sizeof cert, "%s.pem", who);
    (void)snprintf(key, sizeof key, "%s.key", who);
    config.tls = (struct mesh_link_tls){.ca = path(ca),
                                        .cert = path(cert),
                                        .key = path(key),
                                        .server_name = "mesh.blue"};
    config.limits.redial_ms = 1000; /* a handshake takes a while */
    (void)rig_open(n, &config);
}

/* Node 1 dials and is dialled, and neither gets anywhere. */
static void
expect_apart(unsigned refused_by)
{
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "x"), 0);
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[refused_by].refused[MESH_REFUSED_TRANSPORT] > 1);
    cr_assert(rig.nodes[0].ups == 0 && rig.nodes[1].ups == 0);
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
    cr_assert_eq(rig.nodes[1].received[MESH_CTL], 0);
    const char *what = rig.nodes[refused_by].refused_what;
    cr_assert(strstr(what, "issuer") != NULL || strstr(what, "ca") != NULL,
              "%s", what);
}

/* Two more meet at node 0 as if nothing had been. */
static void
expect_unharmed(void)
{
    open_tls(2, "ca-blue.pem", "two");
    rig_meet(2, 0);
}

Test(mesh_link_tls, nodes_of_one_ca_meet)
{
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "two");
    rig_meet(0, 1);
    cr_assert_eq(rig_send(1, 0, MESH_BULK, "secret"), 0);
    RIG_UNTIL(rig.nodes[0].received[MESH_BULK] == 1);
    cr_assert_null(mesh_link_warning(rig.nodes[0].link));
}

Test(mesh_link_tls, a_certificate_of_another_ca_is_refused)
{
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "rogue");
    expect_apart(0);
    expect_unharmed();
}

Test(mesh_link_tls, who_trusts_another_ca_is_not_sent_to)
{
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-rogue.pem", "rogue");
    expect_apart(0);
    expect_unharmed();
}

/* The right CA, but a certificate for something else than this mesh: it is
 * refused where it is dialled, and where it dials. */
Test(mesh_link_tls, a_certificate_of_another_name_is_refused)
{
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "misnamed");
    cr_assert_eq(rig_send(0, 1, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] > 1);
    cr_assert_str_eq(rig.nodes[0].refused_what, "hostname mismatch");
    cr_assert_str_eq(rig.nodes[0].refused_from,
                     mesh_link_address(rig.nodes[1].link));
    cr_assert_eq(rig.nodes[1].received[MESH_CTL], 0);
    cr_assert_eq(rig.nodes[0].ups, 0);
    expect_unharmed();
}

Test(mesh_link_tls, who_dials_with_a_certificate_of_another_name_is_refused)
{
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "misnamed");
    cr_assert_eq(rig_send(1, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] > 1);
    cr_assert_str_eq(rig.nodes[0].refused_what, "hostname mismatch");
    cr_assert_eq(rig.nodes[0].received[MESH_CTL], 0);
    cr_assert_eq(rig_stats(0).peers, 0);
    cr_assert_eq(rig_stats(0).pipes, 0);
    expect_unharmed();
}

/* Closing is not waited for: handshakes and frames are under way. */
Test(mesh_link_tls, a_node_that_goes_in_the_midst_of_all_is_gone)
{
    static const char page[32768];

    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "two");
    rig_meet(0, 1);
    for (unsigned i = 0; i < 8; i++) {
        cr_assert_eq(mesh_link_send(rig.nodes[0].link,
                                    mesh_link_address(rig.nodes[1].link),
                                    MESH_BULK, (struct slice){page, 32768}),
                     0);
    }
    cr_assert_eq(mesh_link_send(rig.nodes[0].link, "127.0.0.1:9", MESH_CTL,
                                slice_of("x")),
                 0);
    rig_close(0);
    RIG_UNTIL(rig.nodes[1].downs == 1);
}

/* More than one record and one write of TLS, in order and whole. */
Test(mesh_link_tls, long_frames_come_whole)
{
    static char page[MESH_BODY_MAX];

    memset(page, 'p', sizeof page);
    open_tls(0, "ca-blue.pem", "one");
    open_tls(1, "ca-blue.pem", "two");
    rig_meet(0, 1);
    for (unsigned i = 0; i < 5; i++) {
        page[0] = (char)('0' + i);
        cr_assert_eq(
            mesh_link_send(rig.nodes[0].link,
                           mesh_link_address(rig.nodes[1].link), MESH_BULK,
                           (struct slice){page, sizeof page - i}),
            0);
    }
    RIG_UNTIL(rig.nodes[1].received[MESH_BULK] == 5);
    cr_assert_eq(rig_stats(1).frames_lost, 0);
    for (unsigned i = 0; i < 5; i++) {
        cr_assert_eq(rig.nodes[1].text.ptr[i * 65], (char)('0' + i));
    }
}

Test(mesh_link_tls, changed_files_are_read_again)
{
    run("cp one.pem new.pem; cp one.key new.key");
    open_tls(0, "ca-blue.pem", "new");
    run("cp two.key new.key");
    RIG_UNTIL(rig.nodes[0].certificate[MESH_CERTIFICATE_BAD] == 1);
    cr_assert_str_eq(rig.nodes[0].certificate_why,
                     "the key is not the certificate's");
    open_tls(1, "ca-blue.pem", "one");
    rig_meet(0, 1); /* the old ones are in use */
    /* Of the same size and time, as a copy that keeps times; or it is the mode
     * that was wrong. */
    run("cp one.key k; touch -r new.key k; mv k new.key");
    RIG_UNTIL(rig.nodes[0].certificate[MESH_CERTIFICATE_LOADED] == 1);
    run("cp misnamed.pem new.pem; cp misnamed.key new.key");
    RIG_UNTIL(strcmp(rig.nodes[0].certificate_why,
                     "the certificate lacks mesh.tls_server_name") == 0);
    cr_assert_eq(rig.nodes[0].certificate[MESH_CERTIFICATE_LOADED], 1);
    run("cp rogue.pem new.pem; cp rogue.key new.key");
    RIG_UNTIL(rig.nodes[0].certificate[MESH_CERTIFICATE_LOADED] > 1);
    open_tls(2, "ca-blue.pem", "two");
    cr_assert_eq(rig_send(2, 0, MESH_CTL, "x"), 0);
    RIG_UNTIL(rig.nodes[2].refused[MESH_REFUSED_TRANSPORT] > 0);
    cr_assert_eq(rig.nodes[0].downs, 0); /* what was up, stays */
}

Test(mesh_link_tls, the_end_of_a_certificate_is_told_before_it_comes)
{
    open_tls(0, "ca-blue.pem", "one"); /* good for two days */
    RIG_UNTIL(rig.nodes[0].certificate[MESH_CERTIFICATE_ENDS] == 1);
    cr_assert_gt(rig.nodes[0].expiry_s, time(NULL) + 86400);
    cr_assert_eq(rig.nodes[0].expiry_s, rig_stats(0).certificate_expiry_s);
    cr_assert_eq(rig.nodes[0].certificate[MESH_CERTIFICATE_ENDED], 0);
}

static nng_socket
tls_stranger(bool certified)
{
    char url[MESH_ADDRESS_MAX + 16];
    nng_tls_config *config;
    nng_socket stranger;
    nng_dialer dialer;

    (void)snprintf(url, sizeof url, "tls+tcp://%s",
                   mesh_link_address(rig.nodes[0].link));
    cr_assert_eq(nng_push0_open(&stranger), 0);
    cr_assert_eq(nng_dialer_create(&dialer, stranger, url), 0);
    cr_assert_eq(nng_tls_config_alloc(&config, NNG_TLS_MODE_CLIENT), 0);
    cr_assert_eq(nng_tls_config_ca_file(config, path("ca-blue.pem")), 0);
    cr_assert_eq(nng_tls_config_server_name(config, "mesh.blue"), 0);
    if (certified) {
        run("cat two.pem two.key >both.pem");
        cr_assert_eq(
            nng_tls_config_cert_key_file(config, path("both.pem"), NULL), 0);
    }
    cr_assert_eq(nng_dialer_set_ptr(dialer, NNG_OPT_TLS_CONFIG, config), 0);
    nng_tls_config_free(config);
    cr_assert_eq(nng_dialer_start(dialer, NNG_FLAG_NONBLOCK), 0);
    return stranger;
}

Test(mesh_link_tls, a_client_without_a_certificate_is_refused)
{
    open_tls(0, "ca-blue.pem", "one");
    nng_socket stranger = tls_stranger(false);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] > 0);
    cr_assert_eq(rig_stats(0).pipes, 0);
    (void)nng_close(stranger);
    expect_unharmed();
}

/* What the test before stands on: with one, the same stranger comes through. */
Test(mesh_link_tls, the_same_client_with_one_is_judged_by_its_frames)
{
    open_tls(0, "ca-blue.pem", "one");
    nng_socket stranger = tls_stranger(true);
    char no_frame[] = "no frame";
    RIG_UNTIL(nng_send(stranger, no_frame, 8, NNG_FLAG_NONBLOCK) == 0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_GARBAGE] == 1);
    (void)nng_close(stranger);
}

Test(mesh_link_tls, a_client_without_tls_is_refused)
{
    open_tls(0, "ca-blue.pem", "one");
    int stranger = rig_stranger(0);
    RIG_UNTIL(rig.nodes[0].refused[MESH_REFUSED_TRANSPORT] > 0);
    cr_assert_eq(rig_stats(0).pipes, 0);
    (void)close(stranger);
    expect_unharmed();
}

Test(mesh_link_tls, files_that_cannot_be_used_say_which)
{
    struct mesh_link_config config = rig_config(0);
    struct mesh_link_sink sink = {.context = NULL};
    struct mesh_link *link;
    const char *why;

    config.tls = (struct mesh_link_tls){.ca = path("ca-blue.pem"),
                                        .cert = path("one.pem"),
                                        .key = path("nowhere.key"),
                                        .server_name = "mesh.blue"};
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 -ENOENT);
    cr_assert_str_eq(why, "the key's file cannot be read");
    config.tls.key = path("one.csr");
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 MESH_LINK_E_CONFIG);
    cr_assert_str_eq(why, "the certificate or its key cannot be read");
    config.tls.ca = path("one.key");
    cr_assert_eq(mesh_link_new(&link, &rig.loop, &config, &sink, &why),
                 MESH_LINK_E_CONFIG);
    cr_assert_str_eq(why, "the CA's file has no certificate that can be read");
}
