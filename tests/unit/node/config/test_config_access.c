#include <criterion/criterion.h>

#include "node/config/config_access.h"
#include "tests/unit/node/config/config_rig.h"

TestSuite(node_config_access, .init = setup, .fini = teardown);

/* The faults of a file. */
static const char *
faults(const char *yaml)
{
    buf_clear(&errors.text);
    config_fini(&config);
    config_init(&config);
    config_apply_yaml(&config, "f", slice_of(yaml), &errors);
    config_check(&config, &errors);
    return told();
}

static bool
refuses_admin(const char *yaml)
{
    return strncmp(faults(yaml), "admin: without tokens", 21) == 0;
}

Test(node_config_access, beyond_loopback_the_admin_port_needs_tokens)
{
    cr_assert_str_eq(faults(""), "");
    cr_assert_str_eq(faults("admin: 127.9.9.9:9080"), "");
    cr_assert_str_eq(faults("admin: '[::1]:9080'"), "");
    cr_assert(refuses_admin("admin: 0.0.0.0:9080"));
    cr_assert(refuses_admin("admin: 10.0.0.1:9080"));
    cr_assert(refuses_admin("admin: '[::]:9080'"));
    cr_assert_str_eq(
        faults("admin: 0.0.0.0:9080\nadmin.token_file: /etc/tokens"), "");
    cr_assert_str_eq(faults("admin: 0.0.0.0:9080\nadmin.insecure: true"), "");
    cr_assert_str_eq(faults("admin.metrics: 0.0.0.0:9081"), "");
    cr_assert_str_eq(faults("admin: 127.0.0.1:1\nadmin.metrics: 127.0.0.1:1"),
                     "admin.metrics: the same address as listen or admin\n");
    cr_assert_str_eq(faults("extproc: {listen: 0.0.0.0:8080}"),
                     "extproc.listen: the same address as listen, admin or "
                     "admin.metrics\n");
    cr_assert_str_eq(faults("extproc: {listen: 0.0.0.0:9002}"), "");
}

static bool
risks_gateways(const char *yaml)
{
    struct buf out;

    cr_assert_str_eq(faults(yaml), "");
    buf_init(&out, 4096);
    config_risks(&config, &out);
    bool does = out.len != 0 &&
                memmem(out.ptr, out.len, "extproc.listen: 1 of", 20) != NULL;
    buf_fini(&out);
    return does;
}

Test(node_config_access, who_may_be_told_workers_keys_is_warned_of)
{
    const char *workers = "workers: [{url: http://a:1, api_key: k}]\n";
    char text[200];

    (void)snprintf(text, sizeof text, "%sextproc: {listen: 0.0.0.0:1}\n",
                   workers);
    cr_assert(risks_gateways(text));
    (void)snprintf(text, sizeof text, "%sextproc: {listen: 127.0.0.1:1}\n",
                   workers);
    cr_assert_not(risks_gateways(text));
    cr_assert_not(risks_gateways("workers: [http://a:1]\n"
                                 "extproc: {listen: 0.0.0.0:1}\n"));
    (void)snprintf(text, sizeof text,
                   "%sextproc: {listen: 0.0.0.0:1}\n"
                   "tls: {cert_file: a, key_file: b, client_ca_file: c}\n",
                   workers);
    cr_assert_not(risks_gateways(text));
}

Test(node_config_access, keys_of_a_flat_section_have_their_whole_names)
{
    cr_assert_str_eq(faults("admin: 127.0.0.1:1\nadmin.insecure: true\n"
                            "workers: [http://a:1]\n"
                            "workers.deny: [10.0.0.0/8, 'fe80::/10']\n"),
                     "");
    cr_assert_eq(config.admin.port, 1);
    cr_assert_eq(config.admin_access.insecure, 1);
    cr_assert_eq(config.workers_count, 1);
    cr_assert_eq(config.workers_deny.count, 2);
    cr_assert_str_eq(faults("admin: {insecure: true}"), "");
    cr_assert_eq(config.admin_access.insecure, 1);
    cr_assert_str_eq(faults("workers.deny: []"), "");
    cr_assert_eq(config.workers_deny.count, 0);
    cr_assert_str_eq(faults("admin: {insecure: true}\nadmin.insecure: true"),
                     "f:2:1: key \"admin.insecure\" appears twice, first in "
                     "line 1\n");
    cr_assert_str_eq(faults("log.level: debug"),
                     "f:1:1: unknown key \"log.level\"\n");
}

Test(node_config_access, a_worker_at_a_denied_address_is_a_fault)
{
    cr_assert_str_eq(faults("workers: ['http://169.254.169.254']"),
                     "workers: 169.254.169.254:80: the address "
                     "169.254.169.254 of its url is in 169.254.0.0/16, which "
                     "workers.deny denies\n");
    cr_assert_str_eq(faults("workers: ['http://h:1,id=w,events=tcp://"
                            "[fe80::1]:5']"),
                     "workers: w: the address fe80::1 of its events is in "
                     "fe80::/10, which workers.deny denies\n");
    cr_assert_str_eq(
        faults("workers.deny: none\nworkers: ['http://169.254.169.254']"), "");
    cr_assert_str_eq(
        faults("workers.deny: 10.0.0.0/8\nworkers: ['http://10.2.3.4']"),
        "workers: 10.2.3.4:80: the address 10.2.3.4 of its url is in "
        "10.0.0.0/8, which workers.deny denies\n");
}

Test(node_config_access, tls_needs_a_certificate_and_its_key)
{
    cr_assert_str_eq(faults("tls: {cert_file: c, key_file: k}"), "");
    cr_assert_str_eq(
        faults("tls: {cert_file: c, key_file: k, client_ca_file: a}"), "");
    cr_assert_str_eq(faults("tls: {cert_file: c}"),
                     "tls.key_file: missing: TLS needs tls.cert_file and "
                     "tls.key_file\n");
    cr_assert_str_eq(faults("tls: {key_file: k}"),
                     "tls.cert_file: missing: TLS needs tls.cert_file and "
                     "tls.key_file\n");
    cr_assert_str_eq(faults("tls: {workers_ca_file: a, workers_cert_file: c, "
                            "workers_key_file: k}"),
                     "");
    cr_assert_str_eq(faults("tls: {workers_cert_file: c}"),
                     "tls.workers_key_file: missing: a certificate needs its "
                     "key, and a key its certificate\n");
    cr_assert_str_eq(faults("tls: {cert_file: c, key_file: k, admin: on}"), "");
    cr_assert_str_eq(
        faults("tls: {admin: on, admin_cert_file: c, admin_key_file: k}"), "");
    cr_assert_str_eq(faults("tls: {admin: on}"),
                     "tls.admin: needs tls.cert_file or tls.admin_cert_file\n");
    cr_assert_str_eq(faults("tls: {admin_cert_file: c, admin_key_file: k}"),
                     "tls.admin_cert_file: needs tls.admin: on\n");
    cr_assert_str_eq(faults("tls: {workers_key_file: k}"),
                     "tls.workers_cert_file: missing: a certificate needs its "
                     "key, and a key its certificate\n");
    cr_assert_str_eq(faults("tls: {client_ca_file: a}"),
                     "tls.client_ca_file: needs tls.cert_file and "
                     "tls.key_file\n");
}

Test(node_config_access, files_of_tls_that_a_node_could_not_use_are_told)
{
    cr_assert_str_eq(
        faults("tls: {admin: on, admin_cert_file: /dev/null, "
               "admin_key_file: /dev/null, workers_ca_file: /dev/null}"),
        "");
    config_access_files(&config, &errors);
    cr_assert_str_eq(told(), "tls.admin_cert_file, tls.admin_key_file: the "
                             "certificate cannot be read\n"
                             "tls.workers_ca_file, tls.workers_cert_file: the "
                             "authorities cannot be read\n");
}
