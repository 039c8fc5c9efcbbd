/*
 * A template as a tree: what the parser builds, the binder completes and the
 * renderer walks.
 *
 * Names follow Python's rules as jinja2 compiles them: a function (the template,
 * a macro, a call block, the body of a recursive loop) has numbered slots; a
 * scope inside it (a loop, a with) has entries, each with a slot and with what
 * the slot holds when the scope is entered.
 */
#ifndef NODE_TEMPLATE_TREE_INTERNAL_H
#define NODE_TEMPLATE_TREE_INTERNAL_H

#include "index/base/arena.h"
#include "node/template/template.h"

enum tpl_kind {
    /* expressions */
    TPL_CONST,   /* value */
    TPL_NAME,    /* value: the name; up, slot */
    TPL_NSREF,   /* a target: up, slot of the namespace; value: the attribute */
    TPL_LIST,    /* a: items */
    TPL_TUPLE,   /* a: items; a target, too */
    TPL_DICT,    /* a: key, value, key, value... */
    TPL_ATTR,    /* a.value */
    TPL_ITEM,    /* a[b] */
    TPL_SLICE,   /* a:b:c, each may be NULL */
    TPL_CALL,    /* a(b), b: arguments */
    TPL_FILTER,  /* a|value(b); a NULL: of a block */
    TPL_TEST,    /* a is value(b) */
    TPL_NOT,     /* a */
    TPL_AND,     /* a and b */
    TPL_OR,      /* a or b */
    TPL_NEG,     /* -a */
    TPL_POS,     /* +a */
    TPL_BINARY,  /* a op b; op: enum tpl_op */
    TPL_CONCAT,  /* a: operands of ~ */
    TPL_COMPARE, /* a; b: operands, each with op */
    TPL_OPERAND, /* op a */
    TPL_COND,    /* b if a else c; c may be NULL */
    TPL_ARG,     /* op: enum tpl_arg; a; value: the keyword */
    /* statements */
    TPL_DATA,      /* value */
    TPL_OUTPUT,    /* a: expressions and data */
    TPL_SET,       /* a = b */
    TPL_SETBLOCK,  /* a: target; b: filter or NULL; c: body */
    TPL_FOR,       /* a: target; b: iterable; c: body; d: else; e: test */
    TPL_IF,        /* a: test; b: body; c: else, an elif being a lone TPL_IF */
    TPL_MACRO,     /* value: the name; up, slot; function */
    TPL_CALLBLOCK, /* a: the call; NULL: a generation block; function */
    TPL_FILTERBLOCK, /* a: filter; c: body */
    TPL_WITH,        /* a: targets; b: values; c: body */
    TPL_BREAK,
    TPL_CONTINUE,
};

enum tpl_op {
    TPL_ADD,
    TPL_SUB,
    TPL_MUL,
    TPL_DIV,
    TPL_FLOORDIV,
    TPL_MOD,
    TPL_POW,
    TPL_EQ,
    TPL_NE,
    TPL_LT,
    TPL_LE,
    TPL_GT,
    TPL_GE,
    TPL_IN,
    TPL_NOTIN,
};

enum tpl_arg {
    TPL_PLAIN,
    TPL_KEYWORD,
    TPL_STAR,
    TPL_STARS
};

struct tpl_filter;
struct tpl_test;
struct tpl_scope;
struct tpl_function;

struct tpl_node {
    uint8_t kind;
    uint8_t op;
    bool recursive; /* a loop */
    uint32_t line;
    uint32_t slot;
    uint32_t up;           /* functions outwards to the slot */
    struct tpl_node *next; /* in a list */
    struct json_value value;
    struct tpl_node *a;
    struct tpl_node *b;
    struct tpl_node *c;
    struct tpl_node *d;
    struct tpl_node *e;
    const struct tpl_filter *filter; /* NULL: no such filter */
    const struct tpl_test *test;     /* NULL: no such test */
    struct tpl_scope *scope;         /* of the body */
    struct tpl_scope *scope_else;    /* of a loop's else */
    struct tpl_scope *scope_test;    /* of a loop's test */
    struct tpl_function
        *function; /* of a macro, a call block, a recursive loop */
    struct tpl_node *test_target; /* a loop's target, for its test */
    uint32_t loop_slot;           /* of `loop` in the scope of a loop */
};

enum tpl_load {
    TPL_LOAD_PARAMETER, /* whoever enters the scope fills it */
    TPL_LOAD_RESOLVE,   /* from the context or the globals */
    TPL_LOAD_ALIAS,     /* from an outer scope's slot */
    TPL_LOAD_MISSING,   /* nothing yet */
};

struct tpl_entry {
    struct tpl_entry *next;
    struct slice name;
    uint8_t load; /* enum tpl_load */
    uint32_t slot;
    uint32_t from_up; /* TPL_LOAD_ALIAS */
    uint32_t from;    /* the slot; TPL_LOAD_RESOLVE: which of the free names */
};

struct tpl_scope {
    struct tpl_scope *parent;
    struct tpl_function *function;
    struct tpl_entry *entries;
    uint32_t level; /* scopes around it; entries with one name and level share a
                       slot */
};

struct tpl_param {
    struct slice name;
    uint32_t slot;
    struct tpl_node *preset; /* the default, or NULL */
};

struct tpl_slot {
    struct tpl_slot *next;
    struct slice name;
    uint32_t level;
    uint32_t at;
};

struct tpl_function {
    struct tpl_scope *scope;
    struct slice name;
    struct tpl_node *args; /* TPL_NAMEs, as parsed */
    struct tpl_node *presets;
    struct tpl_node *body;
    struct tpl_param *params;
    uint32_t params_count;
    uint32_t slots_count;
    struct tpl_slot *slots; /* while it is bound */
    bool has_caller;        /* the body uses them: */
    bool has_kwargs;
    bool has_varargs;
    bool explicit_caller; /* a parameter is called caller */
    uint32_t caller_slot;
    uint32_t kwargs_slot;
    uint32_t varargs_slot;
};

struct tpl_free_name {
    struct tpl_free_name *next;
    struct slice name;
    uint32_t at;
};

struct template
{
    struct arena arena;
    struct slice source;
    struct tpl_node *body;
    struct tpl_function *root;
    struct tpl_free_name *free_names; /* what the context is asked for */
    uint32_t free_count;
};

#endif
