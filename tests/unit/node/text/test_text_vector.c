/* Vectors as engines tell them, and what is between several. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/buf.h"
#include "node/text/text_vector.h"

static struct text_vector *
vector_of(const char *numbers)
{
    struct text_vector *vector = NULL;
    struct buf body;

    buf_init(&body, 4096);
    buf_printf(&body, "{\"object\":\"list\",\"data\":[{\"embedding\":[%s]}]}",
               numbers);
    cr_assert_eq(text_vector_read(buf_slice(&body), &vector), 0);
    buf_fini(&body);
    return vector;
}

Test(text_vector, a_cosine_survives_a_byte)
{
    static const struct {
        const char *one, *other;
        uint32_t cosine;
    } cases[] = {
        {"1,0", "1,0", 1000}, {"1,0", "0,1", 0},          {"1,0", "-1,0", 0},
        {"3,4", "4,3", 960},  {"1e-3,0", "5e20,0", 1000}, {"1,2,3", "1,2", 0},
    };

    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct text_vector *one = vector_of(cases[i].one);
        struct text_vector *other = vector_of(cases[i].other);
        uint32_t cosine = text_vector_cosine(one, other);
        cr_expect(
            cosine + 5 >= cases[i].cosine && cosine <= cases[i].cosine + 5,
            "%s and %s: %u", cases[i].one, cases[i].other, cosine);
        free(one);
        free(other);
    }
}

Test(text_vector, what_tells_none_is_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{\"data\":[]}",
        "{\"data\":[{\"embedding\":[]}]}",
        "{\"data\":[{\"embedding\":[0,0]}]}",
        "{\"data\":[{\"embedding\":[1,1e99]}]}",
        "{\"data\":[{\"embedding\":[1,\"2\"]}]}",
        "{\"data\":[{\"embedding\":\"AACAPw==\"}]}",
        "{\"data\":[{\"embedding\":[1,2]}]",
        "{\"embedding\":[1,2]}",
    };
    struct text_vector *vector = NULL;
    struct buf many;

    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        cr_expect_eq(text_vector_read(slice_of(bad[i]), &vector),
                     TEXT_VECTOR_E_NONE, "%s", bad[i]);
    }
    buf_init(&many, 65536);
    buf_add_text(&many, "{\"data\":[{\"embedding\":[1");
    for (uint32_t i = 0; i < TEXT_VECTOR_DIMS_MAX; i++) {
        buf_add_text(&many, ",1");
    }
    buf_add_text(&many, "]}]}");
    cr_expect_eq(text_vector_read(buf_slice(&many), &vector),
                 TEXT_VECTOR_E_NONE);
    buf_fini(&many);
}

static uint32_t
mean_cosine(const char *const numbers[3], const char *to)
{
    struct text_vector *vectors[3];
    struct text_vector *mean;
    struct text_vector *other = vector_of(to);

    for (size_t i = 0; i < 3; i++) {
        vectors[i] = vector_of(numbers[i]);
    }
    cr_assert_eq(text_vector_mean(vectors, 3, &mean), 0);
    uint32_t cosine = text_vector_cosine(mean, other);
    for (size_t i = 0; i < 3; i++) {
        free(vectors[i]);
    }
    free(mean);
    free(other);
    return cosine;
}

Test(text_vector, a_mean_counts_directions_alike)
{
    static const char *const three[] = {"1,0,0", "0,900,0", "0,0,0.001"};

    cr_expect_geq(mean_cosine(three, "1,1,1"), 999);
    cr_expect_leq(mean_cosine(three, "1,0,0"), 578);
    static const char *const two[] = {"1,0,0", "0,7,7", "0,1,1"};
    uint32_t cosine = mean_cosine(two, "1,0,0"); /* 1 of the root of 5 */
    cr_expect(cosine >= 440 && cosine <= 455, "%u", cosine);
}

Test(text_vector, those_that_differ_or_cancel_have_no_mean)
{
    struct text_vector *mean = NULL;
    struct text_vector *vectors[2] = {vector_of("1,0"), vector_of("1,0,0")};

    cr_expect_eq(text_vector_mean(vectors, 2, &mean), TEXT_VECTOR_E_NONE);
    free(vectors[1]);
    vectors[1] = vector_of("-1,0");
    cr_expect_eq(text_vector_mean(vectors, 2, &mean), TEXT_VECTOR_E_NONE);
    free(vectors[0]);
    free(vectors[1]);
}
