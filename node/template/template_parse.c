/* The parser of statements, and the compiler's entrance. */
#include "node/template/template_parse_internal.h"
#include "node/text/json_text.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#define MEMORY_FACTOR \
    200 /* bytes of tree for a byte of source, and more than
                             any token needs */

static struct tpl_node *parse_body(struct tpl_parser *parser,
                                   const char *const *ends);

void
tpl_parse_fail(struct tpl_parser *parser, uint32_t line, const char *format,
               ...)
{
    va_list arguments;

    parser->error->line = line;
    va_start(arguments, format);
    (void)vsnprintf(parser->error->text, sizeof parser->error->text, format,
                    arguments);
    va_end(arguments);
    longjmp(parser->out, 1);
}

void *
tpl_parse_take(struct tpl_parser *parser, size_t n)
{
    void *room = arena_take(&parser->tpl->arena, n);

    if (room == NULL) {
        tpl_parse_fail(parser, parser->line, "out of memory");
    }
    return room;
}

struct tpl_node *
tpl_parse_node(struct tpl_parser *parser, enum tpl_kind kind, uint32_t line)
{
    struct tpl_node *node = tpl_parse_take(parser, sizeof *node);

    *node = (struct tpl_node){.kind = (uint8_t)kind, .line = line};
    return node;
}

static struct tpl_function *
new_function(struct tpl_parser *parser)
{
    struct tpl_function *function = tpl_parse_take(parser, sizeof *function);

    *function = (struct tpl_function){.params_count = 0};
    return function;
}

/* What stands between a tag and its end tag. The end tag's name is current
 * afterwards. */
static struct tpl_node *
parse_statements(struct tpl_parser *parser, const char *const *ends)
{
    (void)tpl_lex_skip(parser, TPL_T_COLON);
    (void)tpl_lex_expect(parser, TPL_T_BLOCK_END);
    return parse_body(parser, ends);
}

/* The same with one end tag, whose name is passed. */
static struct tpl_node *
parse_until(struct tpl_parser *parser, const char *end)
{
    const char *const ends[] = {end, NULL};
    struct tpl_node *body = parse_statements(parser, ends);

    (void)tpl_lex_next(parser);
    return body;
}

static struct tpl_node *
parse_set(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_SET, line);

    node->a = tpl_parse_target(parser,
                               (struct tpl_tuple_form){.with_namespace = true});
    if (tpl_lex_skip(parser, TPL_T_ASSIGN)) {
        node->b = tpl_parse_tuple(parser, (struct tpl_tuple_form){0});
        return node;
    }
    node->kind = TPL_SETBLOCK;
    node->b = tpl_parse_filter(parser, NULL, false);
    node->c = parse_until(parser, "endset");
    return node;
}

static struct tpl_node *
parse_for(struct tpl_parser *parser, uint32_t line)
{
    static const char *const ends[] = {"endfor", "else", NULL};
    struct tpl_node *node = tpl_parse_node(parser, TPL_FOR, line);
    bool has_else = false;

    node->a =
        tpl_parse_target(parser, (struct tpl_tuple_form){.end_name = "in"});
    if (!tpl_lex_skip_name(parser, "in")) {
        tpl_parse_fail(parser, parser->now.line, "expected 'in'");
    }
    node->b = tpl_parse_tuple(
        parser,
        (struct tpl_tuple_form){.no_condexpr = true, .end_name = "recursive"});
    if (tpl_lex_skip_name(parser, "if")) {
        node->e = tpl_parse_expression(parser);
    }
    node->recursive = tpl_lex_skip_name(parser, "recursive");
    if (node->recursive) {
        node->function = new_function(parser);
    }
    parser->loops++;
    node->c = parse_statements(parser, ends);
    parser->loops--;
    has_else = tpl_lex_is_name(parser, "else");
    (void)tpl_lex_next(parser);
    if (has_else) {
        node->d = parse_until(parser, "endfor");
    }
    return node;
}

static struct tpl_node *
parse_if(struct tpl_parser *parser, uint32_t line)
{
    static const char *const ends[] = {"elif", "else", "endif", NULL};
    struct tpl_node *first = tpl_parse_node(parser, TPL_IF, line);
    struct tpl_node *node = first;

    for (;;) {
        node->a = tpl_parse_tuple(parser,
                                  (struct tpl_tuple_form){.no_condexpr = true});
        node->b = parse_statements(parser, ends);
        if (tpl_lex_is_name(parser, "elif")) {
            (void)tpl_lex_next(parser);
            node->c = tpl_parse_node(parser, TPL_IF, parser->now.line);
            node = node->c;
            continue;
        }
        if (tpl_lex_is_name(parser, "else")) {
            (void)tpl_lex_next(parser);
            node->c = parse_until(parser, "endif");
        } else {
            (void)tpl_lex_next(parser);
        }
        return first;
    }
}

/* The parameters of a macro or call block, in parentheses. */
static void
parse_signature(struct tpl_parser *parser, struct tpl_function *function)
{
    struct tpl_node **args = &function->args;
    struct tpl_node **presets = &function->presets;

    (void)tpl_lex_expect(parser, TPL_T_LPAREN);
    while (!tpl_lex_is(parser, TPL_T_RPAREN)) {
        struct tpl_lexeme name;
        if (function->args != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        name = tpl_lex_expect(parser, TPL_T_NAME);
        *args = tpl_parse_node(parser, TPL_NAME, name.line);
        (*args)->value = json_tree_text(name.text);
        args = &(*args)->next;
        function->params_count++;
        function->explicit_caller |= slice_equal(name.text, SLICE("caller"));
        if (tpl_lex_skip(parser, TPL_T_ASSIGN)) {
            *presets = tpl_parse_expression(parser);
            presets = &(*presets)->next;
        } else if (function->presets != NULL) {
            tpl_parse_fail(parser, name.line,
                           "non-default argument follows default argument");
        }
    }
    (void)tpl_lex_expect(parser, TPL_T_RPAREN);
}

/* The body of a macro or call block; what it uses of the special names. */
static void
parse_function_body(struct tpl_parser *parser, struct tpl_function *function,
                    const char *end)
{
    uint32_t caller = parser->uses_caller;
    uint32_t kwargs = parser->uses_kwargs;
    uint32_t varargs = parser->uses_varargs;
    uint32_t loops = parser->loops;

    parser->loops = 0;
    function->body = parse_until(parser, end);
    parser->loops = loops;
    function->has_caller = parser->uses_caller != caller;
    function->has_kwargs = parser->uses_kwargs != kwargs;
    function->has_varargs = parser->uses_varargs != varargs;
    for (struct tpl_node *arg = function->args; arg != NULL; arg = arg->next) {
        struct slice name = json_tree_slice(&arg->value);
        function->has_kwargs &= !slice_equal(name, SLICE("kwargs"));
        function->has_varargs &= !slice_equal(name, SLICE("varargs"));
    }
}

static struct tpl_node *
parse_macro(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_MACRO, line);

    node->function = new_function(parser);
    node->value = json_tree_text(tpl_lex_expect(parser, TPL_T_NAME).text);
    node->function->name = json_tree_slice(&node->value);
    parse_signature(parser, node->function);
    parse_function_body(parser, node->function, "endmacro");
    return node;
}

static struct tpl_node *
parse_call_block(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_CALLBLOCK, line);

    node->function = new_function(parser);
    node->function->name = SLICE("caller");
    if (tpl_lex_is(parser, TPL_T_LPAREN)) {
        parse_signature(parser, node->function);
    }
    node->a = tpl_parse_expression(parser);
    if (node->a->kind != TPL_CALL) {
        tpl_parse_fail(parser, line, "expected call");
    }
    parse_function_body(parser, node->function, "endcall");
    return node;
}

static struct tpl_node *
parse_generation(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_CALLBLOCK, line);

    node->function = new_function(parser);
    node->function->name = SLICE("caller");
    parse_function_body(parser, node->function, "endgeneration");
    return node;
}

static struct tpl_node *
parse_filter_block(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_FILTERBLOCK, line);

    node->a = tpl_parse_filter(parser, NULL, true);
    node->c = parse_until(parser, "endfilter");
    return node;
}

static struct tpl_node *
parse_with(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_WITH, line);
    struct tpl_node **targets = &node->a;
    struct tpl_node **values = &node->b;

    while (!tpl_lex_is(parser, TPL_T_BLOCK_END)) {
        if (node->a != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        *targets = tpl_parse_target(parser, (struct tpl_tuple_form){0});
        targets = &(*targets)->next;
        (void)tpl_lex_expect(parser, TPL_T_ASSIGN);
        *values = tpl_parse_expression(parser);
        values = &(*values)->next;
    }
    node->c = parse_until(parser, "endwith");
    return node;
}

static struct tpl_node *
parse_print(struct tpl_parser *parser, uint32_t line)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_OUTPUT, line);
    struct tpl_node **tail = &node->a;

    while (!tpl_lex_is(parser, TPL_T_BLOCK_END)) {
        if (node->a != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        *tail = tpl_parse_expression(parser);
        tail = &(*tail)->next;
    }
    return node;
}

static struct tpl_node *
parse_jump(struct tpl_parser *parser, uint32_t line, enum tpl_kind kind)
{
    if (parser->loops == 0) {
        tpl_parse_fail(parser, line, "break or continue outside a loop");
    }
    return tpl_parse_node(parser, kind, line);
}

static struct tpl_node *
parse_break(struct tpl_parser *parser, uint32_t line)
{
    return parse_jump(parser, line, TPL_BREAK);
}

static struct tpl_node *
parse_continue(struct tpl_parser *parser, uint32_t line)
{
    return parse_jump(parser, line, TPL_CONTINUE);
}

static const struct {
    const char *name;
    struct tpl_node *(*parse)(struct tpl_parser *parser, uint32_t line);
} tags[] = {
    {"set", parse_set},
    {"for", parse_for},
    {"if", parse_if},
    {"macro", parse_macro},
    {"call", parse_call_block},
    {"filter", parse_filter_block},
    {"with", parse_with},
    {"generation", parse_generation},
    {"print", parse_print},
    {"break", parse_break},
    {"continue", parse_continue},
};

static struct tpl_node *
parse_statement(struct tpl_parser *parser)
{
    struct tpl_lexeme tag = parser->now;

    if (tag.token != TPL_T_NAME) {
        tpl_parse_fail(parser, tag.line, "tag name expected");
    }
    if (++parser->depth > TPL_PARSE_DEPTH_MAX) {
        tpl_parse_fail(parser, tag.line, "nested too deeply");
    }
    for (size_t i = 0; i < sizeof tags / sizeof tags[0]; i++) {
        if (slice_equal(tag.text, slice_of(tags[i].name))) {
            struct tpl_node *node = NULL;
            (void)tpl_lex_next(parser);
            node = tags[i].parse(parser, tag.line);
            parser->depth--;
            return node;
        }
    }
    tpl_parse_fail(parser, tag.line, "unknown tag '%.*s'", (int)tag.text.len,
                   tag.text.ptr);
}

/* One piece of output: text, or what stands in {{ }}. */
static struct tpl_node *
parse_piece(struct tpl_parser *parser)
{
    struct tpl_node *piece = NULL;
    struct tpl_lexeme begin = tpl_lex_next(parser);

    if (begin.token == TPL_T_DATA) {
        piece = tpl_parse_node(parser, TPL_DATA, begin.line);
        piece->value = json_tree_text(begin.text);
        return piece;
    }
    piece = tpl_parse_tuple(parser, (struct tpl_tuple_form){0});
    (void)tpl_lex_expect(parser, TPL_T_VARIABLE_END);
    return piece;
}

static bool
at_end(const struct tpl_parser *parser, const char *const *ends)
{
    for (; ends != NULL && *ends != NULL; ends++) {
        if (tpl_lex_is_name(parser, *ends)) {
            return true;
        }
    }
    return false;
}

static struct tpl_node *
parse_body(struct tpl_parser *parser, const char *const *ends)
{
    struct tpl_node *first = NULL;
    struct tpl_node **tail = &first;
    struct tpl_node **pieces = NULL; /* of the output that is being gathered */

    while (!tpl_lex_is(parser, TPL_T_EOF)) {
        if (!tpl_lex_is(parser, TPL_T_BLOCK_BEGIN)) {
            if (pieces == NULL) {
                *tail = tpl_parse_node(parser, TPL_OUTPUT, parser->now.line);
                pieces = &(*tail)->a;
                tail = &(*tail)->next;
            }
            *pieces = parse_piece(parser);
            pieces = &(*pieces)->next;
            continue;
        }
        pieces = NULL;
        (void)tpl_lex_next(parser);
        if (at_end(parser, ends)) {
            return first;
        }
        *tail = parse_statement(parser);
        tail = &(*tail)->next;
        (void)tpl_lex_expect(parser, TPL_T_BLOCK_END);
    }
    if (ends != NULL) {
        tpl_parse_fail(parser, parser->now.line,
                       "Unexpected end of template, looking for '%s'", *ends);
    }
    return first;
}

struct tpl_node *
tpl_parse_template(struct tpl_parser *parser)
{
    tpl_lex_start(parser);
    return parse_body(parser, NULL);
}

/* Copies the source with every line end as "\n", without the last one. */
static struct slice
copy_source(struct tpl_parser *parser, struct slice source)
{
    char *to = tpl_parse_take(parser, source.len);
    size_t len = 0;

    for (size_t i = 0; i < source.len; i++) {
        char c = source.ptr[i];
        if (c == '\r') {
            i += i + 1 < source.len && source.ptr[i + 1] == '\n';
            c = '\n';
        }
        to[len++] = c;
    }
    len -= len > 0 && to[len - 1] == '\n';
    return (struct slice){to, len};
}

static bool
well_formed(struct slice text)
{
    while (text.len > 0) {
        size_t n = json_text_char(text);
        if (n == 0) {
            return false;
        }
        slice_skip(&text, n);
    }
    return true;
}

static void
compile(struct tpl_parser *parser, struct slice source)
{
    struct template *tpl = parser->tpl;

    tpl->source = copy_source(parser, source);
    parser->source = tpl->source;
    tpl->root = new_function(parser);
    tpl->root->body = tpl->body = tpl_parse_template(parser);
    tpl_bind(parser);
}

struct template *
template_compile(struct slice source, struct template_error *error)
{
    struct template *tpl = calloc(1, sizeof *tpl);
    struct tpl_parser parser = {.tpl = tpl, .error = error};

    *error = (struct template_error){.line = 0};
    if (tpl == NULL || source.len > TEMPLATE_SOURCE_MAX ||
        !well_formed(source)) {
        (void)snprintf(error->text, sizeof error->text, "%s",
                       tpl == NULL                        ? "out of memory"
                       : source.len > TEMPLATE_SOURCE_MAX ? "template too large"
                                                          : "not UTF-8");
        free(tpl);
        return NULL;
    }
    arena_init(&tpl->arena, source.len * MEMORY_FACTOR + 65536);
    if (setjmp(parser.out) == 0) {
        compile(&parser, source);
        return parser.tpl;
    }
    template_free(parser.tpl);
    return NULL;
}

void
template_free(struct template *compiled)
{
    if (compiled != NULL) {
        arena_fini(&compiled->arena);
        free(compiled);
    }
}
