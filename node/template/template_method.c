/* The table of methods, and those of lists and dictionaries. */
#include "node/template/template_method_internal.h"

typedef struct json_value method_call(struct tpl_run *run,
                                      struct json_value self,
                                      const struct json_value *const *params);

struct tpl_method {
    const char *name;
    uint8_t kind; /* of the values that have it */
    uint8_t needed;
    bool keywords; /* the parameters may be given by name */
    const char *params;
    method_call *call;
    struct json_value (*call_raw)(struct tpl_run *run, struct json_value self,
                                  const struct tpl_args *args);
};

static struct json_value
view_of(struct tpl_run *run, struct json_value self, enum tpl_view which)
{
    struct json_value *dict = tpl_take_values(run, 1);
    struct json_value view = tpl_thing(TPL_V_VIEW, dict);

    *dict = self;
    view.extra = (uint16_t)which;
    return view;
}

static struct json_value
dict_items(struct tpl_run *run, struct json_value self,
           const struct json_value *const *params)
{
    (void)params;
    return view_of(run, self, TPL_VIEW_ITEMS);
}

static struct json_value
dict_keys(struct tpl_run *run, struct json_value self,
          const struct json_value *const *params)
{
    (void)params;
    return view_of(run, self, TPL_VIEW_KEYS);
}

static struct json_value
dict_values(struct tpl_run *run, struct json_value self,
            const struct json_value *const *params)
{
    (void)params;
    return view_of(run, self, TPL_VIEW_VALUES);
}

static struct json_value
dict_get(struct tpl_run *run, struct json_value self,
         const struct json_value *const *params)
{
    const struct json_value *found = tpl_dict_get(run, self, *params[0]);

    return found != NULL ? *found : params[1] != NULL ? *params[1] : tpl_none();
}

static struct json_value
copy(struct tpl_run *run, struct json_value self,
     const struct json_value *const *params)
{
    (void)run;
    (void)params;
    return self; /* nothing can change it */
}

static struct json_value
list_index(struct tpl_run *run, struct json_value self,
           const struct json_value *const *params)
{
    int64_t from = params[1] != NULL ? tpl_index(run, *params[1]) : 0;
    int64_t to = params[2] != NULL ? tpl_index(run, *params[2]) : self.len;

    from = from < 0 ? from + self.len : from;
    to = to < 0 ? to + self.len : to;
    for (int64_t i = from < 0 ? 0 : from; i < to && i < self.len; i++) {
        tpl_step(run, 1);
        if (tpl_equal(run, self.as.items[i], *params[0])) {
            return tpl_int(i);
        }
    }
    tpl_fail(run, "value is not in list");
}

static struct json_value
list_count(struct tpl_run *run, struct json_value self,
           const struct json_value *const *params)
{
    int64_t count = 0;

    for (uint32_t i = 0; i < self.len; i++) {
        tpl_step(run, 1);
        count += tpl_equal(run, self.as.items[i], *params[0]);
    }
    return tpl_int(count);
}

static struct json_value
cycler_next(struct tpl_run *run, struct json_value self,
            const struct json_value *const *params)
{
    struct tpl_cycler *cycler = self.as.thing;
    struct json_value now = cycler->items[cycler->at];

    (void)run;
    (void)params;
    cycler->at = (cycler->at + 1) % cycler->len;
    return now;
}

static struct json_value
cycler_reset(struct tpl_run *run, struct json_value self,
             const struct json_value *const *params)
{
    struct tpl_cycler *cycler = self.as.thing;

    (void)run;
    (void)params;
    cycler->at = 0;
    return tpl_none();
}

static struct json_value
loop_cycle(struct tpl_run *run, struct json_value self,
           const struct tpl_args *args)
{
    return tpl_loop_cycle(run, self.as.thing, args);
}

static struct json_value
loop_changed(struct tpl_run *run, struct json_value self,
             const struct tpl_args *args)
{
    return tpl_loop_changed(run, self.as.thing, args);
}

/* str.format_map(mapping) */
static struct json_value
format_map(struct tpl_run *run, struct json_value self,
           const struct tpl_args *args)
{
    uint32_t stack = run->stack_len;
    struct tpl_args named = {.kw = run->stack + stack};
    struct json_value result;

    if (args->count != 1 || args->kw_count != 0 ||
        args->at[0].kind != JSON_OBJECT) {
        tpl_fail(run, "format_map() takes exactly one mapping");
    }
    for (uint32_t i = 0; i < args->at[0].len; i++) {
        if (args->at[0].as.members[i].key.kind == JSON_STRING) {
            tpl_push(run, args->at[0].as.members[i].key);
            tpl_push(run, args->at[0].as.members[i].value);
            named.kw_count++;
        }
    }
    result = tpl_format(run, self, &named);
    run->stack_len = stack;
    return result;
}

#define STR(name, params, needed)                                       \
    {                                                                   \
#name, JSON_STRING, needed, false, params, tpl_str_##name, NULL \
    }

/* Sorted by nothing but use: the first rows are found fastest. */
static const struct tpl_method methods[] = {
    {"get", JSON_OBJECT, 1, false, "key,default", dict_get, NULL},
    {"items", JSON_OBJECT, 0, false, "", dict_items, NULL},
    {"split", JSON_STRING, 0, true, "sep,maxsplit", tpl_str_split, NULL},
    STR(strip, "chars", 0),
    STR(lstrip, "chars", 0),
    STR(rstrip, "chars", 0),
    STR(startswith, "prefix,start,end", 1),
    STR(endswith, "suffix,start,end", 1),
    STR(replace, "old,new,count", 2),
    {"format", JSON_STRING, 0, true, NULL, NULL, tpl_format},
    STR(upper, "", 0),
    STR(lower, "", 0),
    STR(title, "", 0),
    STR(capitalize, "", 0),
    STR(join, "iterable", 1),
    STR(find, "sub,start,end", 1),
    STR(rfind, "sub,start,end", 1),
    STR(index, "sub,start,end", 1),
    STR(rindex, "sub,start,end", 1),
    STR(count, "sub,start,end", 1),
    {"rsplit", JSON_STRING, 0, true, "sep,maxsplit", tpl_str_rsplit, NULL},
    {"splitlines", JSON_STRING, 0, true, "keepends", tpl_str_splitlines, NULL},
    STR(partition, "sep", 1),
    STR(rpartition, "sep", 1),
    STR(removeprefix, "prefix", 1),
    STR(removesuffix, "suffix", 1),
    STR(swapcase, "", 0),
    STR(casefold, "", 0),
    STR(center, "width,fillchar", 1),
    STR(ljust, "width,fillchar", 1),
    STR(rjust, "width,fillchar", 1),
    STR(zfill, "width", 1),
    {"expandtabs", JSON_STRING, 0, true, "tabsize", tpl_str_expandtabs, NULL},
    STR(isspace, "", 0),
    STR(isascii, "", 0),
    STR(isdigit, "", 0),
    STR(isdecimal, "", 0),
    STR(isnumeric, "", 0),
    STR(isalpha, "", 0),
    STR(isalnum, "", 0),
    STR(islower, "", 0),
    STR(isupper, "", 0),
    STR(isidentifier, "", 0),
    STR(isprintable, "", 0),
    {"format_map", JSON_STRING, 0, false, NULL, NULL, format_map},
    {"keys", JSON_OBJECT, 0, false, "", dict_keys, NULL},
    {"values", JSON_OBJECT, 0, false, "", dict_values, NULL},
    {"copy", JSON_OBJECT, 0, false, "", copy, NULL},
    {"copy", JSON_ARRAY, 0, false, "", copy, NULL},
    {"index", JSON_ARRAY, 1, false, "value,start,stop", list_index, NULL},
    {"count", JSON_ARRAY, 1, false, "value", list_count, NULL},
    {"index", TPL_V_TUPLE, 1, false, "value,start,stop", list_index, NULL},
    {"count", TPL_V_TUPLE, 1, false, "value", list_count, NULL},
    {"next", TPL_V_CYCLER, 0, false, "", cycler_next, NULL},
    {"reset", TPL_V_CYCLER, 0, false, "", cycler_reset, NULL},
    {"cycle", TPL_V_LOOP, 0, false, NULL, NULL, loop_cycle},
    {"changed", TPL_V_LOOP, 0, false, NULL, NULL, loop_changed},
};

const struct tpl_method *
tpl_method_of(struct json_value self, struct slice name)
{
    for (size_t i = 0; i < sizeof methods / sizeof methods[0]; i++) {
        if (methods[i].kind == self.kind &&
            slice_equal(slice_of(methods[i].name), name)) {
            return &methods[i];
        }
    }
    return NULL;
}

struct json_value
tpl_method_call(struct tpl_run *run, const struct tpl_method *method,
                struct json_value self, const struct tpl_args *args)
{
    const struct json_value *params[TPL_PARAMS_MAX];

    if (method->call_raw != NULL) {
        return method->call_raw(run, self, args);
    }
    if (args->kw_count > 0 && !method->keywords) {
        tpl_fail(run, "%s() takes no keyword arguments", method->name);
    }
    tpl_params(run, method->name, method->params, method->needed, args, params);
    return method->call(run, self, params);
}
