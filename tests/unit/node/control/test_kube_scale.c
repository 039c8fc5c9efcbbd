#include <criterion/criterion.h>

#include "node/control/kube_scale.h"

#define META                                                \
    "\"metadata\":{\"name\":\"vllm\",\"namespace\":\"ml\"," \
    "\"resourceVersion\":\"41\"}"

#define UNVERSIONED                                       \
    "{\"metadata\":{\"name\":\"a\",\"namespace\":\"b\"}," \
    "\"spec\":{\"replicas\":1}}"

static struct kube_scale scale;

/* What is done where there are so many. */
static enum kube_scale_do
with(uint32_t replicas, bool provision, uint32_t number)
{
    scale = (struct kube_scale){.replicas = replicas};
    return kube_scale_next(&scale, provision, number);
}

Test(node_kube_scale, is_read_and_put)
{
    char bytes[512];
    struct buf out = buf_over(bytes, sizeof bytes);

    cr_assert(kube_scale_read(
        SLICE("{\"kind\":\"Scale\"," META
              ",\"spec\":{\"replicas\":3},\"status\":{\"replicas\":2}}"),
        &scale));
    cr_expect_eq(scale.replicas, 3);
    kube_scale_put(&scale, &out);
    cr_expect_not(out.failed);
    cr_expect(slice_equal(
        buf_slice(&out),
        SLICE("{\"apiVersion\":\"autoscaling/v1\",\"kind\":\"Scale\","
              "\"metadata\":{\"name\":\"vllm\",\"namespace\":\"ml\","
              "\"resourceVersion\":\"41\"},\"spec\":{\"replicas\":3}}")));
}

Test(node_kube_scale, no_replicas_are_left_out_by_the_api)
{
    cr_assert(kube_scale_read(SLICE("{" META ",\"spec\":{}}"), &scale));
    cr_expect_eq(scale.replicas, 0);
}

Test(node_kube_scale, what_is_no_scale_is_none)
{
    const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{" META "}",
        "{" META ",\"spec\":{\"replicas\":-1}}",
        "{" META ",\"spec\":{\"replicas\":\"3\"}}",
        "{" META ",\"spec\":{\"replicas\":3000000000}}",
        UNVERSIONED,
    };

    for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
        cr_expect_not(kube_scale_read(slice_of(bad[i]), &scale), "%s", bad[i]);
    }
}

Test(node_kube_scale, a_pod_is_asked_for_once)
{
    cr_expect_eq(with(0, true, 0), KUBE_SCALE_SET);
    cr_expect_eq(scale.replicas, 1);
    cr_expect_eq(with(1, true, 0), KUBE_SCALE_DONE, "the same call again");
    cr_expect_eq(with(5, true, 0), KUBE_SCALE_DONE, "it is there already");
    cr_expect_eq(with(1, true, 3), KUBE_SCALE_SET, "somebody ended some");
    cr_expect_eq(scale.replicas, 4);
}

Test(node_kube_scale, a_pod_ends_only_as_the_last_one)
{
    cr_expect_eq(with(3, false, 2), KUBE_SCALE_SET);
    cr_expect_eq(scale.replicas, 2);
    cr_expect_eq(with(2, false, 2), KUBE_SCALE_DONE, "the same call again");
    cr_expect_eq(with(4, false, 2), KUBE_SCALE_MORE);
    cr_expect_eq(scale.replicas, 4);
    cr_expect_eq(with(1, false, 0), KUBE_SCALE_SET);
    cr_expect_eq(scale.replicas, 0);
}
