/* Python's rules for values: truth, equality, order, membership, length. */
#include "node/template/template_run_internal.h"

const char *
tpl_type_name(struct json_value value)
{
    static const char *const names[] = {
        [JSON_NULL] = "NoneType",    [JSON_BOOL] = "bool",
        [JSON_INT] = "int",          [JSON_BIG] = "int",
        [JSON_REAL] = "float",       [JSON_STRING] = "str",
        [JSON_ARRAY] = "list",       [JSON_OBJECT] = "dict",
        [TPL_V_TUPLE] = "tuple",     [TPL_V_UNDEFINED] = "Undefined",
        [TPL_V_MISSING] = "missing", [TPL_V_NAMESPACE] = "Namespace",
        [TPL_V_MACRO] = "Macro",     [TPL_V_LOOP] = "LoopContext",
        [TPL_V_ITER] = "generator",  [TPL_V_RANGE] = "range",
        [TPL_V_VIEW] = "dict view",  [TPL_V_METHOD] = "method",
        [TPL_V_GLOBAL] = "function", [TPL_V_CYCLER] = "Cycler",
        [TPL_V_JOINER] = "Joiner",
    };

    CHECK(value.kind < sizeof names / sizeof names[0]);
    return names[value.kind];
}

bool
tpl_length(struct json_value value, int64_t *len)
{
    const struct json_value *of = value.as.thing;

    switch ((int)value.kind) {
    case JSON_STRING:
        *len = (int64_t)tpl_text_count(tpl_slice(value));
        return true;
    case JSON_ARRAY:
    case JSON_OBJECT:
    case TPL_V_TUPLE:
    case TPL_V_RANGE:
        *len = value.len;
        return true;
    case TPL_V_UNDEFINED:
        *len = 0;
        return true;
    case TPL_V_VIEW:
        *len = of->len;
        return true;
    default:
        return false;
    }
}

bool
tpl_truth(struct json_value value)
{
    int64_t len = 0;

    switch ((int)value.kind) {
    case JSON_NULL:
    case TPL_V_UNDEFINED:
        return false;
    case JSON_BOOL:
    case JSON_INT:
        return value.as.integer != 0;
    case JSON_REAL:
        return value.as.real != 0;
    case JSON_STRING:
        return value.len > 0;
    default:
        return !tpl_length(value, &len) || len > 0;
    }
}

bool
tpl_is_number(struct json_value value)
{
    return value.kind == JSON_BOOL || value.kind == JSON_INT ||
           value.kind == JSON_BIG || value.kind == JSON_REAL;
}

static bool
is_small_integer(struct json_value value)
{
    return value.kind == JSON_BOOL || value.kind == JSON_INT;
}

int64_t
tpl_index(struct tpl_run *run, struct json_value value)
{
    if (!is_small_integer(value)) {
        tpl_fail_type(run, "expected an integer", value);
    }
    return value.as.integer;
}

double
tpl_as_real(struct tpl_run *run, struct json_value value)
{
    if (value.kind == JSON_REAL) {
        return value.as.real;
    }
    if (value.kind == JSON_BIG) {
        tpl_fail(run, "integers beyond 64 bits are not supported here");
    }
    return (double)tpl_index(run, value);
}

bool
tpl_hashable(struct json_value value)
{
    if (value.kind == TPL_V_TUPLE) {
        for (uint32_t i = 0; i < value.len; i++) {
            if (!tpl_hashable(value.as.items[i])) {
                return false;
            }
        }
    }
    return value.kind != JSON_ARRAY && value.kind != JSON_OBJECT &&
           value.kind != TPL_V_VIEW;
}

bool
tpl_same(struct json_value a, struct json_value b)
{
    if (a.kind != b.kind) {
        return false;
    }
    switch ((int)a.kind) {
    case JSON_NULL:
        return true;
    case JSON_BOOL:
    case JSON_INT:
        return a.as.integer == b.as.integer;
    default:
        return a.len == b.len && a.as.thing == b.as.thing;
    }
}

static bool
equal_numbers(struct json_value a, struct json_value b)
{
    if (a.kind == JSON_BIG || b.kind == JSON_BIG) {
        return a.kind == b.kind && slice_equal(tpl_slice(a), tpl_slice(b));
    }
    if (is_small_integer(a) && is_small_integer(b)) {
        return a.as.integer == b.as.integer;
    }
    if (a.kind == JSON_REAL && b.kind == JSON_REAL) {
        return a.as.real == b.as.real;
    }
    if (a.kind == JSON_REAL) {
        return equal_numbers(b, a);
    }
    /* Exact: an integer beyond 53 bits is not its neighbour. */
    return b.as.real >= -9223372036854775808.0 &&
           b.as.real < 9223372036854775808.0 &&
           (double)(int64_t)b.as.real == b.as.real &&
           (int64_t)b.as.real == a.as.integer;
}

static bool
equal_items(struct tpl_run *run, struct json_value a, struct json_value b)
{
    if (a.len != b.len) {
        return false;
    }
    for (uint32_t i = 0; i < a.len; i++) {
        if (!tpl_equal(run, a.as.items[i], b.as.items[i])) {
            return false;
        }
    }
    return true;
}

static bool
equal_dicts(struct tpl_run *run, struct json_value a, struct json_value b)
{
    if (a.len != b.len) {
        return false;
    }
    for (uint32_t i = 0; i < a.len; i++) {
        const struct json_value *other =
            tpl_dict_get(run, b, a.as.members[i].key);
        if (other == NULL || !tpl_equal(run, a.as.members[i].value, *other)) {
            return false;
        }
    }
    return true;
}

static bool
equal_ranges(struct json_value a, struct json_value b)
{
    const struct tpl_range *x = a.as.thing;
    const struct tpl_range *y = b.as.thing;

    return a.len == b.len &&
           (a.len == 0 ||
            (x->start == y->start && (a.len == 1 || x->step == y->step)));
}

bool
tpl_equal(struct tpl_run *run, struct json_value a, struct json_value b)
{
    bool equal = false;

    if (tpl_is_number(a) && tpl_is_number(b)) {
        return equal_numbers(a, b);
    }
    if (a.kind != b.kind) {
        return false;
    }
    if (a.kind == JSON_STRING) {
        return slice_equal(tpl_slice(a), tpl_slice(b));
    }
    if (a.kind == TPL_V_UNDEFINED) {
        return true;
    }
    tpl_step(run, 1);
    tpl_enter(run);
    if (tpl_is_sequence(a)) {
        equal = equal_items(run, a, b);
    } else if (a.kind == JSON_OBJECT) {
        equal = equal_dicts(run, a, b);
    } else if (a.kind == TPL_V_RANGE) {
        equal = equal_ranges(a, b);
    } else {
        equal = tpl_same(a, b);
    }
    tpl_leave(run);
    return equal;
}

static int
order_numbers(struct tpl_run *run, struct json_value a, struct json_value b)
{
    double x = 0;
    double y = 0;

    if (is_small_integer(a) && is_small_integer(b)) {
        return (a.as.integer > b.as.integer) - (a.as.integer < b.as.integer);
    }
    x = tpl_as_real(run, a);
    y = tpl_as_real(run, b);
    return x != x || y != y ? 2 : (x > y) - (x < y);
}

static int
order_items(struct tpl_run *run, struct json_value a, struct json_value b)
{
    for (uint32_t i = 0; i < a.len && i < b.len; i++) {
        if (!tpl_equal(run, a.as.items[i], b.as.items[i])) {
            return tpl_order(run, a.as.items[i], b.as.items[i]);
        }
    }
    return (a.len > b.len) - (a.len < b.len);
}

int
tpl_order(struct tpl_run *run, struct json_value a, struct json_value b)
{
    int order = 0;

    if (tpl_is_number(a) && tpl_is_number(b)) {
        return order_numbers(run, a, b);
    }
    if (a.kind == JSON_STRING && b.kind == JSON_STRING) {
        return slice_compare(tpl_slice(a), tpl_slice(b));
    }
    if (a.kind != b.kind || !tpl_is_sequence(a)) {
        tpl_fail_type(run, "cannot be ordered",
                      b.kind == TPL_V_UNDEFINED ? b : a);
    }
    tpl_step(run, 1);
    tpl_enter(run);
    order = order_items(run, a, b);
    tpl_leave(run);
    return order;
}

bool
tpl_contains(struct tpl_run *run, struct json_value container,
             struct json_value item)
{
    struct tpl_walk walk;
    struct json_value other;

    if (container.kind == JSON_STRING) {
        if (item.kind != JSON_STRING) {
            tpl_fail_type(run, "'in <string>' requires string", item);
        }
        tpl_step(run, container.len / 64);
        return tpl_text_find(tpl_slice(container), tpl_slice(item), 0) !=
               SIZE_MAX;
    }
    if (container.kind == JSON_OBJECT ||
        (container.kind == TPL_V_VIEW && container.extra == TPL_VIEW_KEYS)) {
        if (container.kind == TPL_V_VIEW) {
            container = *(const struct json_value *)container.as.thing;
        }
        return tpl_dict_get(run, container, item) != NULL;
    }
    tpl_walk_start(run, &walk, container);
    while (tpl_walk_next(run, &walk, &other)) {
        tpl_step(run, 1);
        if (tpl_equal(run, other, item)) {
            return true;
        }
    }
    return false;
}

bool
tpl_can_walk(struct json_value value)
{
    int64_t len = 0;

    return value.kind == TPL_V_ITER || value.kind == TPL_V_LOOP ||
           tpl_length(value, &len);
}

void
tpl_walk_start(struct tpl_run *run, struct tpl_walk *walk,
               struct json_value value)
{
    if (!tpl_can_walk(value) || value.kind == TPL_V_LOOP) {
        tpl_fail_type(run, "cannot be iterated", value);
    }
    *walk = (struct tpl_walk){.of = value};
}

/* The next character of a text. */
static bool
walk_text(struct tpl_walk *walk, struct json_value *item)
{
    size_t at = walk->at;
    struct slice text = tpl_slice(walk->of);

    if (at >= text.len) {
        return false;
    }
    (void)tpl_text_next(text, &at);
    *item = json_tree_text((struct slice){text.ptr + walk->at, at - walk->at});
    walk->at = (uint32_t)at;
    return true;
}

static bool
walk_view(struct tpl_run *run, struct tpl_walk *walk, struct json_value *item)
{
    const struct json_value *dict = walk->of.as.thing;
    const struct json_member *member = &dict->as.members[walk->at];

    if (walk->at >= dict->len) {
        return false;
    }
    walk->at++;
    *item = walk->of.extra == TPL_VIEW_KEYS ? member->key
            : walk->of.extra == TPL_VIEW_VALUES
                ? member->value
                : tpl_pair(run, member->key, member->value);
    return true;
}

static bool
walk_iter(struct tpl_run *run, struct tpl_iter *iter, struct json_value *item)
{
    if (iter->at == iter->len) {
        if (iter->error != NULL) {
            tpl_fail_again(run, iter->error);
        }
        return false;
    }
    *item = iter->items[iter->at++];
    return true;
}

bool
tpl_walk_next(struct tpl_run *run, struct tpl_walk *walk,
              struct json_value *item)
{
    const struct tpl_range *range = walk->of.as.thing;

    switch ((int)walk->of.kind) {
    case JSON_STRING:
        return walk_text(walk, item);
    case TPL_V_VIEW:
        return walk_view(run, walk, item);
    case TPL_V_ITER:
        return walk_iter(run, walk->of.as.thing, item);
    case TPL_V_UNDEFINED:
        return false;
    default:
        break;
    }
    if (walk->at >= walk->of.len) {
        return false;
    }
    *item = walk->of.kind == JSON_OBJECT ? walk->of.as.members[walk->at].key
            : walk->of.kind == TPL_V_RANGE
                ? tpl_int(range->start + (int64_t)walk->at * range->step)
                : walk->of.as.items[walk->at];
    walk->at++;
    return true;
}

struct json_value
tpl_list(struct tpl_run *run, struct json_value value)
{
    struct tpl_walk walk;
    struct json_value *items = NULL;
    struct json_value item;
    int64_t len = 0;
    size_t at = 0;

    if (value.kind == JSON_ARRAY || value.kind == TPL_V_TUPLE) {
        return tpl_array(JSON_ARRAY, value.as.items, value.len);
    }
    tpl_walk_start(run, &walk, value);
    if (!tpl_length(value, &len)) {
        const struct tpl_iter *iter = value.as.thing;
        len = iter->len - iter->at;
    }
    items = tpl_take_values(run, (size_t)len);
    while (tpl_walk_next(run, &walk, &item)) {
        CHECK(at < (size_t)len);
        items[at++] = item;
    }
    return tpl_array(JSON_ARRAY, items, at);
}
