/* Vectors as engines tell them, and the index of questions. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "index/base/buf.h"
#include "node/answers/answers_alike_internal.h"

#define BYTES ((size_t)8 << 10)

static struct alike_index alike;
static struct answers_key found;
static uint32_t permille;

static void
open_rig(void)
{
    alike_index_init(&alike, BYTES);
}

static void
close_rig(void)
{
    cr_assert(alike_index_check(&alike));
    alike_index_fini(&alike);
}

TestSuite(answers_alike, .init = open_rig, .fini = close_rig);

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

static struct answers_question
question_of(uint64_t kin, uint64_t guard, const struct text_vector *vector)
{
    return (struct answers_question){.kin = {kin, kin * 5},
                                     .tenant = 1,
                                     .model = 2,
                                     .guard = guard,
                                     .vector = vector,
                                     .permille = 950};
}

static void
add(uint64_t kin, uint64_t guard, const char *numbers, uint64_t name)
{
    struct answers_question question = question_of(kin, guard, NULL);
    struct answers_key key = {.name = {name, name}, .tenant = 1, .model = 2};

    alike_index_add(&alike, &question, &key, vector_of(numbers));
}

static enum answers_alike
find(const struct answers_question *like, const char *numbers)
{
    struct text_vector *vector = vector_of(numbers);
    struct answers_question question = *like;

    question.vector = vector;
    found = (struct answers_key){.tenant = 0};
    enum answers_alike outcome =
        alike_index_find(&alike, &question, &found, &permille);
    free(vector);
    return outcome;
}

Test(answers_alike, the_nearest_of_its_kin_is_found)
{
    struct answers_question like = question_of(7, 1, NULL);

    cr_assert_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
    add(7, 1, "10,2", 1);
    add(7, 1, "10,1", 2);
    add(7, 1, "0,1", 3);
    cr_assert_eq(find(&like, "1,0"), ANSWERS_ALIKE);
    cr_expect_eq(found.name.low, 2);
    cr_expect(permille >= 990 && permille < 1000);
    cr_expect_eq(find(&like, "1,1"), ANSWERS_UNLIKE);
    like.permille = 700;
    cr_expect_eq(find(&like, "1,1"), ANSWERS_ALIKE);
}

Test(answers_alike, what_differs_beside_the_words_is_another_kin)
{
    struct answers_question like = question_of(7, 1, NULL);

    add(7, 1, "1,0", 1);
    like.guard = 2;
    cr_expect_eq(find(&like, "1,0"), ANSWERS_GUARDED);
    cr_expect_eq(find(&like, "0,1"), ANSWERS_UNLIKE);
    like = question_of(7, 1, NULL);
    like.tenant = 9;
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
    like = question_of(7, 1, NULL);
    like.model = 9;
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
    like = question_of(7, 1, NULL);
    like.kin.low = 8;
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
}

Test(answers_alike, a_question_has_one_vector)
{
    struct answers_question like = question_of(7, 1, NULL);

    add(7, 1, "1,0", 1);
    add(7, 1, "0,1", 1);
    cr_expect_eq(alike.entries, 1);
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
    cr_expect_eq(find(&like, "0,1"), ANSWERS_ALIKE);
}

Test(answers_alike, what_is_gone_is_dropped)
{
    struct answers_question like = question_of(7, 1, NULL);

    add(7, 1, "1,0", 1);
    cr_assert_eq(find(&like, "1,0"), ANSWERS_ALIKE);
    alike_index_touch(&alike, &like, &found, true);
    alike_index_touch(&alike, &like, &found, true);
    cr_expect_eq(alike.entries, 0);
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
}

Test(answers_alike, the_least_recently_used_gives_way)
{
    struct answers_question like = question_of(1, 1, NULL);
    uint64_t added = 1;

    add(1, 1, "1,0", 1);
    while (added == alike.entries) {
        cr_assert_eq(find(&like, "1,0"), ANSWERS_ALIKE);
        alike_index_touch(&alike, &like, &found, false);
        added++;
        add(added, 1, "1,0", added);
    }
    cr_expect(added > 2 && added < BYTES / 64);
    cr_expect(alike_index_check(&alike));
    cr_expect_eq(find(&like, "1,0"), ANSWERS_ALIKE);
    like = question_of(2, 1, NULL);
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
}

Test(answers_alike, tenants_and_models_are_cleared)
{
    struct answers_question like = question_of(7, 1, NULL);
    struct answers_which which = {.tenants = true, .tenant = 3};

    add(7, 1, "1,0", 1);
    alike_index_clear(&alike, &which);
    cr_expect_eq(find(&like, "1,0"), ANSWERS_ALIKE);
    which = (struct answers_which){.models = true, .model = 2};
    alike_index_clear(&alike, &which);
    cr_expect_eq(find(&like, "1,0"), ANSWERS_UNLIKE);
    cr_expect_eq(alike.entries, 0);
}
