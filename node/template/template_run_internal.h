/*
 * One rendering: its values, its bounds, and the parts that compute with them.
 *
 * A fault leaves the whole rendering by longjmp() from tpl_fail(): every
 * operation of Python may raise, nothing here owns more than the arena's memory,
 * and a test after each call would double the code.
 */
#ifndef NODE_TEMPLATE_RUN_INTERNAL_H
#define NODE_TEMPLATE_RUN_INTERNAL_H

#include <setjmp.h>

#include "node/template/template_names_internal.h"
#include "node/template/template_text_internal.h"
#include "node/template/template_tree_internal.h"

#define TPL_STACK_LEN 4096
#define TPL_RANGE_MAX 100000 /* as in jinja2's sandbox */

/* What a value can be beyond JSON. */
enum tpl_value_kind {
    TPL_V_TUPLE = JSON_KINDS, /* items */
    TPL_V_UNDEFINED,          /* text: the name */
    TPL_V_MISSING,   /* a slot without a value; never seen by a template */
    TPL_V_NAMESPACE, /* thing: struct tpl_namespace */
    TPL_V_MACRO,     /* thing: struct tpl_macro */
    TPL_V_LOOP,      /* thing: struct tpl_loop */
    TPL_V_ITER,      /* thing: struct tpl_iter: a generator */
    TPL_V_RANGE,     /* thing: struct tpl_range; len */
    TPL_V_VIEW,      /* of a dictionary: thing: the JSON_OBJECT; extra: which */
    TPL_V_METHOD,    /* thing: struct tpl_bound */
    TPL_V_GLOBAL,    /* thing: const struct tpl_global */
    TPL_V_CYCLER,    /* thing: struct tpl_cycler */
    TPL_V_JOINER,    /* thing: struct tpl_joiner */
};

enum {
    TPL_MARK_SAFE = 2,  /* a string: Markup */
    TPL_MARK_GROUP = 4, /* a tuple: (grouper, list) of groupby */
};

enum tpl_view {
    TPL_VIEW_KEYS,
    TPL_VIEW_VALUES,
    TPL_VIEW_ITEMS
};

struct tpl_frame {
    struct tpl_frame *up; /* of the function around */
    struct json_value slots[];
};

struct tpl_run {
    const struct template *tpl;
    const struct template_limits *limits;
    const struct template_clock *clock;
    struct arena arena;
    struct buf *out;
    size_t out_max;
    struct json_value *free; /* what the free names mean */
    struct json_value *stack;
    uint32_t stack_len;
    uint32_t depth;
    uint32_t line;
    uint64_t steps;
    jmp_buf *leave;
    struct template_error *error;
    char *grow_at;    /* the end of the text that was joined last, and */
    size_t grow_room; /* bytes behind that */
};

struct tpl_namespace {
    struct json_member *members;
    uint32_t len;
    uint32_t size;
};

struct tpl_macro {
    const struct tpl_function *function;
    struct tpl_frame *frame; /* where it was defined */
};

struct tpl_range {
    int64_t start;
    int64_t end; /* as it was given */
    int64_t step;
};

/* Goes through the items of a value. */
struct tpl_walk {
    struct json_value of;
    uint32_t at; /* item, or offset in a text */
};

/* A generator: its items are known, but are handed out once. */
struct tpl_iter {
    const struct json_value *items;
    uint32_t len;
    uint32_t at;
    const struct template_error *error; /* raised behind the items, or NULL */
};

struct tpl_args {
    const struct json_value *at;
    uint32_t count;
    const struct json_value *kw; /* name, value, name, value... */
    uint32_t kw_count;
};

struct tpl_method; /* a row of the table of methods */

struct tpl_bound {
    struct json_value self;
    const struct tpl_method *method;
};

struct tpl_global {
    const char *name;
    struct json_value (*call)(struct tpl_run *run, const struct tpl_args *args);
};

struct tpl_cycler {
    const struct json_value *items;
    uint32_t len;
    uint32_t at;
};

struct tpl_joiner {
    struct json_value separator;
    bool used;
};

/* Parameters of a filter after its subject, in order; NULL: not given. */
#define TPL_PARAMS_MAX 6

struct tpl_filter {
    const char *name;
    struct json_value (*call)(struct tpl_run *run, struct json_value subject,
                              const struct json_value *const *params);
    const char *params; /* "a,b,c"; the first `needed` must be given */
    uint32_t needed;
    /* Takes the arguments as they come instead (map, select, format). */
    struct json_value (*call_raw)(struct tpl_run *run,
                                  struct json_value subject,
                                  const struct tpl_args *args);
};

struct tpl_test {
    const char *name;
    bool (*call)(struct tpl_run *run, struct json_value subject,
                 const struct json_value *argument);
    uint32_t arguments; /* exactly so many, 0 or 1 */
};

/* --- template_run.c: bounds, memory, faults */

NORETURN __attribute__((format(printf, 2, 3))) void
tpl_fail(struct tpl_run *run, const char *format, ...);
/* Raises a fault that was caught before. */
NORETURN void tpl_fail_again(struct tpl_run *run,
                             const struct template_error *error);
/* Fails because of an operation on undefined, or of a type it is not for. */
NORETURN void tpl_fail_type(struct tpl_run *run, const char *what,
                            struct json_value value);
void *tpl_take(struct tpl_run *run, size_t n);
struct json_value *tpl_take_values(struct tpl_run *run, size_t n);
void tpl_step(struct tpl_run *run, uint64_t steps);
void tpl_enter(struct tpl_run *run);
void tpl_leave(struct tpl_run *run);
void tpl_push(struct tpl_run *run, struct json_value value);
/* Fails once the output is larger than it may be. */
void tpl_check_out(struct tpl_run *run);

/* --- values */

static inline struct json_value
tpl_none(void)
{
    return (struct json_value){.kind = JSON_NULL};
}

static inline struct json_value
tpl_bool(bool is)
{
    return (struct json_value){.kind = JSON_BOOL, .as.integer = is};
}

static inline struct json_value
tpl_int(int64_t integer)
{
    return (struct json_value){.kind = JSON_INT, .as.integer = integer};
}

static inline struct json_value
tpl_real(double real)
{
    return (struct json_value){.kind = JSON_REAL, .as.real = real};
}

static inline struct json_value
tpl_undefined(struct slice name)
{
    struct json_value value = json_tree_text(name);

    value.kind = TPL_V_UNDEFINED;
    return value;
}

static inline struct slice
tpl_slice(struct json_value value)
{
    return (struct slice){value.as.text, value.len};
}

static inline bool
tpl_is_sequence(struct json_value value) /* a list or tuple */
{
    return value.kind == JSON_ARRAY || value.kind == TPL_V_TUPLE;
}

struct json_value tpl_array(uint8_t kind, const struct json_value *items,
                            size_t len);
struct json_value tpl_thing(enum tpl_value_kind kind, void *thing);
/* A text; fails when it is too long for a value. */
struct json_value tpl_text(struct tpl_run *run, struct slice text);

/* --- template_value.c: Python's rules for values */

bool tpl_truth(struct json_value value);
bool tpl_equal(struct tpl_run *run, struct json_value a, struct json_value b);
bool tpl_same(struct json_value a, struct json_value b); /* `is` */
/* Below, equal, above 0; fails on what Python cannot order. NaN: 2. */
int tpl_order(struct tpl_run *run, struct json_value a, struct json_value b);
bool tpl_contains(struct tpl_run *run, struct json_value container,
                  struct json_value item);
/* len(); false: it has none. */
bool tpl_length(struct json_value value, int64_t *len);
bool tpl_is_number(struct json_value value); /* bool, int, big, real */
/* Python's int(): of bool and int; fails on others. */
int64_t tpl_index(struct tpl_run *run, struct json_value value);
double tpl_as_real(struct tpl_run *run, struct json_value value);
const char *tpl_type_name(struct json_value value);
bool tpl_hashable(struct json_value value);

/* Starts to go through a value's items; fails when it has none to go through. */
void tpl_walk_start(struct tpl_run *run, struct tpl_walk *walk,
                    struct json_value value);
bool tpl_can_walk(struct json_value value);
bool tpl_walk_next(struct tpl_run *run, struct tpl_walk *walk,
                   struct json_value *item);
/* All items, as a JSON_ARRAY. */
struct json_value tpl_list(struct tpl_run *run, struct json_value value);

/* --- template_dict.c */

/* The value of any key, or NULL. */
const struct json_value *tpl_dict_get(struct tpl_run *run,
                                      struct json_value dict,
                                      struct json_value key);
/* A dictionary under construction. */
struct tpl_dict {
    struct json_member *members;
    uint32_t len;
    uint32_t size;
};
void tpl_dict_put(struct tpl_run *run, struct tpl_dict *dict,
                  struct json_value key, struct json_value value);
struct json_value tpl_dict_value(const struct tpl_dict *dict);
/* dict(value, **kw) */
struct json_value tpl_dict_make(struct tpl_run *run,
                                const struct tpl_args *args);
struct json_value tpl_pair(struct tpl_run *run, struct json_value a,
                           struct json_value b);

/* --- template_print.c: str() and repr() */

void tpl_put_str(struct tpl_run *run, struct buf *out, struct json_value value);
void tpl_put_repr(struct tpl_run *run, struct buf *out,
                  struct json_value value);
/* str(), without the mark of Markup. */
struct slice tpl_str(struct tpl_run *run, struct json_value value);
/* jinja2's soft_str(): a string stays as it is. */
struct json_value tpl_soft_str(struct tpl_run *run, struct json_value value);
/* What was appended to the output since `from`, as a text; it is taken off. */
struct slice tpl_caught(struct tpl_run *run, size_t from);
/* Concatenates two texts. */
struct slice tpl_join2(struct tpl_run *run, struct slice a, struct slice b);
/* markupsafe.escape(): a text marked as safe. */
struct json_value tpl_escape(struct tpl_run *run, struct json_value value);

/* --- template_json.c */

struct json_value tpl_filter_tojson(struct tpl_run *run,
                                    struct json_value subject,
                                    const struct json_value *const *params);

/* --- template_math.c */

struct json_value tpl_binary(struct tpl_run *run, enum tpl_op op,
                             struct json_value a, struct json_value b);
struct json_value tpl_negate(struct tpl_run *run, struct json_value a,
                             bool minus);
struct json_value tpl_to_int(struct tpl_run *run, struct json_value real);

/* --- template_format.c: "%" and str.format() */

struct json_value tpl_percent(struct tpl_run *run, struct json_value format,
                              struct json_value values);
struct json_value tpl_format(struct tpl_run *run, struct json_value format,
                             const struct tpl_args *args);

/* --- template_attr.c: a.b and a[b] */

struct json_value tpl_getattr(struct tpl_run *run, struct json_value of,
                              struct slice name);
struct json_value tpl_getitem(struct tpl_run *run, struct json_value of,
                              struct json_value key);
struct json_value tpl_slice_of(struct tpl_run *run, struct json_value of,
                               const struct json_value *const bounds[3]);
/* Follows "a.b.0" as the filters with attribute= do; preset may be NULL. */
struct json_value tpl_follow(struct tpl_run *run, struct json_value of,
                             struct json_value path,
                             const struct json_value *preset);

/* --- template_method.c */

/* The method of this name of such a value, or NULL. */
const struct tpl_method *tpl_method_of(struct json_value self,
                                       struct slice name);
struct json_value tpl_method_call(struct tpl_run *run,
                                  const struct tpl_method *method,
                                  struct json_value self,
                                  const struct tpl_args *args);

/* --- template_case.c */

enum tpl_case {
    TPL_UPPER,
    TPL_LOWER,
    TPL_TITLE,
    TPL_CAPITALIZE,
    TPL_SWAPCASE,
    TPL_CASEFOLD,
};
struct json_value tpl_case(struct tpl_run *run, struct json_value value,
                           enum tpl_case how);

/* --- template_call.c */

/* Puts arguments in the order of their names ("a,b,c"); fails when there are
 * too many, too few, or unknown ones. params has TPL_PARAMS_MAX places. */
void tpl_params(struct tpl_run *run, const char *what, const char *names,
                uint32_t needed, const struct tpl_args *args,
                const struct json_value **params);
struct json_value tpl_call(struct tpl_run *run, struct json_value callee,
                           const struct tpl_args *args);
struct json_value tpl_filter_call(struct tpl_run *run,
                                  const struct tpl_filter *filter,
                                  struct json_value subject,
                                  const struct tpl_args *args);
bool tpl_test_call(struct tpl_run *run, const struct tpl_test *test,
                   struct json_value subject, const struct tpl_args *args);
const struct tpl_global *tpl_global_named(struct slice name);

/* --- template_eval.c */

struct json_value tpl_eval(struct tpl_run *run, struct tpl_frame *frame,
                           const struct tpl_node *node);
/* Evaluates a call; `extra` is a caller to hand over, or NULL. *printed: its
 * output is already where it belongs (only when `print`). */
struct json_value tpl_eval_call(struct tpl_run *run, struct tpl_frame *frame,
                                const struct tpl_node *node,
                                const struct json_value *extra, bool print,
                                bool *printed);
struct json_value tpl_eval_filter(struct tpl_run *run, struct tpl_frame *frame,
                                  const struct tpl_node *node,
                                  struct json_value subject);
void tpl_assign(struct tpl_run *run, struct tpl_frame *frame,
                const struct tpl_node *target, struct json_value value);

/* --- template_exec.c */

/* Calls a macro; its output stays in run->out. */
void tpl_macro_run(struct tpl_run *run, const struct tpl_macro *macro,
                   const struct tpl_args *args);
struct tpl_frame *tpl_frame_new(struct tpl_run *run,
                                const struct tpl_function *function,
                                struct tpl_frame *up);
void tpl_scope_enter(struct tpl_run *run, struct tpl_frame *frame,
                     const struct tpl_scope *scope);
void tpl_exec_body(struct tpl_run *run, struct tpl_frame *frame,
                   const struct tpl_node *body);

/* --- template_loop.c */

enum tpl_flow {
    TPL_FLOW_ON,
    TPL_FLOW_BREAK,
    TPL_FLOW_CONTINUE
};
struct tpl_loop;

void tpl_loop_run(struct tpl_run *run, struct tpl_frame *frame,
                  const struct tpl_node *node);
struct json_value tpl_loop_attr(struct tpl_run *run, struct tpl_loop *loop,
                                struct slice name, bool *known);
/* loop(items): the body again. */
struct json_value tpl_loop_call(struct tpl_run *run, struct tpl_loop *loop,
                                const struct tpl_args *args);
void tpl_loop_repr(struct tpl_run *run, struct tpl_loop *loop, struct buf *out);
int64_t tpl_loop_length(struct tpl_run *run, struct tpl_loop *loop);
/* loop.cycle(), loop.changed() */
struct json_value tpl_loop_cycle(struct tpl_run *run, struct tpl_loop *loop,
                                 const struct tpl_args *args);
struct json_value tpl_loop_changed(struct tpl_run *run, struct tpl_loop *loop,
                                   const struct tpl_args *args);
enum tpl_flow tpl_exec(struct tpl_run *run, struct tpl_frame *frame,
                       const struct tpl_node *first);

#endif
