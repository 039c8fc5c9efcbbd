/* Statements: the tree, walked. */
#include "node/template/template_run_internal.h"

struct tpl_frame *
tpl_frame_new(struct tpl_run *run, const struct tpl_function *function,
              struct tpl_frame *up)
{
    struct tpl_frame *frame = tpl_take(
        run, sizeof *frame + function->slots_count * sizeof frame->slots[0]);

    frame->up = up;
    for (uint32_t i = 0; i < function->slots_count; i++) {
        frame->slots[i].kind = TPL_V_MISSING;
    }
    return frame;
}

void
tpl_scope_enter(struct tpl_run *run, struct tpl_frame *frame,
                const struct tpl_scope *scope)
{
    for (const struct tpl_entry *entry = scope->entries; entry != NULL;
         entry = entry->next) {
        struct tpl_frame *from = frame;
        switch ((enum tpl_load)entry->load) {
        case TPL_LOAD_PARAMETER:
            break;
        case TPL_LOAD_RESOLVE:
            frame->slots[entry->slot] = run->free[entry->from];
            break;
        case TPL_LOAD_ALIAS:
            for (uint32_t up = entry->from_up; up > 0; up--) {
                from = from->up;
            }
            frame->slots[entry->slot] = from->slots[entry->from];
            break;
        case TPL_LOAD_MISSING:
            frame->slots[entry->slot].kind = TPL_V_MISSING;
            break;
        }
    }
}

static const struct json_value *
keyword(const struct tpl_args *args, struct slice name)
{
    for (uint32_t i = 0; i < args->kw_count; i++) {
        if (slice_equal(tpl_slice(args->kw[(size_t)2 * i]), name)) {
            return &args->kw[(size_t)2 * i + 1];
        }
    }
    return NULL;
}

/* Whether a macro knows the keyword: a parameter that no position filled, or
 * the caller. */
static bool
knows(const struct tpl_function *function, const struct tpl_args *args,
      struct slice name)
{
    for (uint32_t i = args->count; i < function->params_count; i++) {
        if (slice_equal(function->params[i].name, name)) {
            return true;
        }
    }
    return function->has_caller && !function->explicit_caller &&
           slice_equal(name, SLICE("caller"));
}

/* The keywords that no parameter takes: kwargs, or a fault. */
static void
bind_rest(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_function *function, const struct tpl_args *args)
{
    struct tpl_dict rest = {.len = 0};
    struct json_value *more = NULL;
    uint32_t extra = args->count > function->params_count
                         ? args->count - function->params_count
                         : 0;

    for (uint32_t i = 0; i < args->kw_count; i++) {
        struct json_value name = args->kw[(size_t)2 * i];
        if (knows(function, args, tpl_slice(name))) {
            continue;
        }
        if (!function->has_kwargs) {
            tpl_fail(run, "macro '%.*s' takes no keyword argument '%.*s'",
                     (int)function->name.len, function->name.ptr, (int)name.len,
                     name.as.text);
        }
        tpl_dict_put(run, &rest, name, args->kw[(size_t)2 * i + 1]);
    }
    if (function->has_kwargs) {
        frame->slots[function->kwargs_slot] = tpl_dict_value(&rest);
    }
    if (function->has_varargs) {
        more = tpl_take_values(run, extra);
        for (uint32_t i = 0; i < extra; i++) {
            more[i] = args->at[function->params_count + i];
        }
        frame->slots[function->varargs_slot] =
            tpl_array(TPL_V_TUPLE, more, extra);
    } else if (extra > 0) {
        tpl_fail(run, "macro '%.*s' takes not more than %u argument(s)",
                 (int)function->name.len, function->name.ptr,
                 (unsigned)function->params_count);
    }
}

/* Fills the parameters, defaults last: they may use those before them. */
static void
bind_arguments(struct tpl_run *run, struct tpl_frame *frame,
               const struct tpl_function *function, const struct tpl_args *args)
{
    const struct json_value *caller = NULL;

    for (uint32_t i = 0; i < function->params_count; i++) {
        const struct tpl_param *param = &function->params[i];
        const struct json_value *given =
            i < args->count ? &args->at[i] : keyword(args, param->name);
        if (given != NULL) {
            frame->slots[param->slot] = *given;
        }
    }
    if (function->has_caller && !function->explicit_caller) {
        caller = keyword(args, SLICE("caller"));
        frame->slots[function->caller_slot] =
            caller != NULL && caller->kind != JSON_NULL
                ? *caller
                : tpl_undefined(SLICE("caller"));
    }
    bind_rest(run, frame, function, args);
    for (uint32_t i = 0; i < function->params_count; i++) {
        const struct tpl_param *param = &function->params[i];
        if (frame->slots[param->slot].kind == TPL_V_MISSING) {
            frame->slots[param->slot] =
                param->preset != NULL ? tpl_eval(run, frame, param->preset)
                                      : tpl_undefined(param->name);
        }
    }
}

void
tpl_macro_run(struct tpl_run *run, const struct tpl_macro *macro,
              const struct tpl_args *args)
{
    const struct tpl_function *function = macro->function;
    struct tpl_frame *frame = NULL;

    tpl_enter(run);
    frame = tpl_frame_new(run, function, macro->frame);
    tpl_scope_enter(run, frame, function->scope);
    bind_arguments(run, frame, function, args);
    tpl_exec_body(run, frame, function->body);
    tpl_leave(run);
}

static struct tpl_macro *
new_macro(struct tpl_run *run, const struct tpl_function *function,
          struct tpl_frame *frame)
{
    struct tpl_macro *macro = tpl_take(run, sizeof *macro);

    *macro = (struct tpl_macro){.function = function, .frame = frame};
    return macro;
}

static void
exec_output(struct tpl_run *run, struct tpl_frame *frame,
            const struct tpl_node *node)
{
    for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
        struct json_value value;
        bool printed = false;
        if (i->kind == TPL_DATA) {
            buf_add_slice(run->out, tpl_slice(i->value));
            continue;
        }
        if (i->kind == TPL_CALL) {
            tpl_step(run, 1);
            tpl_enter(run);
            value = tpl_eval_call(run, frame, i, NULL, true, &printed);
            tpl_leave(run);
            if (printed) {
                continue;
            }
        } else {
            value = tpl_eval(run, frame, i);
        }
        run->line = i->line;
        tpl_put_str(run, run->out, value);
    }
    tpl_check_out(run);
}

static void
exec_call_block(struct tpl_run *run, struct tpl_frame *frame,
                const struct tpl_node *node)
{
    struct tpl_macro *macro = new_macro(run, node->function, frame);
    struct tpl_args none = {.count = 0};
    struct json_value caller = tpl_thing(TPL_V_MACRO, macro);
    struct json_value result;
    bool printed = false;

    if (node->a == NULL) { /* a generation block */
        tpl_macro_run(run, macro, &none);
        return;
    }
    result = tpl_eval_call(run, frame, node->a, &caller, true, &printed);
    if (!printed) {
        tpl_put_str(run, run->out, result);
    }
}

/* A body whose output is caught. Its text goes through the filter, if any. */
static enum tpl_flow
exec_caught(struct tpl_run *run, struct tpl_frame *frame,
            const struct tpl_node *node)
{
    bool set = node->kind == TPL_SETBLOCK;
    const struct tpl_node *filter = set ? node->b : node->a;
    size_t from = run->out->len;
    enum tpl_flow flow = TPL_FLOW_ON;
    struct json_value value;

    tpl_scope_enter(run, frame, node->scope);
    flow = tpl_exec(run, frame, node->c);
    if (flow != TPL_FLOW_ON) {
        run->out->len = from;
        return flow;
    }
    value = tpl_text(run, tpl_caught(run, from));
    if (filter != NULL) {
        /* Filters of a block are nested from the last to the first, whose
         * subject is missing. */
        const struct tpl_node *chain[16];
        size_t n = 0;
        for (; filter != NULL && n < 16; filter = filter->a) {
            chain[n++] = filter;
        }
        if (filter != NULL) {
            tpl_fail(run, "too many filters");
        }
        while (n > 0) {
            value = tpl_eval_filter(run, frame, chain[--n], value);
        }
    }
    if (set) {
        tpl_assign(run, frame, node->a, value);
    } else {
        tpl_put_str(run, run->out, value);
    }
    return TPL_FLOW_ON;
}

static enum tpl_flow
exec_with(struct tpl_run *run, struct tpl_frame *frame,
          const struct tpl_node *node)
{
    const struct tpl_node *value = node->b;

    tpl_scope_enter(run, frame, node->scope);
    for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
        tpl_assign(run, frame, i, tpl_eval(run, frame, value));
        value = value->next;
    }
    return tpl_exec(run, frame, node->c);
}

static enum tpl_flow
exec_if(struct tpl_run *run, struct tpl_frame *frame,
        const struct tpl_node *node)
{
    while (!tpl_truth(tpl_eval(run, frame, node->a))) {
        const struct tpl_node *rest = node->c;
        if (rest == NULL) {
            return TPL_FLOW_ON;
        }
        if (rest->kind != TPL_IF || rest->next != NULL) {
            return tpl_exec(run, frame, rest);
        }
        node = rest;
    }
    return tpl_exec(run, frame, node->b);
}

static enum tpl_flow
exec_one(struct tpl_run *run, struct tpl_frame *frame,
         const struct tpl_node *node)
{
    switch ((int)node->kind) {
    case TPL_OUTPUT:
        exec_output(run, frame, node);
        break;
    case TPL_SET:
        tpl_assign(run, frame, node->a, tpl_eval(run, frame, node->b));
        break;
    case TPL_IF:
        return exec_if(run, frame, node);
    case TPL_FOR:
        tpl_loop_run(run, frame, node);
        break;
    case TPL_SETBLOCK:
    case TPL_FILTERBLOCK:
        return exec_caught(run, frame, node);
    case TPL_MACRO:
        frame->slots[node->slot] =
            tpl_thing(TPL_V_MACRO, new_macro(run, node->function, frame));
        break;
    case TPL_CALLBLOCK:
        exec_call_block(run, frame, node);
        break;
    case TPL_WITH:
        return exec_with(run, frame, node);
    case TPL_BREAK:
        return TPL_FLOW_BREAK;
    default:
        CHECK(node->kind == TPL_CONTINUE);
        return TPL_FLOW_CONTINUE;
    }
    return TPL_FLOW_ON;
}

enum tpl_flow
tpl_exec(struct tpl_run *run, struct tpl_frame *frame,
         const struct tpl_node *first)
{
    enum tpl_flow flow = TPL_FLOW_ON;

    tpl_enter(run);
    for (; first != NULL && flow == TPL_FLOW_ON; first = first->next) {
        tpl_step(run, 1);
        run->line = first->line;
        flow = exec_one(run, frame, first);
    }
    tpl_leave(run);
    return flow;
}

void
tpl_exec_body(struct tpl_run *run, struct tpl_frame *frame,
              const struct tpl_node *body)
{
    enum tpl_flow flow = tpl_exec(run, frame, body);

    CHECK(flow == TPL_FLOW_ON); /* the parser refuses jumps out of a body */
}
