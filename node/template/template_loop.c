/* Loops: jinja2's LoopContext, which looks ahead only when it is asked to. */
#include "node/template/template_run_internal.h"

struct tpl_loop {
    const struct tpl_node *node;
    struct tpl_frame *frame; /* of the body */
    struct json_value items; /* what is gone through */
    struct tpl_walk walk;
    int64_t index0;
    int64_t length; /* -1: not known yet */
    int64_t depth0;
    bool has_ahead;
    bool has_changed;
    struct json_value ahead;
    struct json_value now;
    struct json_value before;
    struct json_value changed; /* what changed() saw last: a tuple */
    struct json_value rest; /* an array that replaces what is left, or none */
    uint32_t rest_at;
};

/* The next item that passes the test, if there is one. */
static bool
pull(struct tpl_run *run, struct tpl_loop *loop, struct json_value *item)
{
    const struct tpl_node *node = loop->node;

    if (loop->rest.kind == JSON_ARRAY) {
        if (loop->rest_at == loop->rest.len) {
            return false;
        }
        *item = loop->rest.as.items[loop->rest_at++];
        return true;
    }
    while (tpl_walk_next(run, &loop->walk, item)) {
        tpl_step(run, 1);
        if (node->e == NULL) {
            return true;
        }
        tpl_scope_enter(run, loop->frame, node->scope_test);
        tpl_assign(run, loop->frame, node->test_target, *item);
        if (tpl_truth(tpl_eval(run, loop->frame, node->e))) {
            return true;
        }
    }
    return false;
}

static bool
peek(struct tpl_run *run, struct tpl_loop *loop)
{
    if (!loop->has_ahead) {
        loop->has_ahead = pull(run, loop, &loop->ahead);
    }
    return loop->has_ahead;
}

static bool
advance(struct tpl_run *run, struct tpl_loop *loop)
{
    struct json_value item;

    if (!peek(run, loop)) {
        return false;
    }
    item = loop->ahead;
    loop->has_ahead = false;
    loop->index0++;
    loop->before = loop->now;
    loop->now = item;
    return true;
}

int64_t
tpl_loop_length(struct tpl_run *run, struct tpl_loop *loop)
{
    struct tpl_dict rest = {.len = 0}; /* used as a growing list */
    struct json_value item;
    struct json_value *items = NULL;

    if (loop->length >= 0) {
        return loop->length;
    }
    if (loop->node->e == NULL && tpl_length(loop->items, &loop->length)) {
        return loop->length;
    }
    while (pull(run, loop, &item)) {
        if (rest.len == rest.size) {
            struct json_value *grown =
                tpl_take_values(run, (size_t)rest.size * 2 + 8);
            if (rest.len > 0) {
                memcpy(grown, items, rest.len * sizeof *grown);
            }
            items = grown;
            rest.size = rest.size * 2 + 8;
        }
        items[rest.len++] = item;
    }
    loop->rest = tpl_array(JSON_ARRAY, items, rest.len);
    loop->rest_at = 0;
    loop->length =
        (int64_t)rest.len + loop->index0 + 1 + (loop->has_ahead ? 1 : 0);
    return loop->length;
}

/* Goes through the items; the frame is the body's. */
static void
run_rounds(struct tpl_run *run, struct tpl_loop *loop)
{
    const struct tpl_node *node = loop->node;
    bool any = false; /* a round that came to its end */

    while (advance(run, loop)) {
        enum tpl_flow flow = TPL_FLOW_ON;
        tpl_scope_enter(run, loop->frame, node->scope);
        tpl_assign(run, loop->frame, node->a, loop->now);
        loop->frame->slots[node->loop_slot] = tpl_thing(TPL_V_LOOP, loop);
        flow = tpl_exec(run, loop->frame, node->c);
        any |= flow == TPL_FLOW_ON;
        if (flow == TPL_FLOW_BREAK) {
            break;
        }
    }
    if (node->d != NULL && !any) {
        tpl_scope_enter(run, loop->frame, node->scope_else);
        (void)tpl_exec(run, loop->frame, node->d);
    }
}

static struct tpl_loop *
new_loop(struct tpl_run *run, const struct tpl_node *node,
         struct tpl_frame *frame, struct json_value items, int64_t depth0)
{
    struct tpl_loop *loop = tpl_take(run, sizeof *loop);

    *loop = (struct tpl_loop){.node = node,
                              .frame = frame,
                              .items = items,
                              .index0 = -1,
                              .length = -1,
                              .depth0 = depth0};
    run->line = node->line;
    tpl_walk_start(run, &loop->walk, items);
    return loop;
}

void
tpl_loop_run(struct tpl_run *run, struct tpl_frame *frame,
             const struct tpl_node *node)
{
    struct json_value items = tpl_eval(run, frame, node->b);

    if (node->recursive) {
        frame = tpl_frame_new(run, node->function, frame);
    }
    run_rounds(run, new_loop(run, node, frame, items, 0));
}

struct json_value
tpl_loop_call(struct tpl_run *run, struct tpl_loop *loop,
              const struct tpl_args *args)
{
    const struct tpl_node *node = loop->node;
    size_t from = run->out->len;
    struct tpl_frame *frame = NULL;

    if (!node->recursive) {
        tpl_fail(run, "The loop must have the 'recursive' marker to be called "
                      "recursively.");
    }
    if (args->count != 1 || args->kw_count != 0) {
        tpl_fail(run, "loop() takes one argument");
    }
    tpl_enter(run);
    frame = tpl_frame_new(run, node->function, loop->frame->up);
    run_rounds(run, new_loop(run, node, frame, args->at[0], loop->depth0 + 1));
    tpl_leave(run);
    return tpl_text(run, tpl_caught(run, from));
}

struct json_value
tpl_loop_cycle(struct tpl_run *run, struct tpl_loop *loop,
               const struct tpl_args *args)
{
    if (args->count == 0 || args->kw_count != 0) {
        tpl_fail(run, "no items for cycling given");
    }
    return args->at[loop->index0 % args->count];
}

struct json_value
tpl_loop_changed(struct tpl_run *run, struct tpl_loop *loop,
                 const struct tpl_args *args)
{
    struct json_value seen = tpl_array(TPL_V_TUPLE, args->at, args->count);
    struct json_value *kept = NULL;

    if (args->kw_count != 0) {
        tpl_fail(run, "changed() takes no keywords");
    }
    if (loop->has_changed && tpl_equal(run, loop->changed, seen)) {
        return tpl_bool(false);
    }
    kept = tpl_take_values(run, args->count);
    if (args->count > 0) {
        memcpy(kept, args->at, args->count * sizeof *kept);
    }
    loop->has_changed = true;
    loop->changed = tpl_array(TPL_V_TUPLE, kept, args->count);
    return tpl_bool(true);
}

void
tpl_loop_repr(struct tpl_run *run, struct tpl_loop *loop, struct buf *out)
{
    buf_printf(out, "<LoopContext %lld/%lld>", (long long)loop->index0 + 1,
               (long long)tpl_loop_length(run, loop));
}

struct json_value
tpl_loop_attr(struct tpl_run *run, struct tpl_loop *loop, struct slice name,
              bool *known)
{
    *known = true;
    if (slice_equal(name, SLICE("index0"))) {
        return tpl_int(loop->index0);
    }
    if (slice_equal(name, SLICE("index"))) {
        return tpl_int(loop->index0 + 1);
    }
    if (slice_equal(name, SLICE("first"))) {
        return tpl_bool(loop->index0 == 0);
    }
    if (slice_equal(name, SLICE("last"))) {
        return tpl_bool(!peek(run, loop));
    }
    if (slice_equal(name, SLICE("length"))) {
        return tpl_int(tpl_loop_length(run, loop));
    }
    if (slice_equal(name, SLICE("revindex"))) {
        return tpl_int(tpl_loop_length(run, loop) - loop->index0);
    }
    if (slice_equal(name, SLICE("revindex0"))) {
        return tpl_int(tpl_loop_length(run, loop) - loop->index0 - 1);
    }
    if (slice_equal(name, SLICE("previtem"))) {
        return loop->index0 > 0 ? loop->before : tpl_undefined(name);
    }
    if (slice_equal(name, SLICE("nextitem"))) {
        return peek(run, loop) ? loop->ahead : tpl_undefined(name);
    }
    if (slice_equal(name, SLICE("depth"))) {
        return tpl_int(loop->depth0 + 1);
    }
    if (slice_equal(name, SLICE("depth0"))) {
        return tpl_int(loop->depth0);
    }
    *known = false;
    return tpl_none();
}
