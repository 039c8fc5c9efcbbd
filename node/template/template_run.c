/* One rendering: entrance, bounds, memory, faults. */
#include "node/template/template_run_internal.h"

#include <stdarg.h>
#include <stdio.h>

void
tpl_fail(struct tpl_run *run, const char *format, ...)
{
    va_list arguments;

    run->error->line = run->line;
    va_start(arguments, format);
    (void)vsnprintf(run->error->text, sizeof run->error->text, format,
                    arguments);
    va_end(arguments);
    longjmp(*run->leave, 1);
}

void
tpl_fail_again(struct tpl_run *run, const struct template_error *error)
{
    *run->error = *error;
    longjmp(*run->leave, 1);
}

void
tpl_fail_type(struct tpl_run *run, const char *what, struct json_value value)
{
    if (value.kind == TPL_V_UNDEFINED) {
        tpl_fail(run, "'%.*s' is undefined", (int)value.len, value.as.text);
    }
    tpl_fail(run, "%s: not for %s", what, tpl_type_name(value));
}

void *
tpl_take(struct tpl_run *run, size_t n)
{
    void *room = arena_take(&run->arena, n);

    if (room == NULL) {
        tpl_fail(run, "out of memory: more than %zu bytes",
                 run->limits->memory_bytes);
    }
    return room;
}

struct json_value *
tpl_take_values(struct tpl_run *run, size_t n)
{
    if (n > UINT32_MAX / 64) {
        tpl_fail(run, "too many values");
    }
    tpl_step(run, n / 8);
    return tpl_take(run, n * sizeof(struct json_value));
}

void
tpl_step(struct tpl_run *run, uint64_t steps)
{
    run->steps += steps;
    if (run->steps > run->limits->steps_max) {
        tpl_fail(run, "more than %llu steps",
                 (unsigned long long)run->limits->steps_max);
    }
}

void
tpl_enter(struct tpl_run *run)
{
    if (++run->depth > run->limits->depth_max) {
        tpl_fail(run, "nested more than %u deep",
                 (unsigned)run->limits->depth_max);
    }
}

void
tpl_leave(struct tpl_run *run)
{
    CHECK_SLOW(run->depth > 0);
    run->depth--;
}

void
tpl_push(struct tpl_run *run, struct json_value value)
{
    if (run->stack_len == TPL_STACK_LEN) {
        tpl_fail(run, "too many arguments in one another");
    }
    run->stack[run->stack_len++] = value;
}

void
tpl_check_out(struct tpl_run *run)
{
    if (run->out->failed || run->out->len > run->out_max) {
        tpl_fail(run, "output larger than %zu bytes",
                 run->limits->output_bytes);
    }
}

struct json_value
tpl_array(uint8_t kind, const struct json_value *items, size_t len)
{
    static const struct json_value none; /* so that items is never NULL */

    return (struct json_value){.kind = kind,
                               .len = (uint32_t)len,
                               .as.items = items != NULL ? items : &none};
}

struct json_value
tpl_thing(enum tpl_value_kind kind, void *thing)
{
    return (struct json_value){.kind = (uint8_t)kind, .as.thing = thing};
}

struct json_value
tpl_text(struct tpl_run *run, struct slice text)
{
    if (text.len > JSON_TREE_LEN_MAX) {
        tpl_fail(run, "text too long");
    }
    return json_tree_text(text);
}

/* What the free names mean: the context first, then the globals. */
static void
resolve_names(struct tpl_run *run, const struct json_value *context)
{
    run->free = tpl_take_values(run, (size_t)run->tpl->free_count + 1);
    for (const struct tpl_free_name *name = run->tpl->free_names; name != NULL;
         name = name->next) {
        const struct json_value *found = json_tree_get(context, name->name);
        const struct tpl_global *global = NULL;
        if (found == NULL) {
            global = tpl_global_named(name->name);
        }
        run->free[name->at] =
            found != NULL ? *found
            : global != NULL
                ? (struct json_value){.kind = TPL_V_GLOBAL,
                                      .as.text = (const char *)global}
                : (struct json_value){.kind = TPL_V_MISSING};
    }
}

static void
render(struct tpl_run *run, const struct json_value *context)
{
    struct tpl_frame *frame = NULL;

    if (buf_reserve(run->out, 1) == NULL) { /* so that out->ptr is not NULL */
        tpl_fail(run, "no room for output");
    }
    run->stack = tpl_take_values(run, TPL_STACK_LEN);
    resolve_names(run, context);
    frame = tpl_frame_new(run, run->tpl->root, NULL);
    tpl_scope_enter(run, frame, run->tpl->root->scope);
    tpl_exec_body(run, frame, run->tpl->body);
    tpl_check_out(run);
    CHECK(run->depth == 0 && run->stack_len == 0);
}

bool
template_render(const struct template *compiled,
                const struct json_value *context,
                const struct template_limits *limits,
                const struct template_clock *clock, struct buf *out,
                struct template_error *error)
{
    size_t start = out->len;
    jmp_buf leave;
    struct tpl_run run = {
        .tpl = compiled,
        .limits = limits,
        .clock = clock,
        .out = out,
        .out_max = start + limits->output_bytes,
        .line = 1,
        .leave = &leave,
        .error = error,
    };

    CHECK(context->kind == JSON_OBJECT);
    *error = (struct template_error){.line = 0};
    arena_init(&run.arena, limits->memory_bytes);
    if (setjmp(leave) != 0) {
        out->len = start;
        out->failed = false;
        arena_fini(&run.arena);
        return false;
    }
    render(&run, context);
    arena_fini(&run.arena);
    return true;
}
