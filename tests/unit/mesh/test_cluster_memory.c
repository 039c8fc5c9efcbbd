#include <criterion/criterion.h>
#include <errno.h>

#include "mesh/mesh.h"
#include "tests/unit/failing_alloc.h"

static const struct island_path nowhere;

/* A cluster with a worker; 0 or -ENOMEM. */
static int
make(struct cluster **out)
{
    const struct cluster_config config = cluster_config_default();
    const struct member_self self = {
        .id = {{1, 2}}, .name = "a", .address = "10.0.0.1:7946"};
    const char *reason = "";
    int rc = cluster_new(out, &config, &self, 0, 1);

    for (uint64_t worker = 0; worker < 20 && rc == 0; worker++) {
        rc = cluster_worker_add(*out, worker, 2, &nowhere, 0);
        cr_assert(cluster_check(*out, &reason), "%s", reason);
    }
    return rc;
}

Test(mesh_cluster_memory, a_cluster_that_cannot_be_had_is_an_answer)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        struct cluster *cluster = NULL;
        int rc = make(&cluster);
        cr_assert(rc == 0 || rc == -ENOMEM);
        cluster_free(cluster);
    }
    failing_alloc_stop();
    cr_assert_geq(n, 40);
}
