/*
 * Names to slots, as jinja2's idtracking does it.
 *
 * A scope is first looked through as a whole (without what has a scope of its
 * own inside it): each name that it loads or stores gets an entry, unless an
 * outer scope has one and it is only loaded. What the slot holds at the scope's
 * start follows from that: a loaded name comes from the context, a stored one
 * from the outer scope, or from nowhere. A store inside an if may not happen, so
 * the name is taken from the context there, too.
 */
#include "node/template/template_names_internal.h"
#include "node/template/template_parse_internal.h"

struct binder {
    struct tpl_parser *parser;
    uint32_t branches; /* ifs around the place that is looked at */
    uint32_t loops;    /* loops around it */
    bool soft;         /* it may never be reached: in an if */
};

static void bind_expression(struct binder *binder, struct tpl_scope *scope,
                            struct tpl_node *node);
static void bind_list(struct binder *binder, struct tpl_scope *scope,
                      struct tpl_node *first);
static void bind_body(struct binder *binder, struct tpl_scope *scope,
                      struct tpl_node *first);
static void look_body(struct binder *binder, struct tpl_scope *scope,
                      const struct tpl_node *first);

static struct tpl_scope *
new_scope(struct binder *binder, struct tpl_scope *parent,
          struct tpl_function *function, uint32_t level)
{
    struct tpl_scope *scope = tpl_parse_take(binder->parser, sizeof *scope);

    *scope = (struct tpl_scope){
        .parent = parent, .function = function, .level = level};
    return scope;
}

/* The slot of a name at a level of a function. */
static uint32_t
slot_of(struct binder *binder, struct tpl_function *function, struct slice name,
        uint32_t level)
{
    struct tpl_slot *slot = function->slots;

    while (slot != NULL &&
           !(slot->level == level && slice_equal(slot->name, name))) {
        slot = slot->next;
    }
    if (slot == NULL) {
        slot = tpl_parse_take(binder->parser, sizeof *slot);
        *slot = (struct tpl_slot){.next = function->slots,
                                  .name = name,
                                  .level = level,
                                  .at = function->slots_count++};
        function->slots = slot;
    }
    return slot->at;
}

static struct tpl_entry *
own_entry(const struct tpl_scope *scope, struct slice name)
{
    struct tpl_entry *entry = scope->entries;

    while (entry != NULL && !slice_equal(entry->name, name)) {
        entry = entry->next;
    }
    return entry;
}

/* The entry of a name in this scope or the nearest around it; *up functions
 * outwards. */
static struct tpl_entry *
find_entry(const struct tpl_scope *scope, struct slice name, uint32_t *up)
{
    *up = 0;
    for (; scope != NULL; scope = scope->parent) {
        struct tpl_entry *entry = own_entry(scope, name);
        if (entry != NULL) {
            return entry;
        }
        *up +=
            scope->parent != NULL && scope->parent->function != scope->function;
    }
    return NULL;
}

static struct tpl_entry *
define(struct binder *binder, struct tpl_scope *scope, struct slice name,
       enum tpl_load load)
{
    struct tpl_entry *entry = own_entry(scope, name);

    if (entry == NULL) {
        entry = tpl_parse_take(binder->parser, sizeof *entry);
        *entry = (struct tpl_entry){
            .next = scope->entries,
            .name = name,
            .slot = slot_of(binder, scope->function, name, scope->level)};
        scope->entries = entry;
    }
    entry->load = (uint8_t)load;
    return entry;
}

/* The number of a name that the context is asked for. */
static uint32_t
free_name(struct binder *binder, struct slice name)
{
    struct template *tpl = binder->parser->tpl;
    struct tpl_free_name *free = tpl->free_names;

    while (free != NULL && !slice_equal(free->name, name)) {
        free = free->next;
    }
    if (free == NULL) {
        free = tpl_parse_take(binder->parser, sizeof *free);
        *free = (struct tpl_free_name){
            .next = tpl->free_names, .name = name, .at = tpl->free_count++};
        tpl->free_names = free;
    }
    return free->at;
}

static void
look_load(struct binder *binder, struct tpl_scope *scope, struct slice name)
{
    uint32_t up = 0;

    if (find_entry(scope, name, &up) == NULL) {
        define(binder, scope, name, TPL_LOAD_RESOLVE)->from =
            free_name(binder, name);
    }
}

static void
look_store(struct binder *binder, struct tpl_scope *scope, struct slice name)
{
    struct tpl_entry *outer = NULL;
    struct tpl_entry *entry = NULL;
    uint32_t up = 0;

    if (own_entry(scope, name) != NULL) {
        return;
    }
    if (scope->parent != NULL) {
        outer = find_entry(scope->parent, name, &up);
    }
    if (outer != NULL) {
        up += scope->parent->function != scope->function;
        entry = define(binder, scope, name, TPL_LOAD_ALIAS);
        entry->from = outer->slot;
        entry->from_up = up;
    } else if (binder->branches > 0) {
        define(binder, scope, name, TPL_LOAD_RESOLVE)->from =
            free_name(binder, name);
    } else {
        define(binder, scope, name, TPL_LOAD_MISSING);
    }
}

/* The names of an expression, all of them loaded. */
static void
look_expression(struct binder *binder, struct tpl_scope *scope,
                const struct tpl_node *node)
{
    if (node == NULL) {
        return;
    }
    if (node->kind == TPL_NAME) {
        look_load(binder, scope, json_tree_slice(&node->value));
        return;
    }
    /* Lists hang on a (items, operands) and b (arguments, operands). */
    for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
        look_expression(binder, scope, i);
    }
    for (const struct tpl_node *i = node->b; i != NULL; i = i->next) {
        look_expression(binder, scope, i);
    }
    look_expression(binder, scope, node->c);
}

static void
look_target(struct binder *binder, struct tpl_scope *scope,
            const struct tpl_node *node, bool parameter)
{
    struct slice name = json_tree_slice(&node->value);

    if (node->kind == TPL_TUPLE) {
        for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
            look_target(binder, scope, i, parameter);
        }
        return;
    }
    if (node->kind == TPL_NSREF) {
        look_expression(binder, scope, node->a);
        return;
    }
    if (parameter) {
        define(binder, scope, name, TPL_LOAD_PARAMETER);
    } else {
        look_store(binder, scope, name);
    }
}

static void
look_statement(struct binder *binder, struct tpl_scope *scope,
               const struct tpl_node *node)
{
    switch ((int)node->kind) {
    case TPL_OUTPUT:
        look_expression(binder, scope, node);
        break;
    case TPL_SET:
        look_expression(binder, scope, node->b);
        look_target(binder, scope, node->a, false);
        break;
    case TPL_SETBLOCK:
        look_target(binder, scope, node->a, false);
        break;
    case TPL_FOR:
        look_expression(binder, scope, node->b);
        break;
    case TPL_IF:
        look_expression(binder, scope, node->a);
        binder->branches++;
        look_body(binder, scope, node->b);
        look_body(binder, scope, node->c);
        binder->branches--;
        break;
    case TPL_MACRO:
        look_store(binder, scope, json_tree_slice(&node->value));
        break;
    case TPL_CALLBLOCK:
    case TPL_FILTERBLOCK:
        look_expression(binder, scope, node->a);
        break;
    case TPL_WITH:
        for (const struct tpl_node *i = node->b; i != NULL; i = i->next) {
            look_expression(binder, scope, i);
        }
        break;
    default: /* a jump; the rest are expressions */
        break;
    }
}

static void
look_body(struct binder *binder, struct tpl_scope *scope,
          const struct tpl_node *first)
{
    for (; first != NULL; first = first->next) {
        look_statement(binder, scope, first);
    }
}

/* Looks through a scope that is no branch of anything. */
static void
look_scope(struct binder *binder, struct tpl_scope *scope,
           const struct tpl_node *body)
{
    uint32_t branches = binder->branches;

    binder->branches = 0;
    look_body(binder, scope, body);
    binder->branches = branches;
}

static void
bind_name(struct binder *binder, struct tpl_scope *scope, struct tpl_node *node)
{
    struct tpl_entry *entry =
        find_entry(scope, json_tree_slice(&node->value), &node->up);

    if (entry == NULL) { /* only in the filter of a block set */
        tpl_parse_fail(binder->parser, node->line, "cannot bind '%.*s' here",
                       (int)node->value.len, node->value.as.text);
    }
    node->slot = entry->slot;
}

static void
check_known(struct binder *binder, struct tpl_node *node)
{
    bool filter = node->kind == TPL_FILTER;

    if ((filter ? node->filter == NULL : node->test == NULL) && !binder->soft) {
        tpl_parse_fail(binder->parser, node->line, "No %s named '%.*s'.",
                       filter ? "filter" : "test", (int)node->value.len,
                       node->value.as.text);
    }
}

static void
bind_list(struct binder *binder, struct tpl_scope *scope,
          struct tpl_node *first)
{
    for (; first != NULL; first = first->next) {
        bind_expression(binder, scope, first);
    }
}

static void
bind_expression(struct binder *binder, struct tpl_scope *scope,
                struct tpl_node *node)
{
    bool soft = binder->soft;

    if (node == NULL) {
        return;
    }
    if (node->kind == TPL_NAME) {
        bind_name(binder, scope, node);
        return;
    }
    if (node->kind == TPL_FILTER || node->kind == TPL_TEST) {
        check_known(binder, node);
    }
    binder->soft |= node->kind == TPL_COND;
    bind_list(binder, scope, node->a);
    bind_list(binder, scope, node->b);
    bind_expression(binder, scope, node->c);
    binder->soft = soft;
}

static void
bind_target(struct binder *binder, struct tpl_scope *scope,
            struct tpl_node *node)
{
    if (node->kind == TPL_TUPLE) {
        for (struct tpl_node *i = node->a; i != NULL; i = i->next) {
            bind_target(binder, scope, i);
        }
        return;
    }
    if (node->kind == TPL_NSREF) {
        bind_name(binder, scope, node->a);
        return;
    }
    if (binder->loops > 0 &&
        slice_equal(json_tree_slice(&node->value), SLICE("loop"))) {
        tpl_parse_fail(binder->parser, node->line,
                       "Can't assign to special loop variable");
    }
    bind_name(binder, scope, node);
}

/* A scope of its own in the same function, around a body. */
static struct tpl_scope *
inner_scope(struct binder *binder, struct tpl_scope *scope)
{
    return new_scope(binder, scope, scope->function, scope->level + 1);
}

/* Binds what has a scope of its own: nothing in it is softer for what is
 * around it. */
static void
bind_inner(struct binder *binder, struct tpl_scope *scope,
           struct tpl_node *body)
{
    bool soft = binder->soft;

    binder->soft = false;
    bind_body(binder, scope, body);
    binder->soft = soft;
}

/* A copy of a loop's target: the test has variables of its own. */
static struct tpl_node *
copy_target(struct binder *binder, const struct tpl_node *target)
{
    struct tpl_node *copy = tpl_parse_take(binder->parser, sizeof *copy);
    struct tpl_node **tail = &copy->a;

    *copy = *target;
    copy->next = NULL;
    if (target->kind == TPL_TUPLE) {
        for (const struct tpl_node *i = target->a; i != NULL; i = i->next) {
            *tail = copy_target(binder, i);
            tail = &(*tail)->next;
        }
    }
    return copy;
}

static void
bind_for(struct binder *binder, struct tpl_scope *scope, struct tpl_node *node)
{
    struct tpl_function *function = scope->function;
    bool soft = binder->soft;

    bind_expression(binder, scope, node->b);
    if (node->recursive) {
        function = node->function;
    }
    binder->loops++;
    node->scope = new_scope(binder, scope, function, scope->level + 1);
    node->loop_slot =
        define(binder, node->scope, SLICE("loop"), TPL_LOAD_PARAMETER)->slot;
    look_target(binder, node->scope, node->a, true);
    look_scope(binder, node->scope, node->c);
    if (node->recursive) {
        function->scope = node->scope;
    }
    binder->soft = false;
    if (node->e != NULL) {
        /* The test's own variables: another level, so other slots. */
        node->scope_test =
            new_scope(binder, scope, function, scope->level + 1000000);
        look_target(binder, node->scope_test, node->a, true);
        look_expression(binder, node->scope_test, node->e);
        node->test_target = copy_target(binder, node->a);
        bind_target(binder, node->scope_test, node->test_target);
        bind_expression(binder, node->scope_test, node->e);
    }
    bind_target(binder, node->scope, node->a);
    bind_body(binder, node->scope, node->c);
    binder->loops--;
    if (node->d != NULL) {
        node->scope_else = new_scope(binder, scope, function, scope->level + 1);
        look_scope(binder, node->scope_else, node->d);
        bind_body(binder, node->scope_else, node->d);
    }
    binder->soft = soft;
}

static uint32_t
special(struct binder *binder, struct tpl_scope *scope, struct slice name)
{
    return define(binder, scope, name, TPL_LOAD_PARAMETER)->slot;
}

/* Completes the parameters of a macro or call block. */
static void
bind_params(struct binder *binder, struct tpl_function *function)
{
    struct tpl_param *params = tpl_parse_take(
        binder->parser, (function->params_count + 1) * sizeof *params);
    struct tpl_node *preset = function->presets;
    uint32_t presets = 0;
    uint32_t at = 0;

    for (struct tpl_node *i = preset; i != NULL; i = i->next) {
        presets++;
    }
    for (struct tpl_node *arg = function->args; arg != NULL; arg = arg->next) {
        struct slice name = json_tree_slice(&arg->value);
        params[at] = (struct tpl_param){
            .name = name, .slot = own_entry(function->scope, name)->slot};
        if (at >= function->params_count - presets) {
            params[at].preset = preset;
            preset = preset->next;
        }
        if (function->has_caller && params[at].preset == NULL &&
            slice_equal(name, SLICE("caller"))) {
            tpl_parse_fail(binder->parser, arg->line,
                           "\"caller\" must have a default here");
        }
        at++;
    }
    function->params = params;
}

static void
bind_function(struct binder *binder, struct tpl_scope *scope,
              struct tpl_function *function)
{
    uint32_t branches = binder->branches;
    uint32_t loops = binder->loops;
    bool soft = binder->soft;
    struct tpl_scope *own =
        new_scope(binder, scope, function, scope->level + 1);

    binder->branches = 0;
    binder->soft = false;
    function->scope = own;
    for (struct tpl_node *arg = function->args; arg != NULL; arg = arg->next) {
        look_target(binder, own, arg, true);
    }
    for (struct tpl_node *i = function->presets; i != NULL; i = i->next) {
        look_expression(binder, own, i);
    }
    if (function->has_caller && !function->explicit_caller) {
        function->caller_slot = special(binder, own, SLICE("caller"));
    }
    if (function->has_kwargs) {
        function->kwargs_slot = special(binder, own, SLICE("kwargs"));
    }
    if (function->has_varargs) {
        function->varargs_slot = special(binder, own, SLICE("varargs"));
    }
    look_body(binder, own, function->body);
    bind_params(binder, function);
    bind_list(binder, own, function->presets);
    bind_body(binder, own, function->body);
    binder->branches = branches;
    binder->loops = loops;
    binder->soft = soft;
}

static void
bind_with(struct binder *binder, struct tpl_scope *scope, struct tpl_node *node)
{
    bind_list(binder, scope, node->b);
    node->scope = inner_scope(binder, scope);
    for (struct tpl_node *i = node->a; i != NULL; i = i->next) {
        look_target(binder, node->scope, i, true);
    }
    look_scope(binder, node->scope, node->c);
    for (struct tpl_node *i = node->a; i != NULL; i = i->next) {
        bind_target(binder, node->scope, i);
    }
    bind_inner(binder, node->scope, node->c);
}

/* A block whose output is caught: of a set or a filter. */
static void
bind_caught(struct binder *binder, struct tpl_scope *scope,
            struct tpl_node *node)
{
    bool set = node->kind == TPL_SETBLOCK;

    node->scope = inner_scope(binder, scope);
    look_scope(binder, node->scope, node->c);
    if (set) {
        bind_target(binder, scope, node->a);
        bind_expression(binder, node->scope, node->b);
    } else {
        look_expression(binder, node->scope, node->a);
        bind_expression(binder, node->scope, node->a);
    }
    bind_inner(binder, node->scope, node->c);
}

static void
bind_if(struct binder *binder, struct tpl_scope *scope, struct tpl_node *node)
{
    bool soft = binder->soft;

    binder->soft = true;
    bind_expression(binder, scope, node->a);
    bind_body(binder, scope, node->b);
    bind_body(binder, scope, node->c);
    binder->soft = soft;
}

static void
bind_statement(struct binder *binder, struct tpl_scope *scope,
               struct tpl_node *node)
{
    switch ((int)node->kind) {
    case TPL_OUTPUT:
        bind_list(binder, scope, node->a);
        break;
    case TPL_SET:
        bind_expression(binder, scope, node->b);
        bind_target(binder, scope, node->a);
        break;
    case TPL_SETBLOCK:
    case TPL_FILTERBLOCK:
        bind_caught(binder, scope, node);
        break;
    case TPL_FOR:
        bind_for(binder, scope, node);
        break;
    case TPL_IF:
        bind_if(binder, scope, node);
        break;
    case TPL_MACRO:
        bind_name(binder, scope, node);
        bind_function(binder, scope, node->function);
        break;
    case TPL_CALLBLOCK:
        bind_expression(binder, scope, node->a);
        bind_function(binder, scope, node->function);
        break;
    case TPL_WITH:
        bind_with(binder, scope, node);
        break;
    default: /* a jump; the rest are expressions */
        break;
    }
}

static void
bind_body(struct binder *binder, struct tpl_scope *scope,
          struct tpl_node *first)
{
    for (; first != NULL; first = first->next) {
        bind_statement(binder, scope, first);
    }
}

void
tpl_bind(struct tpl_parser *parser)
{
    struct binder binder = {.parser = parser};
    struct tpl_function *root = parser->tpl->root;

    root->scope = new_scope(&binder, NULL, root, 0);
    look_body(&binder, root->scope, root->body);
    bind_body(&binder, root->scope, root->body);
    for (const struct tpl_free_name *i = parser->tpl->free_names; i != NULL;
         i = i->next) {
        if (slice_equal(i->name, SLICE("self"))) {
            tpl_parse_fail(parser, 1, "'self' is not supported");
        }
    }
}
