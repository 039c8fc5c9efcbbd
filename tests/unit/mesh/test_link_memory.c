/*
 * Links without memory: each allocation of opening one, of the first frame to a
 * peer and of dialling it fails once.
 */
#include <criterion/criterion.h>
#include <errno.h>

#include "tests/unit/failing_alloc.h"
#include "tests/unit/mesh/link_rig.h"

TestSuite(mesh_link_memory, .init = rig_init, .fini = rig_fini, .timeout = 100);

static const struct mesh_link_sink deaf = {.context = NULL};

/* A frame is sent in the end, whatever failed first. */
static void
open_and_send(const char *to)
{
    struct mesh_link_config config = rig_config(1);
    struct mesh_link *link;
    const char *why;
    int rc;

    rc = mesh_link_new(&link, &rig.loop, &config, &deaf, &why);
    if (rc != 0) {
        cr_assert_eq(rc, -ENOMEM);
        return;
    }
    rc = mesh_link_send(link, to, MESH_CTL, SLICE("x"));
    cr_assert(rc == 0 || rc == -ENOMEM);
    mesh_link_free(link);
}

Test(mesh_link_memory, every_allocation_may_fail)
{
    const char *to = rig_open_default(0);

    for (uint64_t n = 0; failing_alloc_after(n); n++) {
        open_and_send(to);
    }
    failing_alloc_stop();
}

Test(mesh_link_memory, a_connection_without_memory_is_tried_again)
{
    (void)rig_open_default(0);
    (void)rig_open_default(1);
    rig_meet(0, 1);
    for (uint64_t n = 0; n < 4; n++) {
        unsigned ups = rig.nodes[0].ups;
        (void)failing_alloc_after(n);
        mesh_link_doubt(rig.nodes[0].link,
                        mesh_link_address(rig.nodes[1].link));
        failing_alloc_stop();
        RIG_UNTIL(rig.nodes[0].ups > ups);
    }
}
