/* Filters of lists; those that are generators in Python hand out their items
 * once. */
#include "node/template/template_filter_internal.h"

#include <stdio.h>

void
tpl_grow_add(struct tpl_run *run, struct tpl_grow *grow,
             struct json_value value)
{
    if (grow->len == grow->size) {
        size_t size = grow->size * 2 + 8;
        struct json_value *grown = tpl_take_values(run, size);
        if (grow->len > 0) {
            memcpy(grown, grow->items, grow->len * sizeof *grown);
        }
        grow->items = grown;
        grow->size = size;
    }
    grow->items[grow->len++] = value;
}

struct json_value
tpl_iter_over(struct tpl_run *run, const struct tpl_grow *grow,
              const struct template_error *error)
{
    struct tpl_iter *iter = tpl_take(run, sizeof *iter);
    struct template_error *kept = NULL;

    if (error != NULL) {
        kept = tpl_take(run, sizeof *kept);
        *kept = *error;
    }
    *iter = (struct tpl_iter){
        .items = grow->items, .len = (uint32_t)grow->len, .error = kept};
    return tpl_thing(TPL_V_ITER, iter);
}

TPL_FILTER(first)
{
    struct tpl_walk walk;
    struct json_value item;

    (void)params;
    tpl_walk_start(run, &walk, subject);
    return tpl_walk_next(run, &walk, &item) ? item
                                            : tpl_undefined(SLICE("first"));
}

/* Whether reversed() takes it. */
static bool
can_reverse(struct json_value value)
{
    return value.kind != TPL_V_ITER && tpl_can_walk(value) &&
           value.kind != TPL_V_LOOP;
}

TPL_FILTER(last)
{
    struct json_value items;

    (void)params;
    if (!can_reverse(subject)) {
        tpl_fail_type(run, "cannot be reversed", subject);
    }
    items = tpl_list(run, subject);
    return items.len > 0 ? items.as.items[items.len - 1]
                         : tpl_undefined(SLICE("last"));
}

TPL_FILTER(list)
{
    (void)params;
    return tpl_list(run, subject);
}

TPL_FILTER(reverse)
{
    struct json_value items = tpl_list(run, subject);
    struct json_value *turned = tpl_take_values(run, items.len);
    struct tpl_grow grow = {.items = turned, .len = items.len};
    size_t from = run->out->len;

    (void)params;
    for (uint32_t i = 0; i < items.len; i++) {
        turned[i] = items.as.items[items.len - 1 - i];
    }
    if (subject.kind != JSON_STRING) {
        return subject.kind == TPL_V_ITER
                   ? tpl_array(JSON_ARRAY, turned, items.len)
                   : tpl_iter_over(run, &grow, NULL);
    }
    for (uint32_t i = 0; i < items.len; i++) {
        buf_add_slice(run->out, tpl_slice(turned[i]));
    }
    return tpl_text(run, tpl_caught(run, from));
}

TPL_FILTER(items)
{
    struct tpl_grow grow = {.len = 0};

    (void)params;
    if (subject.kind != TPL_V_UNDEFINED && subject.kind != JSON_OBJECT) {
        tpl_fail(run, "Can only get item pairs from a mapping.");
    }
    for (uint32_t i = 0; subject.kind == JSON_OBJECT && i < subject.len; i++) {
        tpl_grow_add(run, &grow,
                     tpl_pair(run, subject.as.members[i].key,
                              subject.as.members[i].value));
    }
    return tpl_iter_over(run, &grow, NULL);
}

/* batch(linecount, fill_with=None) */
TPL_FILTER(batch)
{
    int64_t size = tpl_index(run, *params[0]);
    struct json_value items = tpl_list(run, subject);
    struct tpl_grow rows = {.len = 0};
    bool fill = params[1] != NULL && params[1]->kind != JSON_NULL;

    for (uint32_t at = 0; at < items.len;) {
        struct tpl_grow row = {.len = 0};
        do {
            tpl_grow_add(run, &row, items.as.items[at++]);
        } while (at < items.len && (int64_t)row.len != size);
        while (fill && at == items.len && (int64_t)row.len < size) {
            tpl_step(run, 1);
            tpl_grow_add(run, &row, *params[1]);
        }
        tpl_grow_add(run, &rows, tpl_array(JSON_ARRAY, row.items, row.len));
    }
    return tpl_iter_over(run, &rows, NULL);
}

/* slice(slices, fill_with=None) */
TPL_FILTER(slice)
{
    int64_t slices = tpl_index(run, *params[0]);
    struct json_value items = tpl_list(run, subject);
    struct tpl_grow rows = {.len = 0};
    bool fill = params[1] != NULL && params[1]->kind != JSON_NULL;
    int64_t at = 0;

    if (slices == 0) {
        tpl_fail(run, "division by zero");
    }
    for (int64_t i = 0; i < slices; i++) {
        struct tpl_grow row = {.len = 0};
        int64_t n = items.len / slices + (i < items.len % slices);
        tpl_step(run, 1);
        for (int64_t k = 0; k < n; k++) {
            tpl_grow_add(run, &row, items.as.items[at++]);
        }
        if (fill && i >= items.len % slices) {
            tpl_grow_add(run, &row, *params[1]);
        }
        tpl_grow_add(run, &rows, tpl_array(JSON_ARRAY, row.items, row.len));
    }
    return tpl_iter_over(run, &rows, NULL);
}

/* --- map, select and their like */

/* What is done with each item. */
struct each {
    const struct tpl_filter *filter; /* map by filter */
    const struct tpl_test *test;     /* select */
    bool selects;
    bool rejects;
    struct json_value path; /* JSON_NULL: the item itself */
    const struct json_value *preset;
    struct tpl_args args; /* of the filter or test */
};

/* Handles one item. False: it is dropped. */
static bool
handle(struct tpl_run *run, const struct each *each, struct json_value item,
       struct json_value *out)
{
    struct json_value seen = item;
    bool passes = false;

    if (each->path.kind != JSON_NULL) {
        seen = tpl_follow(run, item, each->path, each->preset);
    }
    if (!each->selects) {
        *out = each->filter != NULL
                   ? tpl_filter_call(run, each->filter, seen, &each->args)
                   : seen;
        return true;
    }
    *out = item;
    passes = each->test != NULL
                 ? tpl_test_call(run, each->test, seen, &each->args)
                 : tpl_truth(seen);
    return passes != each->rejects;
}

/* Goes through the items and gathers what comes of them. */
static void
gather(struct tpl_run *run, const struct each *each, struct json_value subject,
       struct tpl_grow *grow)
{
    struct tpl_walk walk;
    struct json_value item;
    struct json_value out;

    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        tpl_step(run, 1);
        if (handle(run, each, item, &out)) {
            tpl_grow_add(run, grow, out);
        }
    }
}

/* A generator raises only where it is read: what goes wrong here is kept, to be
 * raised behind the items before it. */
static struct json_value
generate(struct tpl_run *run, const struct each *each,
         struct json_value subject)
{
    struct tpl_grow *grow = tpl_take(run, sizeof *grow);
    jmp_buf leave;
    jmp_buf *outer = run->leave;
    uint32_t depth = run->depth;
    uint32_t stack = run->stack_len;
    size_t out = run->out->len;

    *grow = (struct tpl_grow){.len = 0};
    if (setjmp(leave) == 0) {
        run->leave = &leave;
        gather(run, each, subject, grow);
        run->leave = outer;
        return tpl_iter_over(run, grow, NULL);
    }
    run->leave = outer;
    run->depth = depth;
    run->stack_len = stack;
    run->out->len = out;
    if (run->steps > run->limits->steps_max || run->out->failed) {
        tpl_fail_again(run, run->error);
    }
    return tpl_iter_over(run, grow, run->error);
}

static struct json_value
nothing(struct tpl_run *run)
{
    struct tpl_grow none = {.len = 0};

    return tpl_iter_over(run, &none, NULL);
}

static const struct json_value *
keyword(const struct tpl_args *args, const char *name)
{
    for (uint32_t i = 0; i < args->kw_count; i++) {
        if (slice_equal(tpl_slice(args->kw[(size_t)2 * i]), slice_of(name))) {
            return &args->kw[(size_t)2 * i + 1];
        }
    }
    return NULL;
}

/* A fault that a generator raises when it is read first. */
static struct json_value
broken(struct tpl_run *run, const char *why)
{
    struct tpl_grow none = {.len = 0};
    struct template_error error = {.line = run->line};

    (void)snprintf(error.text, sizeof error.text, "%s", why);
    return tpl_iter_over(run, &none, &error);
}

TPL_FILTER_RAW(map)
{
    struct each each = {.path = tpl_none()};
    const struct json_value *attribute = keyword(args, "attribute");

    if (!tpl_truth(subject)) {
        return nothing(run);
    }
    if (args->count == 0 && attribute != NULL) {
        each.path = *attribute;
        each.preset = keyword(args, "default");
        if (args->kw_count != 1 + (each.preset != NULL)) {
            return broken(run, "map: unexpected keyword argument");
        }
        return generate(run, &each, subject);
    }
    if (args->count == 0) {
        return broken(run, "map requires a filter argument");
    }
    if (args->at[0].kind == JSON_STRING) {
        each.filter = tpl_filter_named(tpl_slice(args->at[0]));
    }
    if (each.filter == NULL) {
        return broken(run, "map: no such filter");
    }
    each.args = *args;
    each.args.at++;
    each.args.count--;
    return generate(run, &each, subject);
}

static struct json_value
choose(struct tpl_run *run, struct json_value subject,
       const struct tpl_args *args, bool rejects, bool attribute)
{
    struct each each = {
        .selects = true, .rejects = rejects, .path = tpl_none(), .args = *args};

    if (!tpl_truth(subject)) {
        return nothing(run);
    }
    if (attribute) {
        if (args->count == 0) {
            return broken(run, "Missing parameter for attribute name");
        }
        each.path = *each.args.at++;
        each.args.count--;
    }
    if (each.args.count > 0) {
        if (each.args.at[0].kind == JSON_STRING) {
            each.test = tpl_test_named(tpl_slice(each.args.at[0]));
        }
        if (each.test == NULL) {
            return broken(run, "select: no such test");
        }
        each.args.at++;
        each.args.count--;
    }
    return generate(run, &each, subject);
}

TPL_FILTER_RAW(select)
{
    return choose(run, subject, args, false, false);
}

TPL_FILTER_RAW(reject)
{
    return choose(run, subject, args, true, false);
}

TPL_FILTER_RAW(selectattr)
{
    return choose(run, subject, args, false, true);
}

TPL_FILTER_RAW(rejectattr)
{
    return choose(run, subject, args, true, true);
}
