/* a.b, a[b] and a[b:c:d], as jinja2's sandbox looks them up. */
#include "node/template/template_run_internal.h"

#include "index/base/ascii.h"

static struct json_value
bind(struct tpl_run *run, const struct tpl_method *method,
     struct json_value self)
{
    struct tpl_bound *bound = tpl_take(run, sizeof *bound);

    *bound = (struct tpl_bound){.self = self, .method = method};
    return tpl_thing(TPL_V_METHOD, bound);
}

/* The attributes that are no methods. False: there is none. */
static bool
own_attribute(struct tpl_run *run, struct json_value of, struct slice name,
              struct json_value *value)
{
    bool known = false;
    const struct tpl_macro *macro = of.as.thing;
    const struct tpl_namespace *ns = of.as.thing;
    const struct tpl_cycler *cycler = of.as.thing;

    switch ((int)of.kind) {
    case TPL_V_LOOP:
        *value = tpl_loop_attr(run, of.as.thing, name, &known);
        return known;
    case TPL_V_NAMESPACE:
        for (uint32_t i = 0; i < ns->len; i++) {
            if (slice_equal(tpl_slice(ns->members[i].key), name)) {
                *value = ns->members[i].value;
                return true;
            }
        }
        return false;
    case TPL_V_TUPLE:
        if ((of.mark & TPL_MARK_GROUP) != 0 &&
            (slice_equal(name, SLICE("grouper")) ||
             slice_equal(name, SLICE("list")))) {
            *value = of.as.items[name.ptr[0] == 'l'];
            return true;
        }
        return false;
    case TPL_V_MACRO:
        *value = json_tree_text(macro->function->name);
        return slice_equal(name, SLICE("name"));
    case TPL_V_CYCLER:
        *value = cycler->items[cycler->at];
        return slice_equal(name, SLICE("current"));
    default:
        return false;
    }
}

/* Python's getattr() behind the sandbox. False: there is none. */
static bool
attribute(struct tpl_run *run, struct json_value of, struct slice name,
          struct json_value *value)
{
    const struct tpl_method *method = NULL;

    if (name.len > 0 && name.ptr[0] == '_') {
        *value = tpl_undefined(name);
        return name.len > 1 && name.ptr[1] == '_' && of.kind != JSON_OBJECT;
    }
    if (own_attribute(run, of, name, value)) {
        return true;
    }
    method = tpl_method_of(of, name);
    if (method != NULL) {
        *value = bind(run, method, of);
    }
    return method != NULL;
}

struct json_value
tpl_getattr(struct tpl_run *run, struct json_value of, struct slice name)
{
    struct json_value value;
    const struct json_value *member = NULL;

    if (of.kind == TPL_V_UNDEFINED) {
        tpl_fail(run, "'%.*s' is undefined", (int)of.len, of.as.text);
    }
    if (attribute(run, of, name, &value)) {
        return value;
    }
    if (of.kind == JSON_OBJECT) {
        member = tpl_dict_get(run, of, json_tree_text(name));
    }
    return member != NULL ? *member : tpl_undefined(name);
}

/* of[at]; false: out of range, or it has no items by number. */
static bool
element(struct json_value of, int64_t at, struct json_value *value)
{
    int64_t len = 0;
    const struct tpl_range *range = of.as.thing;
    struct slice text = tpl_slice(of);
    size_t from = 0;
    size_t end = 0;

    if ((of.kind != JSON_STRING && of.kind != TPL_V_RANGE &&
         !tpl_is_sequence(of)) ||
        !tpl_length(of, &len)) {
        return false;
    }
    at += at < 0 ? len : 0;
    if (at < 0 || at >= len) {
        return false;
    }
    if (of.kind == TPL_V_RANGE) {
        *value = tpl_int(range->start + at * range->step);
    } else if (of.kind == JSON_STRING) {
        end = from = tpl_text_offset(text, (size_t)at);
        (void)tpl_text_next(text, &end);
        *value = json_tree_text((struct slice){text.ptr + from, end - from});
        value->mark = of.mark;
    } else {
        *value = of.as.items[at];
    }
    return true;
}

struct json_value
tpl_getitem(struct tpl_run *run, struct json_value of, struct json_value key)
{
    struct json_value value;
    const struct json_value *member = NULL;

    if (of.kind == TPL_V_UNDEFINED) {
        tpl_fail(run, "'%.*s' is undefined", (int)of.len, of.as.text);
    }
    if (of.kind == JSON_OBJECT) {
        if (tpl_hashable(key)) {
            member = tpl_dict_get(run, of, key);
        }
        if (member != NULL) {
            return *member;
        }
    } else if (key.kind == JSON_INT || key.kind == JSON_BOOL) {
        tpl_step(run, of.kind == JSON_STRING ? of.len / 64 : 0);
        if (element(of, key.as.integer, &value)) {
            return value;
        }
    }
    if (key.kind == JSON_STRING && attribute(run, of, tpl_slice(key), &value)) {
        return value;
    }
    return tpl_undefined(key.kind == JSON_STRING ? tpl_slice(key)
                                                 : SLICE("element"));
}

/* Python's PySlice_AdjustIndices: where a slice begins, and of how many. */
static int64_t
adjust(struct tpl_run *run, const struct json_value *const bounds[3],
       int64_t len, int64_t *start, int64_t *step)
{
    bool given[3];
    int64_t at[3] = {0, 0, 1};

    for (int i = 0; i < 3; i++) {
        given[i] = bounds[i] != NULL && bounds[i]->kind != JSON_NULL;
        if (given[i]) {
            at[i] = tpl_index(run, *bounds[i]);
        }
    }
    if (at[2] == 0) {
        tpl_fail(run, "slice step cannot be zero");
    }
    *step = at[2] < -INT64_MAX ? -INT64_MAX : at[2];
    for (int i = 0; i < 2; i++) {
        int64_t low = *step < 0 ? -1 : 0;
        int64_t high = *step < 0 ? len - 1 : len;
        if (!given[i]) {
            at[i] = (*step < 0) == (i == 0) ? high : low;
        } else if (at[i] < 0) {
            at[i] = at[i] + len < low ? low : at[i] + len;
        } else if (at[i] > high) {
            at[i] = high;
        }
    }
    *start = at[0];
    if (*step < 0) {
        return at[1] < at[0] ? (at[0] - at[1] - 1) / -*step + 1 : 0;
    }
    return at[0] < at[1] ? (at[1] - at[0] - 1) / *step + 1 : 0;
}

static struct json_value
slice_text(struct tpl_run *run, struct json_value of, int64_t start,
           int64_t step, int64_t n)
{
    struct slice text = tpl_slice(of);
    struct json_value result = json_tree_text((struct slice){text.ptr, 0});
    char *to = NULL;
    size_t len = 0;

    if (n > 0 && step == 1) {
        size_t from = tpl_text_offset(text, (size_t)start);
        struct slice rest = {text.ptr + from, text.len - from};
        result = json_tree_text(
            (struct slice){rest.ptr, tpl_text_offset(rest, (size_t)n)});
    } else if (n > 0) {
        struct json_value chars = tpl_list(run, of);
        to = tpl_take(run, text.len);
        for (int64_t i = 0; i < n; i++) {
            struct slice c = tpl_slice(chars.as.items[start + i * step]);
            memcpy(to + len, c.ptr, c.len);
            len += c.len;
        }
        result = json_tree_text((struct slice){to, len});
    }
    result.mark = of.mark & TPL_MARK_SAFE;
    return result;
}

static struct json_value
slice_range(struct tpl_run *run, struct json_value of, int64_t start,
            int64_t step, int64_t n)
{
    const struct tpl_range *range = of.as.thing;
    struct tpl_range *part = tpl_take(run, sizeof *part);
    struct json_value result = tpl_thing(TPL_V_RANGE, part);

    part->start = range->start + start * range->step;
    part->step = range->step * step;
    part->end = part->start + n * part->step;
    result.len = (uint32_t)n;
    return result;
}

struct json_value
tpl_slice_of(struct tpl_run *run, struct json_value of,
             const struct json_value *const bounds[3])
{
    int64_t len = 0;
    int64_t start = 0;
    int64_t step = 1;
    int64_t n = 0;
    struct json_value *items = NULL;

    if ((of.kind != JSON_STRING && of.kind != TPL_V_RANGE &&
         !tpl_is_sequence(of)) ||
        !tpl_length(of, &len)) {
        tpl_fail_type(run, "cannot be sliced", of);
    }
    tpl_step(run, of.kind == JSON_STRING ? of.len / 64 : 1);
    n = adjust(run, bounds, len, &start, &step);
    if (of.kind == JSON_STRING) {
        return slice_text(run, of, start, step, n);
    }
    if (of.kind == TPL_V_RANGE) {
        return slice_range(run, of, start, step, n);
    }
    if (step == 1) {
        return tpl_array(of.kind, of.as.items + start, (size_t)n);
    }
    items = tpl_take_values(run, (size_t)n);
    for (int64_t i = 0; i < n; i++) {
        items[i] = of.as.items[start + i * step];
    }
    return tpl_array(of.kind, items, (size_t)n);
}

/* A part of a path: digits are a number. */
static struct json_value
path_part(struct slice part)
{
    int64_t number = 0;

    for (size_t i = 0; i < part.len; i++) {
        if (!ascii_is_digit(part.ptr[i]) || i > 17) {
            return json_tree_text(part);
        }
        number = number * 10 + (part.ptr[i] - '0');
    }
    return part.len > 0 ? tpl_int(number) : json_tree_text(part);
}

struct json_value
tpl_follow(struct tpl_run *run, struct json_value of, struct json_value path,
           const struct json_value *preset)
{
    struct slice rest = tpl_slice(path);
    bool more = path.kind != JSON_NULL;

    while (more) {
        struct json_value key = path;
        more = false;
        if (path.kind == JSON_STRING) {
            more = rest.len > 0 && memchr(rest.ptr, '.', rest.len) != NULL;
            key = path_part(slice_take(&rest, '.'));
        }
        of = tpl_getitem(run, of, key);
        if (preset != NULL && preset->kind != JSON_NULL &&
            of.kind == TPL_V_UNDEFINED) {
            of = *preset;
        }
    }
    return of;
}
