/* Expressions: the tree, walked. */
#include "node/template/template_run_internal.h"

static struct json_value
slot_value(struct tpl_frame *frame, const struct tpl_node *node)
{
    struct json_value value;

    for (uint32_t up = node->up; up > 0; up--) {
        frame = frame->up;
    }
    value = frame->slots[node->slot];
    return value.kind != TPL_V_MISSING ? value
                                       : tpl_undefined(tpl_slice(node->value));
}

static size_t
count(const struct tpl_node *first)
{
    size_t n = 0;

    for (; first != NULL; first = first->next) {
        n++;
    }
    return n;
}

static struct json_value
eval_items(struct tpl_run *run, struct tpl_frame *frame,
           const struct tpl_node *node, uint8_t kind)
{
    size_t n = count(node->a);
    struct json_value *items = tpl_take_values(run, n);
    size_t at = 0;

    for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
        items[at++] = tpl_eval(run, frame, i);
    }
    return tpl_array(kind, items, n);
}

static struct json_value
eval_dict(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_node *node)
{
    struct tpl_dict dict = {.len = 0};

    for (const struct tpl_node *i = node->a; i != NULL; i = i->next->next) {
        struct json_value key = tpl_eval(run, frame, i);
        struct json_value value = tpl_eval(run, frame, i->next);
        run->line = node->line;
        tpl_dict_put(run, &dict, key, value);
    }
    return tpl_dict_value(&dict);
}

static struct json_value
eval_item(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_node *node)
{
    struct json_value of = tpl_eval(run, frame, node->a);
    const struct tpl_node *parts[3] = {node->b->a, node->b->b, node->b->c};
    struct json_value values[3];
    const struct json_value *bounds[3] = {NULL, NULL, NULL};

    if (node->b->kind != TPL_SLICE) {
        struct json_value key = tpl_eval(run, frame, node->b);
        run->line = node->line;
        return tpl_getitem(run, of, key);
    }
    for (int i = 0; i < 3; i++) {
        if (parts[i] != NULL) {
            values[i] = tpl_eval(run, frame, parts[i]);
            bounds[i] = &values[i];
        }
    }
    run->line = node->line;
    return tpl_slice_of(run, of, bounds);
}

/* Pushes positional arguments; returns how many. */
static uint32_t
push_positional(struct tpl_run *run, struct tpl_frame *frame,
                const struct tpl_node *first)
{
    uint32_t from = run->stack_len;

    for (const struct tpl_node *i = first; i != NULL; i = i->next) {
        struct tpl_walk walk;
        struct json_value value;
        if (i->op == TPL_PLAIN) {
            value = tpl_eval(run, frame, i->a);
            tpl_push(run, value);
        } else if (i->op == TPL_STAR) {
            value = tpl_eval(run, frame, i->a);
            tpl_walk_start(run, &walk, value);
            while (tpl_walk_next(run, &walk, &value)) {
                tpl_push(run, value);
            }
        }
    }
    return run->stack_len - from;
}

static void
push_keyword(struct tpl_run *run, uint32_t from, struct json_value name,
             struct json_value value)
{
    for (uint32_t i = from; i < run->stack_len; i += 2) {
        if (slice_equal(tpl_slice(run->stack[i]), tpl_slice(name))) {
            tpl_fail(run, "several values for argument '%.*s'", (int)name.len,
                     name.as.text);
        }
    }
    tpl_push(run, name);
    tpl_push(run, value);
}

/* Pushes the members of a dictionary as keywords. */
static void
push_members(struct tpl_run *run, uint32_t from, struct json_value dict)
{
    if (dict.kind != JSON_OBJECT) {
        tpl_fail_type(run, "**", dict);
    }
    for (uint32_t i = 0; i < dict.len; i++) {
        if (dict.as.members[i].key.kind != JSON_STRING) {
            tpl_fail(run, "keywords must be strings");
        }
        push_keyword(run, from, dict.as.members[i].key,
                     dict.as.members[i].value);
    }
}

/* Pushes keyword arguments; returns how many. */
static uint32_t
push_keywords(struct tpl_run *run, struct tpl_frame *frame,
              const struct tpl_node *first, const struct json_value *caller)
{
    uint32_t from = run->stack_len;

    for (const struct tpl_node *i = first; i != NULL; i = i->next) {
        if (i->op == TPL_KEYWORD) {
            push_keyword(run, from, i->value, tpl_eval(run, frame, i->a));
        } else if (i->op == TPL_STARS) {
            push_members(run, from, tpl_eval(run, frame, i->a));
        }
    }
    if (caller != NULL) {
        push_keyword(run, from, json_tree_text(SLICE("caller")), *caller);
    }
    return (run->stack_len - from) / 2;
}

/* Pushes what a call is made with. The caller restores run->stack_len. */
static struct tpl_args
push_arguments(struct tpl_run *run, struct tpl_frame *frame,
               const struct tpl_node *first, const struct json_value *caller)
{
    struct tpl_args args = {.at = run->stack + run->stack_len};

    args.count = push_positional(run, frame, first);
    args.kw = run->stack + run->stack_len;
    args.kw_count = push_keywords(run, frame, first, caller);
    return args;
}

struct json_value
tpl_eval_call(struct tpl_run *run, struct tpl_frame *frame,
              const struct tpl_node *node, const struct json_value *extra,
              bool print, bool *printed)
{
    const struct tpl_node *of = node->a;
    const struct tpl_method *method = NULL;
    uint32_t stack = run->stack_len;
    struct json_value callee;
    struct json_value result;
    struct tpl_args args;

    *printed = false;
    if (of->kind == TPL_ATTR) { /* without making a bound method of it */
        callee = tpl_eval(run, frame, of->a);
        run->line = of->line;
        method = tpl_method_of(callee, tpl_slice(of->value));
        if (method == NULL) {
            callee = tpl_getattr(run, callee, tpl_slice(of->value));
        }
    } else {
        callee = tpl_eval(run, frame, of);
    }
    args = push_arguments(run, frame, node->b, extra);
    run->line = node->line;
    if (method != NULL) {
        result = tpl_method_call(run, method, callee, &args);
    } else if (print && callee.kind == TPL_V_MACRO) {
        tpl_macro_run(run, callee.as.thing, &args);
        *printed = true;
        result = tpl_none();
    } else {
        result = tpl_call(run, callee, &args);
    }
    run->stack_len = stack;
    return result;
}

struct json_value
tpl_eval_filter(struct tpl_run *run, struct tpl_frame *frame,
                const struct tpl_node *node, struct json_value subject)
{
    uint32_t stack = run->stack_len;
    struct tpl_args args;
    struct json_value result;

    if (node->filter == NULL) {
        run->line = node->line;
        tpl_fail(run, "No filter named '%.*s' found.", (int)node->value.len,
                 node->value.as.text);
    }
    args = push_arguments(run, frame, node->b, NULL);
    run->line = node->line;
    result = tpl_filter_call(run, node->filter, subject, &args);
    run->stack_len = stack;
    return result;
}

static bool
eval_test(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_node *node)
{
    struct json_value subject = tpl_eval(run, frame, node->a);
    uint32_t stack = run->stack_len;
    struct tpl_args args;
    bool is = false;

    if (node->test == NULL) {
        run->line = node->line;
        tpl_fail(run, "No test named '%.*s' found.", (int)node->value.len,
                 node->value.as.text);
    }
    args = push_arguments(run, frame, node->b, NULL);
    run->line = node->line;
    is = tpl_test_call(run, node->test, subject, &args);
    run->stack_len = stack;
    return is;
}

static bool
compare(struct tpl_run *run, enum tpl_op op, struct json_value a,
        struct json_value b)
{
    int order = 0;

    switch ((int)op) {
    case TPL_EQ:
        return tpl_equal(run, a, b);
    case TPL_NE:
        return !tpl_equal(run, a, b);
    case TPL_IN:
        return tpl_contains(run, b, a);
    case TPL_NOTIN:
        return !tpl_contains(run, b, a);
    default:
        order = tpl_order(run, a, b);
        return order == 2     ? false
               : op == TPL_LT ? order < 0
               : op == TPL_LE ? order <= 0
               : op == TPL_GT ? order > 0
                              : order >= 0;
    }
}

static bool
eval_compare(struct tpl_run *run, struct tpl_frame *frame,
             const struct tpl_node *node)
{
    struct json_value left = tpl_eval(run, frame, node->a);

    for (const struct tpl_node *i = node->b; i != NULL; i = i->next) {
        struct json_value right = tpl_eval(run, frame, i->a);
        run->line = node->line;
        if (!compare(run, (enum tpl_op)i->op, left, right)) {
            return false;
        }
        left = right;
    }
    return true;
}

static struct json_value
eval_concat(struct tpl_run *run, struct tpl_frame *frame,
            const struct tpl_node *node)
{
    struct slice text = {NULL, 0};

    for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
        struct slice more = tpl_str(run, tpl_eval(run, frame, i));
        text = text.len == 0 ? more : tpl_join2(run, text, more);
    }
    return tpl_text(run, text);
}

static struct json_value
eval_cond(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_node *node)
{
    if (tpl_truth(tpl_eval(run, frame, node->a))) {
        return tpl_eval(run, frame, node->b);
    }
    return node->c != NULL ? tpl_eval(run, frame, node->c)
                           : tpl_undefined(SLICE("the inline if-expression"));
}

/* Operations on one or two values, whose depth was counted. */
static struct json_value
eval_operation(struct tpl_run *run, struct tpl_frame *frame,
               const struct tpl_node *node)
{
    bool printed = false;
    struct json_value a;
    struct json_value b;

    switch ((int)node->kind) {
    case TPL_AND:
        a = tpl_eval(run, frame, node->a);
        return tpl_truth(a) ? tpl_eval(run, frame, node->b) : a;
    case TPL_OR:
        a = tpl_eval(run, frame, node->a);
        return tpl_truth(a) ? a : tpl_eval(run, frame, node->b);
    case TPL_NOT:
        return tpl_bool(!tpl_truth(tpl_eval(run, frame, node->a)));
    case TPL_NEG:
    case TPL_POS:
        a = tpl_eval(run, frame, node->a);
        run->line = node->line;
        return tpl_negate(run, a, node->kind == TPL_NEG);
    case TPL_BINARY:
        a = tpl_eval(run, frame, node->a);
        b = tpl_eval(run, frame, node->b);
        run->line = node->line;
        return tpl_binary(run, (enum tpl_op)node->op, a, b);
    case TPL_ATTR:
        a = tpl_eval(run, frame, node->a);
        run->line = node->line;
        return tpl_getattr(run, a, tpl_slice(node->value));
    case TPL_CALL:
        return tpl_eval_call(run, frame, node, NULL, false, &printed);
    case TPL_FILTER:
        a = tpl_eval(run, frame, node->a);
        return tpl_eval_filter(run, frame, node, a);
    default:
        CHECK(node->kind == TPL_TEST);
        return tpl_bool(eval_test(run, frame, node));
    }
}

static struct json_value
eval_structure(struct tpl_run *run, struct tpl_frame *frame,
               const struct tpl_node *node)
{
    switch ((int)node->kind) {
    case TPL_LIST:
        return eval_items(run, frame, node, JSON_ARRAY);
    case TPL_TUPLE:
        return eval_items(run, frame, node, TPL_V_TUPLE);
    case TPL_DICT:
        return eval_dict(run, frame, node);
    case TPL_ITEM:
        return eval_item(run, frame, node);
    case TPL_COMPARE:
        return tpl_bool(eval_compare(run, frame, node));
    case TPL_CONCAT:
        return eval_concat(run, frame, node);
    case TPL_COND:
        return eval_cond(run, frame, node);
    case TPL_SLICE: /* one of several in brackets: nothing takes that */
        return tpl_undefined(SLICE("slice"));
    default:
        return eval_operation(run, frame, node);
    }
}

struct json_value
tpl_eval(struct tpl_run *run, struct tpl_frame *frame,
         const struct tpl_node *node)
{
    struct json_value value;

    if (node->kind == TPL_CONST) {
        return node->value;
    }
    if (node->kind == TPL_NAME) {
        return slot_value(frame, node);
    }
    tpl_step(run, 1);
    tpl_enter(run);
    value = eval_structure(run, frame, node);
    tpl_leave(run);
    return value;
}

static void
assign_attribute(struct tpl_run *run, struct json_value of, struct slice name,
                 struct json_value value)
{
    struct tpl_namespace *ns = of.as.thing;
    struct json_member *grown = NULL;

    if (of.kind != TPL_V_NAMESPACE) {
        tpl_fail(run, "cannot assign attribute on non-namespace object");
    }
    if (name.len > 0 && name.ptr[0] == '_') {
        tpl_fail(run, "cannot store '%.*s' on a namespace", (int)name.len,
                 name.ptr);
    }
    for (uint32_t i = 0; i < ns->len; i++) {
        if (slice_equal(tpl_slice(ns->members[i].key), name)) {
            ns->members[i].value = value;
            return;
        }
    }
    if (ns->len == ns->size) {
        ns->size = ns->size * 2 + 4;
        grown = tpl_take(run, ns->size * sizeof *grown);
        if (ns->len > 0) {
            memcpy(grown, ns->members, ns->len * sizeof *grown);
        }
        ns->members = grown;
    }
    ns->members[ns->len++] = (struct json_member){json_tree_text(name), value};
}

static void
assign_tuple(struct tpl_run *run, struct tpl_frame *frame,
             const struct tpl_node *target, struct json_value value)
{
    struct json_value items = tpl_list(run, value);
    uint32_t at = 0;

    run->line = target->line;
    if (items.len != count(target->a)) {
        tpl_fail(run, "%u values for %zu names", (unsigned)items.len,
                 count(target->a));
    }
    for (const struct tpl_node *i = target->a; i != NULL; i = i->next) {
        tpl_assign(run, frame, i, items.as.items[at++]);
    }
}

void
tpl_assign(struct tpl_run *run, struct tpl_frame *frame,
           const struct tpl_node *target, struct json_value value)
{
    if (target->kind == TPL_NAME) {
        CHECK_SLOW(target->up == 0);
        frame->slots[target->slot] = value;
        return;
    }
    tpl_enter(run);
    if (target->kind == TPL_TUPLE) {
        assign_tuple(run, frame, target, value);
    } else {
        run->line = target->line;
        assign_attribute(run, slot_value(frame, target->a),
                         tpl_slice(target->value), value);
    }
    tpl_leave(run);
}
