/* Filters that compare items: sort, dictsort, unique, min, max, groupby. */
#include "node/template/template_filter_internal.h"

/* An item and what it is compared by. */
struct keyed {
    struct json_value key;
    struct json_value item;
};

/* jinja2's ignore_case: texts in lower case, everything else as it is. */
static struct json_value
fold(struct tpl_run *run, struct json_value value, bool sensitive)
{
    return !sensitive && value.kind == JSON_STRING
               ? tpl_case(run, value, TPL_LOWER)
               : value;
}

/* Merges from[at..mid) and from[mid..end). Reversed as Python does it: equal
 * items keep their order. */
static void
merge(struct tpl_run *run, const struct keyed *from, struct keyed *to,
      const size_t bounds[3], bool reverse)
{
    size_t a = bounds[0];
    size_t b = bounds[1];

    for (size_t i = bounds[0]; i < bounds[2]; i++) {
        bool right = a == bounds[1];
        if (!right && b < bounds[2]) {
            const struct keyed *low = reverse ? &from[a] : &from[b];
            const struct keyed *high = reverse ? &from[b] : &from[a];
            right = tpl_order(run, low->key, high->key) < 0;
        }
        to[i] = right ? from[b++] : from[a++];
    }
}

/* Merge sort: stable, and bounded for every input. */
static struct keyed *
sorted(struct tpl_run *run, struct keyed *from, size_t n, bool reverse)
{
    struct keyed *to = tpl_take(run, (n + 1) * sizeof *to);

    for (size_t width = 1; width < n; width *= 2) {
        struct keyed *swap = from;
        tpl_step(run, n);
        for (size_t at = 0; at < n; at += 2 * width) {
            size_t mid = at + width < n ? at + width : n;
            size_t end = mid + width < n ? mid + width : n;
            const size_t bounds[3] = {at, mid, end};
            merge(run, from, to, bounds, reverse);
        }
        from = to;
        to = swap;
    }
    return from;
}

/* What sort(attribute="a,b") compares by: a list of each attribute's value. */
static struct json_value
sort_key(struct tpl_run *run, struct json_value item,
         const struct json_value *attribute, bool sensitive)
{
    struct tpl_grow keys = {.len = 0};
    struct slice rest;

    if (attribute == NULL || attribute->kind != JSON_STRING) {
        struct json_value path = attribute != NULL ? *attribute : tpl_none();
        tpl_grow_add(run, &keys,
                     fold(run, tpl_follow(run, item, path, NULL), sensitive));
        return tpl_array(JSON_ARRAY, keys.items, keys.len);
    }
    rest = tpl_slice(*attribute);
    do {
        bool more = rest.len > 0 && memchr(rest.ptr, ',', rest.len) != NULL;
        struct json_value path = json_tree_text(slice_take(&rest, ','));
        tpl_grow_add(run, &keys,
                     fold(run, tpl_follow(run, item, path, NULL), sensitive));
        if (!more) {
            break;
        }
    } while (true);
    return tpl_array(JSON_ARRAY, keys.items, keys.len);
}

static struct json_value
items_of(struct tpl_run *run, const struct keyed *keyed, size_t n)
{
    struct json_value *items = tpl_take_values(run, n);

    for (size_t i = 0; i < n; i++) {
        items[i] = keyed[i].item;
    }
    return tpl_array(JSON_ARRAY, items, n);
}

/* sort(reverse=False, case_sensitive=False, attribute=None) */
TPL_FILTER(sort)
{
    struct json_value items = tpl_list(run, subject);
    struct keyed *keyed = tpl_take(run, (items.len + 1U) * sizeof *keyed);

    for (uint32_t i = 0; i < items.len; i++) {
        keyed[i].item = items.as.items[i];
        keyed[i].key =
            sort_key(run, keyed[i].item, params[2], tpl_flag(params[1]));
    }
    keyed = sorted(run, keyed, items.len, tpl_flag(params[0]));
    return items_of(run, keyed, items.len);
}

/* dictsort(case_sensitive=False, by="key", reverse=False) */
TPL_FILTER(dictsort)
{
    bool by_value = false;
    struct keyed *keyed = NULL;

    if (params[1] != NULL) {
        struct slice by = tpl_str(run, *params[1]);
        by_value = slice_equal(by, SLICE("value"));
        if (!by_value && !slice_equal(by, SLICE("key"))) {
            tpl_fail(run, "You can only sort by either \"key\" or \"value\"");
        }
    }
    if (subject.kind != JSON_OBJECT) {
        tpl_fail_type(run, "dictsort", subject);
    }
    keyed = tpl_take(run, (subject.len + 1U) * sizeof *keyed);
    for (uint32_t i = 0; i < subject.len; i++) {
        const struct json_member *member = &subject.as.members[i];
        keyed[i].item = tpl_pair(run, member->key, member->value);
        keyed[i].key = fold(run, by_value ? member->value : member->key,
                            tpl_flag(params[0]));
    }
    keyed = sorted(run, keyed, subject.len, tpl_flag(params[2]));
    return items_of(run, keyed, subject.len);
}

/* unique(case_sensitive=False, attribute=None) */
TPL_FILTER(unique)
{
    struct json_value path = params[1] != NULL ? *params[1] : tpl_none();
    struct tpl_dict seen = {.len = 0};
    struct tpl_grow kept = {.len = 0};
    struct tpl_walk walk;
    struct json_value item;

    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        uint32_t was = seen.len;
        tpl_dict_put(
            run, &seen,
            fold(run, tpl_follow(run, item, path, NULL), tpl_flag(params[0])),
            tpl_none());
        if (seen.len != was) {
            tpl_grow_add(run, &kept, item);
        }
    }
    return tpl_iter_over(run, &kept, NULL);
}

static struct json_value
extreme(struct tpl_run *run, struct json_value subject,
        const struct json_value *const *params, bool max)
{
    struct json_value path = params[1] != NULL ? *params[1] : tpl_none();
    struct keyed best = {.item = tpl_undefined(SLICE("min or max"))};
    struct tpl_walk walk;
    struct json_value item;
    bool first = true;

    tpl_walk_start(run, &walk, subject);
    while (tpl_walk_next(run, &walk, &item)) {
        struct json_value key =
            fold(run, tpl_follow(run, item, path, NULL), tpl_flag(params[0]));
        int order = first ? 0 : tpl_order(run, key, best.key);
        tpl_step(run, 1);
        if (first || (order != 2 && (max ? order > 0 : order < 0))) {
            best = (struct keyed){key, item};
        }
        first = false;
    }
    return best.item;
}

/* min(case_sensitive=False, attribute=None) */
TPL_FILTER(min)
{
    return extreme(run, subject, params, false);
}

TPL_FILTER(max)
{
    return extreme(run, subject, params, true);
}

/* groupby(attribute, default=None, case_sensitive=False) */
TPL_FILTER(groupby)
{
    struct json_value items = tpl_list(run, subject);
    struct keyed *keyed = tpl_take(run, (items.len + 1U) * sizeof *keyed);
    struct tpl_grow groups = {.len = 0};
    bool sensitive = tpl_flag(params[2]);

    for (uint32_t i = 0; i < items.len; i++) {
        keyed[i].item = items.as.items[i];
        keyed[i].key =
            fold(run, tpl_follow(run, keyed[i].item, *params[0], params[1]),
                 sensitive);
    }
    keyed = sorted(run, keyed, items.len, false);
    for (uint32_t i = 0; i < items.len;) {
        struct tpl_grow group = {.len = 0};
        uint32_t from = i;
        struct json_value pair;
        while (i < items.len && tpl_equal(run, keyed[i].key, keyed[from].key)) {
            tpl_grow_add(run, &group, keyed[i++].item);
        }
        pair = tpl_pair(
            run, tpl_follow(run, keyed[from].item, *params[0], params[1]),
            tpl_array(JSON_ARRAY, group.items, group.len));
        pair.mark = TPL_MARK_GROUP;
        tpl_grow_add(run, &groups, pair);
    }
    return tpl_array(JSON_ARRAY, groups.items, groups.len);
}
