/* Answers sealed and opened, and marks of what was cleared. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "node/redis/redis_marks.h"
#include "node/redis/redis_seal.h"

#define BODY_MAX 4096U

static const struct redis_secret secret = {.key = {1, 2, 3}};
static const struct answers_key key = {
    .name = {.low = 1, .high = 2}, .tenant = 3, .model = 4};
static const struct redis_facts facts = {.made_ms = 1700000000123,
                                         .cleared = 0xfedcba9876543210};
static const uint8_t nonce[REDIS_NONCE_BYTES] = {9};

static struct answers_kept *
answer_of(const char *type, const char *body)
{
    struct answers_kept *answer = answers_kept_new(strlen(body));

    cr_assert_not_null(answer);
    memcpy(answer->body, body, strlen(body));
    memcpy(answer->type, type, strlen(type));
    return answer;
}

static struct buf
seal(const char *type, const char *body)
{
    struct answers_kept *answer = answer_of(type, body);
    struct buf out;

    buf_init(&out, 2 * BODY_MAX);
    cr_assert_eq(redis_seal(&secret, &key, &facts, nonce, answer, &out), 0);
    cr_assert_not(out.failed);
    free(answer);
    return out;
}

/* Whether it opens. */
static bool
opens(const struct redis_secret *by, const struct answers_key *to,
      struct slice sealed, size_t body_max)
{
    struct redis_facts got;
    struct answers_kept *answer;
    int outcome = redis_unseal(by, to, sealed, body_max, &got, &answer);

    cr_assert_eq(outcome == 0, answer != NULL);
    free(answer);
    return outcome == 0;
}

Test(node_redis_seal, what_was_sealed_opens_as_it_was)
{
    const char *bodies[] = {"", "x", "{\"a\": \"caf\xc3\xa9\"}"};

    for (size_t i = 0; i < 3; i++) {
        struct buf sealed = seal("text/event-stream", bodies[i]);
        struct redis_facts got;
        struct answers_kept *answer;
        cr_assert_eq(redis_unseal(&secret, &key, buf_slice(&sealed), BODY_MAX,
                                  &got, &answer),
                     0);
        cr_expect_eq(got.made_ms, facts.made_ms);
        cr_expect_eq(got.cleared, facts.cleared);
        cr_expect_str_eq(answer->type, "text/event-stream");
        cr_expect(slice_equal((struct slice){answer->body, answer->len},
                              slice_of(bodies[i])));
        cr_expect_eq(answer->refs, 0);
        free(answer);
        buf_fini(&sealed);
    }
}

Test(node_redis_seal, nothing_of_it_can_be_read)
{
    struct buf sealed = seal("application/json", "a word that nobody reads");

    cr_expect_null(memmem(sealed.ptr, sealed.len, "nobody", 6));
    cr_expect_null(memmem(sealed.ptr, sealed.len, "json", 4));
    buf_fini(&sealed);
}

Test(node_redis_seal, one_bit_or_byte_of_it_changed_does_not_open)
{
    struct buf sealed = seal("application/json", "{\"id\": 1}");

    cr_expect(opens(&secret, &key, buf_slice(&sealed), BODY_MAX));
    for (size_t i = 0; i < 8 * sealed.len; i++) {
        sealed.ptr[i / 8] = (char)(sealed.ptr[i / 8] ^ 1 << i % 8);
        cr_expect_not(opens(&secret, &key, buf_slice(&sealed), BODY_MAX),
                      "bit %zu", i);
        sealed.ptr[i / 8] = (char)(sealed.ptr[i / 8] ^ 1 << i % 8);
    }
    for (size_t len = 0; len < sealed.len; len++) {
        cr_expect_not(
            opens(&secret, &key, (struct slice){sealed.ptr, len}, BODY_MAX));
    }
    buf_add(&sealed, "", 1);
    cr_expect_not(opens(&secret, &key, buf_slice(&sealed), BODY_MAX));
    buf_fini(&sealed);
}

Test(node_redis_seal, of_another_name_tenant_model_or_secret_it_does_not_open)
{
    struct buf sealed = seal("application/json", "{\"id\": 1}");
    struct answers_key others[4] = {key, key, key, key};
    struct redis_secret stranger = secret;

    others[0].name.low++;
    others[1].name.high++;
    others[2].tenant++;
    others[3].model++;
    for (size_t i = 0; i < 4; i++) {
        cr_expect_not(opens(&secret, &others[i], buf_slice(&sealed), BODY_MAX));
    }
    stranger.key[31] ^= 1;
    cr_expect_not(opens(&stranger, &key, buf_slice(&sealed), BODY_MAX));
    buf_fini(&sealed);
}

Test(node_redis_seal, what_is_larger_than_allowed_does_not_open)
{
    struct buf sealed = seal("application/json", "0123456789");

    cr_expect(opens(&secret, &key, buf_slice(&sealed), 10));
    cr_expect_not(opens(&secret, &key, buf_slice(&sealed), 9));
    buf_fini(&sealed);
}

Test(node_redis_seal, a_type_that_would_be_a_header_of_its_own_does_not_open)
{
    struct buf sealed = seal("a\r\nset-cookie: x", "{}");

    cr_expect_not(opens(&secret, &key, buf_slice(&sealed), BODY_MAX));
    buf_fini(&sealed);
}

Test(node_redis_seal, a_buffer_without_room_fails)
{
    struct answers_kept *answer = answer_of("a/b", "0123456789");
    struct buf out;

    buf_init(&out, 20);
    cr_assert_eq(redis_seal(&secret, &key, &facts, nonce, answer, &out), 0);
    cr_expect(out.failed);
    buf_fini(&out);
    free(answer);
}

Test(node_redis_seal, names_differ_by_all_that_an_answer_depends_on)
{
    struct answers_key others[5] = {key, key, key, key, key};
    char names[5][REDIS_NAME_MAX];

    others[1].name.low++;
    others[2].name.high++;
    others[3].tenant++;
    others[4].model++;
    for (size_t i = 0; i < 5; i++) {
        cr_expect_eq(redis_name(&others[i], names[i]), strlen(names[i]));
        for (size_t j = 0; j < i; j++) {
            cr_expect_str_neq(names[i], names[j]);
        }
    }
}

/* Of a reply with these marks. */
static bool
marks(const char *const text[4], uint64_t *digest)
{
    struct resp reply = {.item = {.kind = RESP_LIST}, .count = 4};

    for (size_t i = 0; i < 4; i++) {
        reply.items[i] = (struct resp_item){
            .kind = text[i] != NULL ? RESP_BYTES : RESP_NOTHING,
            .bytes = slice_of(text[i])};
    }
    return redis_marks_read(&reply, digest);
}

Test(node_redis_marks, each_mark_counts_where_it_stands)
{
    const char *sets[][4] = {{"a", NULL, NULL, NULL}, {"b", NULL, NULL, NULL},
                             {"a", "b", NULL, NULL},  {"a", NULL, "b", NULL},
                             {"a", NULL, NULL, "b"},  {"ab", NULL, NULL, NULL}};
    const char *none[4] = {NULL, "b", "b", "b"};
    uint64_t digest[6];

    for (size_t i = 0; i < 6; i++) {
        cr_assert(marks(sets[i], &digest[i]));
        for (size_t j = 0; j < i; j++) {
            cr_expect_neq(digest[i], digest[j], "%zu and %zu", i, j);
        }
    }
    cr_expect_not(marks(none, &digest[0]), "it is to be begun");
}

Test(node_redis_marks, replies_that_are_none_have_no_marks)
{
    char text[REDIS_MARK_MAX + 2];
    const char *too_long[4] = {text, NULL, NULL, NULL};
    struct resp reply = {.item = {.kind = RESP_NOTHING}};
    uint64_t digest;

    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = '\0';
    cr_expect_not(marks(too_long, &digest));
    cr_expect_not(redis_marks_read(&reply, &digest));
    reply = (struct resp){.item = {.kind = RESP_LIST}, .count = 3};
    cr_expect_not(redis_marks_read(&reply, &digest));
}

static void
clears(struct answers_which which, const char *field)
{
    struct redis_marks_text text;
    struct slice words[REDIS_MARKS_SET];

    unsigned count = redis_marks_clear(&which, nonce, &text, words);
    cr_assert_eq(count, field != NULL ? 4U : 2U);
    cr_expect(slice_equal(words[0], slice_of(field != NULL ? "HSET" : "DEL")));
    if (field != NULL) {
        cr_expect(slice_equal(words[2], slice_of(field)));
        cr_expect(slice_equal(words[3], SLICE("090000000000000000000000")));
    }
}

Test(node_redis_marks, what_is_cleared_is_asked_for_under_the_same_name)
{
    struct redis_marks_text text;
    struct slice words[REDIS_MARKS_ASK];

    redis_marks_ask(&key, &text, words);
    cr_expect(slice_equal(words[0], SLICE("HMGET")));
    cr_expect(slice_equal(words[3], SLICE("t0000000000000003")));
    cr_expect(slice_equal(words[4], SLICE("m0000000000000004")));
    cr_expect(
        slice_equal(words[5], SLICE("b00000000000000030000000000000004")));
    clears((struct answers_which){.tenants = true, .tenant = 3},
           "t0000000000000003");
    clears((struct answers_which){.models = true, .model = 4},
           "m0000000000000004");
    clears((struct answers_which){true, true, 3, 4},
           "b00000000000000030000000000000004");
    clears((struct answers_which){.tenants = false}, NULL);
}
