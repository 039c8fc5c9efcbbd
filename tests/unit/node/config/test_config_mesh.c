#include <criterion/criterion.h>
#include <stdio.h>
#include <unistd.h>

#include "node/config/config_access.h"
#include "node/config/config_joins_internal.h"
#include "node/config/config_mesh.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config_mesh, .init = setup, .fini = teardown);

static void
apply(const struct config_flag *flags, size_t count)
{
    buf_clear(&errors.text);
    config_fini(&config);
    config_init(&config);
    config_apply_flags(&config, flags, count, &errors);
    config_mesh_complete(&config.mesh);
    config_mesh_check(&config.mesh, &errors);
}

Test(node_config_mesh, no_port_is_opened_unless_asked_for)
{
    apply(NULL, 0);
    cr_assert_str_eq(config.mesh.listen.host, "");
    cr_assert_str_eq(config.mesh.cluster, "kvasir");
    cr_assert_eq(config.mesh.ingest_replicas, 2);
    cr_assert_str_eq(told(), "");
}

Test(node_config_mesh, who_joins_listens_on_loopback_by_default)
{
    const struct config_flag flags[] = {{"join", "dns:kvasir.mesh:7946"}};

    apply(flags, 1);
    cr_assert_str_eq(config.mesh.listen.host, "127.0.0.1");
    cr_assert_eq(config.mesh.listen.port, 7946);
    cr_assert_str_eq(told(), "");
}

static const char *
joins(void)
{
    static char text[4096];
    struct buf out;

    buf_init(&out, sizeof text);
    config_joins_print(&config.mesh.join, &out);
    (void)snprintf(text, sizeof text, "%.*s", (int)out.len,
                   out.len != 0 ? out.ptr : "");
    buf_fini(&out);
    return text;
}

Test(node_config_mesh, joins_add_up_and_those_of_a_later_source_replace_them)
{
    static char variable[] = "KVASIR_MESH_JOIN= dns:B:2  [::1]:9\n";
    char *environment[] = {variable, NULL};
    const struct config_flag flags[] = {
        {"join", "10.0.0.1:7"}, {"mesh.join", "srv:c"}, {"join", "d:4"}};

    config_apply_yaml(&config, "f",
                      SLICE("mesh:\n  join:\n  - 127.0.0.1:99\n  - dns:a:1\n"
                            "  - dns:a:1\n"),
                      &errors);
    cr_assert_str_eq(joins(), "127.0.0.1:99 dns:a:1");
    config_apply_environment(&config, environment, &errors);
    cr_assert_str_eq(joins(), "dns:b:2 [::1]:9");
    config_apply_flags(&config, flags, 3, &errors);
    cr_assert_str_eq(joins(), "10.0.0.1:7 srv:c dns:d:4");
    config_apply_yaml(&config, "f", SLICE("mesh: {join: x:1 y:2}"), &errors);
    cr_assert_str_eq(joins(), "dns:x:1 dns:y:2");
    cr_assert_str_eq(told(), "");
}

Test(node_config_mesh, a_bad_join_is_told_with_its_own_line)
{
    config_apply_yaml(&config, "f",
                      SLICE("mesh:\n  join:\n  - dns:a:1\n  - dns:b\n  - []\n"),
                      &errors);
    cr_assert_str_eq(told(),
                     "f:4:5: mesh.join: expected HOST:PORT, dns:NAME:PORT or "
                     "srv:NAME (SRV names begin with an underscore), not "
                     "\"dns:b\"\n"
                     "f:5:5: mesh.join: expected a place, not a list\n");
    cr_assert_str_eq(joins(), "dns:a:1");
}

Test(node_config_mesh, more_places_than_there_is_room_for_are_refused)
{
    struct buf yaml;

    buf_init(&yaml, 4096);
    buf_add_text(&yaml, "mesh:\n  join:\n");
    for (int i = 0; i <= CONFIG_JOINS_MAX; i++) {
        buf_printf(&yaml, "  - n%d:1\n", i);
    }
    config_apply_yaml(&config, "f", buf_slice(&yaml), &errors);
    cr_assert_eq(config.mesh.join.count, CONFIG_JOINS_MAX);
    cr_assert_str_eq(told(), "f:35:5: mesh.join: expected at most 32 places, "
                             "not \"n32:1\"\n");
    buf_fini(&yaml);
}

struct bad {
    struct config_flag flags[4];
    const char *told;
};

static const struct bad bads[] = {
    {{{"mesh", "10.0.0.1:7946"}},
     "mesh.listen: without TLS, whoever reaches the mesh's port can join and "
     "read: expected mesh.tls_*, mesh.secret_file, an address of loopback, or "
     "mesh.insecure: true\n"},
    {{{"join", "10.0.0.2:7946"}, {"mesh.secret_file", "/secret"}},
     "mesh.listen: missing: nodes on other machines must reach this one, so it "
     "needs this node's IP:PORT (or 0.0.0.0:PORT and mesh.advertise); "
     "where nodes share a file, --mesh IP:PORT says it\n"},
    {{{"join", "10.0.0.2:7946"}, {"mesh.insecure", "true"}},
     "mesh.listen: missing: nodes on other machines must reach this one, so it "
     "needs this node's IP:PORT (or 0.0.0.0:PORT and mesh.advertise); "
     "where nodes share a file, --mesh IP:PORT says it\n"},
    {{{"mesh", "0.0.0.0:7946"}, {"mesh.insecure", "true"}},
     "mesh.listen: listens on all interfaces, so others cannot know where: "
     "expected mesh.advertise, this node's IP:PORT\n"},
    {{{"mesh", "[::]:7946"},
      {"mesh.insecure", "true"},
      {"mesh.advertise", "0.0.0.0:0"}},
     "mesh.advertise: expected an address of this node that others reach, not "
     "that of all interfaces\n"},
    {{{"mesh.advertise", "10.0.0.1:0"}},
     "mesh.advertise: needs mesh.listen, an IP:PORT\n"},
    {{{"mesh.tls_ca", "/ca"}, {"mesh.tls_cert", "/cert"}},
     "mesh.tls_key: missing: TLS needs tls_ca, tls_cert, tls_key and "
     "tls_server_name\n"
     "mesh.tls_server_name: missing: TLS needs tls_ca, tls_cert, tls_key "
     "and tls_server_name\n"},
    {{{"mesh.resolver", "[::1]:0"}},
     "mesh.resolver: expected IP:PORT, port 1 to 65535\n"},
    {{{"mesh.resolver", "127.0.0.1:0"}},
     "mesh.resolver: expected IP:PORT, port 1 to 65535\n"},
    {{{"join", "nowhere"}},
     "--join: mesh.join: expected HOST:PORT, dns:NAME:PORT or srv:NAME, not "
     "\"nowhere\"\n"},
};

Test(node_config_mesh, what_cannot_work_together_is_told)
{
    for (size_t i = 0; i < sizeof bads / sizeof bads[0]; i++) {
        size_t count = 0;
        while (count < 4 && bads[i].flags[count].key != NULL) {
            count++;
        }
        apply(bads[i].flags, count);
        cr_assert_str_eq(told(), bads[i].told);
    }
}

Test(node_config_mesh, what_reaches_others_safely_is_taken)
{
    const struct config_flag flags[] = {
        {"mesh", "0.0.0.0:0"},          {"mesh.advertise", "10.0.0.1:0"},
        {"mesh.tls_ca", "/ca"},         {"mesh.tls_cert", "/cert"},
        {"mesh.tls_key", "/key"},       {"mesh.tls_server_name", "kvasir.mesh"},
        {"mesh.resolver", "[::1]:5353"}};

    apply(flags, 7);
    cr_assert_str_eq(told(), "");
    cr_assert(config_mesh_tls(&config.mesh));
}

Test(node_config_mesh, a_node_with_tls_that_joins_says_where_it_is_reached)
{
    const struct config_flag flags[] = {
        {"join", "dns:kvasir.mesh:7946"}, {"mesh.tls_ca", "/ca"},
        {"mesh.tls_cert", "/cert"},       {"mesh.tls_key", "/key"},
        {"mesh.tls_server_name", "mesh"}, {"mesh", "10.0.0.1:7946"}};

    apply(flags, 5);
    cr_assert_str_eq(told(),
                     "mesh.listen: missing: nodes on other machines "
                     "must reach this one, so it needs this node's "
                     "IP:PORT (or 0.0.0.0:PORT and mesh.advertise); "
                     "where nodes share a file, --mesh IP:PORT says it\n");
    apply(flags, 6);
    cr_assert_str_eq(told(), "");
}

Test(node_config_mesh, a_shared_secret_takes_the_place_of_tls)
{
    const struct config_flag flags[] = {
        {"mesh", "10.0.0.1:7946"}, {"mesh.secret_file", "/secret"},
        {"mesh.tls_ca", "/ca"},    {"mesh.tls_cert", "/cert"},
        {"mesh.tls_key", "/key"},  {"mesh.tls_server_name", "mesh"}};

    apply(flags, 2);
    cr_assert_str_eq(told(), "");
    apply(flags, 6);
    cr_assert_str_eq(told(), "mesh.secret_file: takes the place of "
                             "mesh.tls_*: give one of them\n");
}

Test(node_config_mesh, files_that_cannot_be_read_are_told)
{
    struct config_mesh mesh = {.tls_ca = "/nonexistent/ca.pem",
                               .tls_cert = "/dev/null"};

    config_mesh_files(&mesh, &errors);
    cr_assert_str_eq(told(), "mesh.tls_ca: /nonexistent/ca.pem cannot be "
                             "read: no such file or directory\n");
}

Test(node_config_mesh, files_that_a_node_could_not_use_are_told)
{
    struct config_mesh secret = {.secret_file = "/dev/null"};
    struct config_mesh tls = {.tls_ca = "/dev/null",
                              .tls_cert = "/dev/null",
                              .tls_key = "/dev/null",
                              .tls_server_name = "mesh"};

    config_mesh_files(&secret, &errors);
    config_mesh_files(&tls, &errors);
    cr_assert_str_eq(told(),
                     "mesh.secret_file: the secret's file is empty\n"
                     "mesh.tls_ca, mesh.tls_cert, mesh.tls_key: the CA's file "
                     "has no certificate that can be read\n");
}

/* `--mesh.secret_file <(command)`: its bytes come once. */
Test(node_config_mesh, a_pipe_is_left_to_the_node_that_uses_it)
{
    struct config_mesh mesh = {.insecure = 0};
    struct config_tls *tls = &config.tls;
    char path[64];
    char got[8] = "";
    int ends[2];

    cr_assert_eq(pipe(ends), 0);
    cr_assert_eq(write(ends[1], "secret", 6), 6);
    cr_assert_eq(close(ends[1]), 0);
    (void)snprintf(path, sizeof path, "/proc/self/fd/%d", ends[0]);
    (void)snprintf(mesh.secret_file, sizeof mesh.secret_file, "%s", path);
    (void)snprintf(tls->workers_ca_file, sizeof tls->workers_ca_file, "%s",
                   path);
    config_mesh_files(&mesh, &errors);
    cr_expect_null(config_mesh_doubt(&mesh));
    config_access_files(&config, &errors);
    cr_expect_str_eq(told(), "");
    cr_expect_eq(read(ends[0], got, sizeof got), 6);
    (void)close(ends[0]);
}

Test(node_config_mesh, variables_of_a_kubernetes_service_are_not_ours)
{
    static char host[] = "KVASIR_MESH_SERVICE_HOST=10.0.0.1";
    static char port[] = "KVASIR_MESH_PORT=tcp://10.0.0.1:7946";
    static char more[] = "KVASIR_MESH_PORT_7946_TCP_PROTO=tcp";
    static char typo[] = "KVASIR_MESH_JION=a:1";
    char *environment[] = {host, port, more, typo, NULL};

    config_apply_environment(&config, environment, &errors);
    cr_assert_str_eq(told(), "KVASIR_MESH_JION: no key has this name\n");
}
