/* Calls: arguments to parameters, globals, what can be called. */
#include "node/template/template_run_internal.h"
#include "node/template/template_time_internal.h"

/* The index of a name in "a,b,c", or -1. */
static int
place_of(const char *names, struct slice name)
{
    struct slice rest = slice_of(names);

    for (int at = 0; rest.len > 0; at++) {
        if (slice_equal(slice_take(&rest, ','), name)) {
            return at;
        }
    }
    return -1;
}

static uint32_t
count_names(const char *names)
{
    uint32_t n = names[0] != '\0';

    for (; *names != '\0'; names++) {
        n += *names == ',';
    }
    return n;
}

void
tpl_params(struct tpl_run *run, const char *what, const char *names,
           uint32_t needed, const struct tpl_args *args,
           const struct json_value **params)
{
    uint32_t known = count_names(names);

    CHECK(known <= TPL_PARAMS_MAX);
    memset(params, 0, TPL_PARAMS_MAX * sizeof *params);
    if (args->count > known) {
        tpl_fail(run, "%s: too many arguments", what);
    }
    for (uint32_t i = 0; i < args->count; i++) {
        params[i] = &args->at[i];
    }
    for (uint32_t i = 0; i < args->kw_count; i++) {
        struct slice name = tpl_slice(args->kw[(size_t)2 * i]);
        int at = place_of(names, name);
        if (at < 0 || params[at] != NULL) {
            tpl_fail(run, "%s: unexpected argument '%.*s'", what, (int)name.len,
                     name.ptr);
        }
        params[at] = &args->kw[(size_t)2 * i + 1];
    }
    for (uint32_t i = 0; i < needed; i++) {
        if (params[i] == NULL) {
            tpl_fail(run, "%s: too few arguments", what);
        }
    }
}

static struct json_value
call_range(struct tpl_run *run, const struct tpl_args *args)
{
    struct tpl_range *range = tpl_take(run, sizeof *range);
    struct json_value value = tpl_thing(TPL_V_RANGE, range);
    __int128 span = 0;

    if (args->kw_count > 0 || args->count < 1 || args->count > 3) {
        tpl_fail(run, "range expected 1 to 3 arguments");
    }
    *range = (struct tpl_range){.step = 1};
    range->end = tpl_index(run, args->at[args->count > 1]);
    if (args->count > 1) {
        range->start = tpl_index(run, args->at[0]);
    }
    if (args->count > 2) {
        range->step = tpl_index(run, args->at[2]);
    }
    if (range->step == 0) {
        tpl_fail(run, "range() arg 3 must not be zero");
    }
    span = (__int128)range->end - range->start;
    span = (span + range->step + (range->step > 0 ? -1 : 1)) / range->step;
    if (span > TPL_RANGE_MAX) {
        tpl_fail(run, "Range too big. The sandbox blocks ranges larger than %d",
                 TPL_RANGE_MAX);
    }
    value.len = span > 0 ? (uint32_t)span : 0;
    return value;
}

static struct json_value
call_namespace(struct tpl_run *run, const struct tpl_args *args)
{
    struct tpl_namespace *ns = tpl_take(run, sizeof *ns);
    struct json_value dict = tpl_dict_make(run, args);

    *ns = (struct tpl_namespace){.len = dict.len, .size = dict.len};
    ns->members = tpl_take(run, ((size_t)dict.len + 1) * sizeof *ns->members);
    for (uint32_t i = 0; i < dict.len; i++) {
        struct json_value key = dict.as.members[i].key;
        if (key.kind == JSON_STRING && key.len > 0 && key.as.text[0] == '_') {
            tpl_fail(run, "cannot store '%.*s' on a namespace", (int)key.len,
                     key.as.text);
        }
        ns->members[i] = dict.as.members[i];
    }
    return tpl_thing(TPL_V_NAMESPACE, ns);
}

static struct json_value
call_cycler(struct tpl_run *run, const struct tpl_args *args)
{
    struct tpl_cycler *cycler = tpl_take(run, sizeof *cycler);
    struct json_value *items = tpl_take_values(run, args->count);

    if (args->count == 0 || args->kw_count > 0) {
        tpl_fail(run, "at least one item has to be provided");
    }
    memcpy(items, args->at, args->count * sizeof *items);
    *cycler = (struct tpl_cycler){.items = items, .len = args->count};
    return tpl_thing(TPL_V_CYCLER, cycler);
}

static struct json_value
call_joiner(struct tpl_run *run, const struct tpl_args *args)
{
    const struct json_value *params[TPL_PARAMS_MAX];
    struct tpl_joiner *joiner = tpl_take(run, sizeof *joiner);

    tpl_params(run, "joiner()", "sep", 0, args, params);
    *joiner = (struct tpl_joiner){
        .separator =
            params[0] != NULL ? *params[0] : json_tree_text(SLICE(", "))};
    return tpl_thing(TPL_V_JOINER, joiner);
}

static struct json_value
call_raise(struct tpl_run *run, const struct tpl_args *args)
{
    const struct json_value *params[TPL_PARAMS_MAX];
    struct slice text;

    tpl_params(run, "raise_exception()", "message", 1, args, params);
    text = tpl_str(run, *params[0]);
    tpl_fail(run, "%.*s", (int)(text.len > 4096 ? 4096 : text.len), text.ptr);
}

static struct json_value
call_strftime(struct tpl_run *run, const struct tpl_args *args)
{
    const struct json_value *params[TPL_PARAMS_MAX];
    size_t from = run->out->len;
    const char *fault = NULL;

    tpl_params(run, "strftime_now()", "format", 1, args, params);
    if (params[0]->kind != JSON_STRING) {
        tpl_fail_type(run, "strftime_now()", *params[0]);
    }
    fault = tpl_time_put(run->out, tpl_slice(*params[0]), run->clock);
    if (fault != NULL) {
        tpl_fail(run, "strftime_now(): %s", fault);
    }
    return tpl_text(run, tpl_caught(run, from));
}

static struct json_value
call_lipsum(struct tpl_run *run, const struct tpl_args *args)
{
    (void)args;
    tpl_fail(run, "lipsum() is random, so it is not supported");
}

static const struct tpl_global globals[] = {
    {"namespace", call_namespace},   {"raise_exception", call_raise},
    {"range", call_range},           {"dict", tpl_dict_make},
    {"strftime_now", call_strftime}, {"cycler", call_cycler},
    {"joiner", call_joiner},         {"lipsum", call_lipsum},
};

const struct tpl_global *
tpl_global_named(struct slice name)
{
    for (size_t i = 0; i < sizeof globals / sizeof globals[0]; i++) {
        if (slice_equal(slice_of(globals[i].name), name)) {
            return &globals[i];
        }
    }
    return NULL;
}

static struct json_value
call_macro(struct tpl_run *run, const struct tpl_macro *macro,
           const struct tpl_args *args)
{
    size_t from = run->out->len;

    tpl_macro_run(run, macro, args);
    return tpl_text(run, tpl_caught(run, from));
}

struct json_value
tpl_call(struct tpl_run *run, struct json_value callee,
         const struct tpl_args *args)
{
    const struct tpl_global *global = (const void *)callee.as.text;
    const struct tpl_bound *bound = callee.as.thing;
    struct tpl_joiner *joiner = callee.as.thing;
    bool first = false;

    switch ((int)callee.kind) {
    case TPL_V_MACRO:
        return call_macro(run, callee.as.thing, args);
    case TPL_V_GLOBAL:
        return global->call(run, args);
    case TPL_V_METHOD:
        return tpl_method_call(run, bound->method, bound->self, args);
    case TPL_V_LOOP:
        return tpl_loop_call(run, callee.as.thing, args);
    case TPL_V_JOINER:
        if (args->count + args->kw_count > 0) {
            tpl_fail(run, "a joiner takes no arguments");
        }
        first = !joiner->used;
        joiner->used = true;
        return first ? json_tree_text(SLICE("")) : joiner->separator;
    default:
        tpl_fail_type(run, "not callable", callee);
    }
}

struct json_value
tpl_filter_call(struct tpl_run *run, const struct tpl_filter *filter,
                struct json_value subject, const struct tpl_args *args)
{
    const struct json_value *params[TPL_PARAMS_MAX];

    if (filter->call_raw != NULL) {
        return filter->call_raw(run, subject, args);
    }
    tpl_params(run, filter->name, filter->params, filter->needed, args, params);
    return filter->call(run, subject, params);
}

bool
tpl_test_call(struct tpl_run *run, const struct tpl_test *test,
              struct json_value subject, const struct tpl_args *args)
{
    if (args->count != test->arguments || args->kw_count > 0) {
        tpl_fail(run, "test %s: wrong number of arguments", test->name);
    }
    return test->call(run, subject, args->count > 0 ? &args->at[0] : NULL);
}
