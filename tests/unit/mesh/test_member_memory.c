#include <criterion/criterion.h>
#include <errno.h>

#include "mesh/mesh.h"
#include "tests/unit/failing_alloc.h"

Test(mesh_member_memory, a_table_that_cannot_be_had_is_an_answer)
{
    const struct member_config config = member_config_default();
    const struct member_self self = {
        .id = {{1, 2}}, .name = "a", .address = "10.0.0.1:7946"};
    struct member_table *table = NULL;
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        int outcome = member_new(&table, &config, &self, 0, 1);
        cr_assert(outcome == 0 || outcome == -ENOMEM);
        cr_assert_eq(outcome == 0, table != NULL);
        member_free(table);
        table = NULL;
    }
    failing_alloc_stop();
    cr_assert_geq(n, 1);
}
