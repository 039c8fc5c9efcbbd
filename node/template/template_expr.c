/* The parser of expressions: jinja2's grammar, rule by rule. */
#include "node/template/template_names_internal.h"
#include "node/template/template_parse_internal.h"

static struct tpl_node *parse_unary(struct tpl_parser *parser,
                                    bool with_filter);
static struct tpl_node *parse_or(struct tpl_parser *parser);

static void
enter(struct tpl_parser *parser)
{
    if (++parser->depth > TPL_PARSE_DEPTH_MAX) {
        tpl_parse_fail(parser, parser->now.line, "nested too deeply");
    }
}

static void
leave(struct tpl_parser *parser)
{
    CHECK(parser->depth > 0);
    parser->depth--;
}

/* Appends a node to a list; *tail points to the list's last link. */
static void
append(struct tpl_node ***tail, struct tpl_node *node)
{
    **tail = node;
    *tail = &node->next;
}

static struct tpl_node *
constant(struct tpl_parser *parser, uint32_t line, uint8_t kind,
         int64_t integer)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_CONST, line);

    node->value = (struct json_value){.kind = kind, .as.integer = integer};
    return node;
}

static struct tpl_node *
parse_name(struct tpl_parser *parser, bool with_namespace)
{
    struct tpl_lexeme name = tpl_lex_next(parser);
    struct tpl_node *node = NULL;

    if (slice_equal(name.text, SLICE("true")) ||
        slice_equal(name.text, SLICE("True"))) {
        return constant(parser, name.line, JSON_BOOL, 1);
    }
    if (slice_equal(name.text, SLICE("false")) ||
        slice_equal(name.text, SLICE("False"))) {
        return constant(parser, name.line, JSON_BOOL, 0);
    }
    if (slice_equal(name.text, SLICE("none")) ||
        slice_equal(name.text, SLICE("None"))) {
        return constant(parser, name.line, JSON_NULL, 0);
    }
    if (with_namespace && tpl_lex_skip(parser, TPL_T_DOT)) {
        node = tpl_parse_node(parser, TPL_NSREF, name.line);
        node->a = tpl_parse_node(parser, TPL_NAME, name.line);
        node->a->value = json_tree_text(name.text);
        node->value = json_tree_text(tpl_lex_expect(parser, TPL_T_NAME).text);
        return node;
    }
    node = tpl_parse_node(parser, TPL_NAME, name.line);
    node->value = json_tree_text(name.text);
    parser->uses_caller += slice_equal(name.text, SLICE("caller"));
    parser->uses_kwargs += slice_equal(name.text, SLICE("kwargs"));
    parser->uses_varargs += slice_equal(name.text, SLICE("varargs"));
    return node;
}

/* One string, or several beside each other. */
static struct tpl_node *
parse_strings(struct tpl_parser *parser)
{
    struct tpl_lexeme first = tpl_lex_next(parser);
    struct tpl_node *node = tpl_parse_node(parser, TPL_CONST, first.line);

    node->value = first.value;
    while (tpl_lex_is(parser, TPL_T_STRING)) {
        struct slice more = json_tree_slice(&parser->now.value);
        struct slice was = json_tree_slice(&node->value);
        char *text = tpl_parse_take(parser, was.len + more.len);
        if (was.len > 0) {
            memcpy(text, was.ptr, was.len);
        }
        if (more.len > 0) {
            memcpy(text + was.len, more.ptr, more.len);
        }
        node->value = json_tree_text((struct slice){text, was.len + more.len});
        (void)tpl_lex_next(parser);
    }
    return node;
}

static struct tpl_node *
parse_list(struct tpl_parser *parser)
{
    struct tpl_lexeme open = tpl_lex_next(parser);
    struct tpl_node *node = tpl_parse_node(parser, TPL_LIST, open.line);
    struct tpl_node **tail = &node->a;

    while (!tpl_lex_is(parser, TPL_T_RBRACKET)) {
        if (node->a != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        if (tpl_lex_is(parser, TPL_T_RBRACKET)) {
            break;
        }
        append(&tail, tpl_parse_expression(parser));
    }
    (void)tpl_lex_expect(parser, TPL_T_RBRACKET);
    return node;
}

static struct tpl_node *
parse_dict(struct tpl_parser *parser)
{
    struct tpl_lexeme open = tpl_lex_next(parser);
    struct tpl_node *node = tpl_parse_node(parser, TPL_DICT, open.line);
    struct tpl_node **tail = &node->a;

    while (!tpl_lex_is(parser, TPL_T_RBRACE)) {
        if (node->a != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        if (tpl_lex_is(parser, TPL_T_RBRACE)) {
            break;
        }
        append(&tail, tpl_parse_expression(parser));
        (void)tpl_lex_expect(parser, TPL_T_COLON);
        append(&tail, tpl_parse_expression(parser));
    }
    (void)tpl_lex_expect(parser, TPL_T_RBRACE);
    return node;
}

static struct tpl_node *
parse_primary(struct tpl_parser *parser, bool with_namespace)
{
    struct tpl_node *node = NULL;

    switch ((int)parser->now.token) {
    case TPL_T_NAME:
        return parse_name(parser, with_namespace);
    case TPL_T_STRING:
        return parse_strings(parser);
    case TPL_T_INTEGER:
    case TPL_T_FLOAT:
        node = tpl_parse_node(parser, TPL_CONST, parser->now.line);
        node->value = tpl_lex_next(parser).value;
        return node;
    case TPL_T_LPAREN:
        (void)tpl_lex_next(parser);
        node = tpl_parse_tuple(parser,
                               (struct tpl_tuple_form){.parentheses = true});
        (void)tpl_lex_expect(parser, TPL_T_RPAREN);
        return node;
    case TPL_T_LBRACKET:
        return parse_list(parser);
    case TPL_T_LBRACE:
        return parse_dict(parser);
    default:
        tpl_parse_fail(parser, parser->now.line, "expected an expression");
    }
}

static bool
ends_tuple(const struct tpl_parser *parser, const char *end_name)
{
    return tpl_lex_is(parser, TPL_T_VARIABLE_END) ||
           tpl_lex_is(parser, TPL_T_BLOCK_END) ||
           tpl_lex_is(parser, TPL_T_RPAREN) ||
           (end_name != NULL && tpl_lex_is_name(parser, end_name));
}

struct tpl_node *
tpl_parse_tuple(struct tpl_parser *parser, struct tpl_tuple_form form)
{
    uint32_t line = parser->now.line;
    struct tpl_node *items = NULL;
    struct tpl_node **tail = &items;
    struct tpl_node *tuple = NULL;
    bool is_tuple = false;

    enter(parser);
    for (;;) {
        if (items != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        if (ends_tuple(parser, form.end_name)) {
            break;
        }
        append(&tail, form.simplified
                          ? parse_primary(parser, form.with_namespace)
                      : form.no_condexpr ? parse_or(parser)
                                         : tpl_parse_expression(parser));
        if (!tpl_lex_is(parser, TPL_T_COMMA)) {
            break;
        }
        is_tuple = true;
    }
    leave(parser);
    if (!is_tuple && items != NULL) {
        return items;
    }
    if (!is_tuple && !form.parentheses) {
        tpl_parse_fail(parser, parser->now.line, "expected an expression");
    }
    tuple = tpl_parse_node(parser, TPL_TUPLE, line);
    tuple->a = items;
    return tuple;
}

/* Whether a target may be assigned to; its names must not be constants. */
static bool
assignable(const struct tpl_node *node)
{
    if (node->kind == TPL_TUPLE) {
        for (const struct tpl_node *i = node->a; i != NULL; i = i->next) {
            if (!assignable(i)) {
                return false;
            }
        }
        return true;
    }
    return node->kind == TPL_NAME || node->kind == TPL_NSREF;
}

struct tpl_node *
tpl_parse_target(struct tpl_parser *parser, struct tpl_tuple_form form)
{
    struct tpl_node *node = NULL;

    form.simplified = true;
    node = tpl_parse_tuple(parser, form);
    if (!assignable(node)) {
        tpl_parse_fail(parser, node->line, "can't assign to this");
    }
    return node;
}

/* What stands between the brackets: an expression or a slice. */
static struct tpl_node *
parse_subscribed(struct tpl_parser *parser)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_SLICE, parser->now.line);

    if (!tpl_lex_is(parser, TPL_T_COLON)) {
        node->a = tpl_parse_expression(parser);
        if (!tpl_lex_is(parser, TPL_T_COLON)) {
            return node->a;
        }
    }
    (void)tpl_lex_next(parser);
    if (!tpl_lex_is(parser, TPL_T_COLON) &&
        !tpl_lex_is(parser, TPL_T_RBRACKET) &&
        !tpl_lex_is(parser, TPL_T_COMMA)) {
        node->b = tpl_parse_expression(parser);
    }
    if (tpl_lex_skip(parser, TPL_T_COLON) &&
        !tpl_lex_is(parser, TPL_T_RBRACKET) &&
        !tpl_lex_is(parser, TPL_T_COMMA)) {
        node->c = tpl_parse_expression(parser);
    }
    return node;
}

static struct tpl_node *
parse_subscript(struct tpl_parser *parser, struct tpl_node *of)
{
    struct tpl_lexeme open = tpl_lex_next(parser);
    struct tpl_node *node = NULL;
    struct tpl_node *items = NULL;
    struct tpl_node **tail = &items;

    if (open.token == TPL_T_DOT) {
        struct tpl_lexeme attribute = tpl_lex_next(parser);
        bool name = attribute.token == TPL_T_NAME;
        if (!name && attribute.token != TPL_T_INTEGER) {
            tpl_parse_fail(parser, attribute.line, "expected name or number");
        }
        node = tpl_parse_node(parser, name ? TPL_ATTR : TPL_ITEM, open.line);
        node->a = of;
        if (name) {
            node->value = json_tree_text(attribute.text);
        } else {
            node->b = tpl_parse_node(parser, TPL_CONST, attribute.line);
            node->b->value = attribute.value;
        }
        return node;
    }
    while (!tpl_lex_is(parser, TPL_T_RBRACKET)) {
        if (items != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
        }
        append(&tail, parse_subscribed(parser));
    }
    (void)tpl_lex_expect(parser, TPL_T_RBRACKET);
    node = tpl_parse_node(parser, TPL_ITEM, open.line);
    node->a = of;
    if (items != NULL && items->next == NULL) {
        node->b = items;
    } else {
        node->b = tpl_parse_node(parser, TPL_TUPLE, open.line);
        node->b->a = items;
    }
    return node;
}

/* One argument; fails where the order of kinds is wrong. */
static struct tpl_node *
parse_argument(struct tpl_parser *parser, uint32_t line, unsigned *seen)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_ARG, parser->now.line);
    unsigned barred = 0;

    if (tpl_lex_skip(parser, TPL_T_MUL)) {
        node->op = TPL_STAR;
        barred = 1U << TPL_STAR | 1U << TPL_STARS;
    } else if (tpl_lex_skip(parser, TPL_T_POW)) {
        node->op = TPL_STARS;
        barred = 1U << TPL_STARS;
    } else if (tpl_lex_is(parser, TPL_T_NAME) &&
               parser->ahead.token == TPL_T_ASSIGN) {
        node->op = TPL_KEYWORD;
        node->value = json_tree_text(tpl_lex_next(parser).text);
        (void)tpl_lex_next(parser);
        barred = 1U << TPL_STARS;
    } else {
        barred = 1U << TPL_STAR | 1U << TPL_STARS | 1U << TPL_KEYWORD;
    }
    if ((*seen & barred) != 0) {
        tpl_parse_fail(parser, line,
                       "invalid syntax for function call expression");
    }
    *seen |= 1U << node->op;
    node->a = tpl_parse_expression(parser);
    return node;
}

static struct tpl_node *
parse_arguments(struct tpl_parser *parser)
{
    struct tpl_lexeme open = tpl_lex_expect(parser, TPL_T_LPAREN);
    struct tpl_node *first = NULL;
    struct tpl_node **tail = &first;
    unsigned seen = 0;

    while (!tpl_lex_is(parser, TPL_T_RPAREN)) {
        if (first != NULL) {
            (void)tpl_lex_expect(parser, TPL_T_COMMA);
            if (tpl_lex_is(parser, TPL_T_RPAREN)) {
                break;
            }
        }
        append(&tail, parse_argument(parser, open.line, &seen));
    }
    (void)tpl_lex_expect(parser, TPL_T_RPAREN);
    return first;
}

static struct tpl_node *
parse_call(struct tpl_parser *parser, struct tpl_node *of)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_CALL, parser->now.line);

    node->a = of;
    node->b = parse_arguments(parser);
    return node;
}

/* A name, or several with dots between them. */
static struct json_value
parse_dotted(struct tpl_parser *parser)
{
    struct tpl_lexeme name = tpl_lex_expect(parser, TPL_T_NAME);

    if (tpl_lex_is(parser, TPL_T_DOT)) {
        tpl_parse_fail(parser, name.line, "No filter or test named '%.*s.'",
                       (int)name.text.len, name.text.ptr);
    }
    return json_tree_text(name.text);
}

struct tpl_node *
tpl_parse_filter(struct tpl_parser *parser, struct tpl_node *of,
                 bool inline_first)
{
    while (tpl_lex_is(parser, TPL_T_PIPE) || inline_first) {
        struct tpl_node *node = NULL;
        if (!inline_first) {
            (void)tpl_lex_next(parser);
        }
        node = tpl_parse_node(parser, TPL_FILTER, parser->now.line);
        node->a = of;
        node->value = parse_dotted(parser);
        node->filter = tpl_filter_named(json_tree_slice(&node->value));
        if (tpl_lex_is(parser, TPL_T_LPAREN)) {
            node->b = parse_arguments(parser);
        }
        of = node;
        inline_first = false;
    }
    return of;
}

/* Whether the argument of a test comes without parentheses. */
static bool
bare_argument(const struct tpl_parser *parser)
{
    enum tpl_token token = parser->now.token;

    if (token == TPL_T_NAME) {
        return !tpl_lex_is_name(parser, "else") &&
               !tpl_lex_is_name(parser, "or") &&
               !tpl_lex_is_name(parser, "and");
    }
    return token == TPL_T_STRING || token == TPL_T_INTEGER ||
           token == TPL_T_FLOAT || token == TPL_T_LBRACKET ||
           token == TPL_T_LBRACE;
}

static struct tpl_node *
parse_postfix(struct tpl_parser *parser, struct tpl_node *node)
{
    for (;;) {
        if (tpl_lex_is(parser, TPL_T_DOT) ||
            tpl_lex_is(parser, TPL_T_LBRACKET)) {
            node = parse_subscript(parser, node);
        } else if (tpl_lex_is(parser, TPL_T_LPAREN)) {
            node = parse_call(parser, node);
        } else {
            return node;
        }
    }
}

static struct tpl_node *
parse_test(struct tpl_parser *parser, struct tpl_node *of)
{
    struct tpl_lexeme is = tpl_lex_next(parser);
    bool negated = tpl_lex_skip_name(parser, "not");
    struct tpl_node *node = tpl_parse_node(parser, TPL_TEST, is.line);
    struct tpl_node *outer = node;

    node->a = of;
    node->value = parse_dotted(parser);
    node->test = tpl_test_named(json_tree_slice(&node->value));
    if (tpl_lex_is(parser, TPL_T_LPAREN)) {
        node->b = parse_arguments(parser);
    } else if (bare_argument(parser)) {
        if (tpl_lex_is_name(parser, "is")) {
            tpl_parse_fail(parser, is.line,
                           "You cannot chain multiple tests with is");
        }
        node->b = tpl_parse_node(parser, TPL_ARG, parser->now.line);
        node->b->a = parse_postfix(parser, parse_primary(parser, false));
    }
    if (negated) {
        outer = tpl_parse_node(parser, TPL_NOT, is.line);
        outer->a = node;
    }
    return outer;
}

static struct tpl_node *
parse_unary(struct tpl_parser *parser, bool with_filter)
{
    struct tpl_node *node = NULL;
    bool minus = tpl_lex_is(parser, TPL_T_SUB);

    enter(parser);
    if (minus || tpl_lex_is(parser, TPL_T_ADD)) {
        node =
            tpl_parse_node(parser, minus ? TPL_NEG : TPL_POS, parser->now.line);
        (void)tpl_lex_next(parser);
        node->a = parse_unary(parser, false);
    } else {
        node = parse_primary(parser, false);
    }
    node = parse_postfix(parser, node);
    while (with_filter) {
        if (tpl_lex_is(parser, TPL_T_PIPE)) {
            node = tpl_parse_filter(parser, node, false);
        } else if (tpl_lex_is_name(parser, "is")) {
            node = parse_test(parser, node);
        } else if (tpl_lex_is(parser, TPL_T_LPAREN)) {
            node = parse_call(parser, node);
        } else {
            break;
        }
    }
    leave(parser);
    return node;
}

static struct tpl_node *
binary(struct tpl_parser *parser, enum tpl_op op, struct tpl_node *a,
       struct tpl_node *b)
{
    struct tpl_node *node = tpl_parse_node(parser, TPL_BINARY, a->line);

    node->op = (uint8_t)op;
    node->a = a;
    node->b = b;
    return node;
}

static struct tpl_node *
parse_pow(struct tpl_parser *parser)
{
    struct tpl_node *left = parse_unary(parser, true);

    while (tpl_lex_skip(parser, TPL_T_POW)) {
        left = binary(parser, TPL_POW, left, parse_unary(parser, true));
    }
    return left;
}

static struct tpl_node *
parse_math2(struct tpl_parser *parser)
{
    struct tpl_node *left = parse_pow(parser);

    for (;;) {
        enum tpl_token token = parser->now.token;
        enum tpl_op op = token == TPL_T_MUL        ? TPL_MUL
                         : token == TPL_T_DIV      ? TPL_DIV
                         : token == TPL_T_FLOORDIV ? TPL_FLOORDIV
                         : token == TPL_T_MOD      ? TPL_MOD
                                                   : TPL_EQ;
        if (op == TPL_EQ) {
            return left;
        }
        (void)tpl_lex_next(parser);
        left = binary(parser, op, left, parse_pow(parser));
    }
}

static struct tpl_node *
parse_concat(struct tpl_parser *parser)
{
    struct tpl_node *first = parse_math2(parser);
    struct tpl_node **tail = &first->next;
    struct tpl_node *node = NULL;

    if (!tpl_lex_is(parser, TPL_T_TILDE)) {
        return first;
    }
    node = tpl_parse_node(parser, TPL_CONCAT, first->line);
    node->a = first;
    while (tpl_lex_skip(parser, TPL_T_TILDE)) {
        append(&tail, parse_math2(parser));
    }
    return node;
}

static struct tpl_node *
parse_math1(struct tpl_parser *parser)
{
    struct tpl_node *left = parse_concat(parser);

    while (tpl_lex_is(parser, TPL_T_ADD) || tpl_lex_is(parser, TPL_T_SUB)) {
        bool add = tpl_lex_next(parser).token == TPL_T_ADD;
        left =
            binary(parser, add ? TPL_ADD : TPL_SUB, left, parse_concat(parser));
    }
    return left;
}

/* The comparison that stands here, and moves past it; TPL_ADD: none. */
static enum tpl_op
comparison(struct tpl_parser *parser)
{
    static const struct {
        enum tpl_token token;
        enum tpl_op op;
    } signs[] = {{TPL_T_EQ, TPL_EQ}, {TPL_T_NE, TPL_NE}, {TPL_T_LT, TPL_LT},
                 {TPL_T_LE, TPL_LE}, {TPL_T_GT, TPL_GT}, {TPL_T_GE, TPL_GE}};

    for (size_t i = 0; i < sizeof signs / sizeof signs[0]; i++) {
        if (tpl_lex_skip(parser, signs[i].token)) {
            return signs[i].op;
        }
    }
    if (tpl_lex_skip_name(parser, "in")) {
        return TPL_IN;
    }
    if (tpl_lex_is_name(parser, "not") && parser->ahead.token == TPL_T_NAME &&
        slice_equal(parser->ahead.text, SLICE("in"))) {
        (void)tpl_lex_next(parser);
        (void)tpl_lex_next(parser);
        return TPL_NOTIN;
    }
    return TPL_ADD;
}

static struct tpl_node *
parse_compare(struct tpl_parser *parser)
{
    struct tpl_node *first = parse_math1(parser);
    struct tpl_node *node = NULL;
    struct tpl_node **tail = NULL;
    enum tpl_op op = TPL_ADD;

    while ((op = comparison(parser)) != TPL_ADD) {
        struct tpl_node *operand =
            tpl_parse_node(parser, TPL_OPERAND, parser->now.line);
        operand->op = (uint8_t)op;
        operand->a = parse_math1(parser);
        if (node == NULL) {
            node = tpl_parse_node(parser, TPL_COMPARE, first->line);
            node->a = first;
            tail = &node->b;
        }
        append(&tail, operand);
    }
    return node != NULL ? node : first;
}

static struct tpl_node *
parse_not(struct tpl_parser *parser)
{
    struct tpl_node *node = NULL;

    if (!tpl_lex_is_name(parser, "not")) {
        return parse_compare(parser);
    }
    enter(parser);
    node = tpl_parse_node(parser, TPL_NOT, parser->now.line);
    (void)tpl_lex_next(parser);
    node->a = parse_not(parser);
    leave(parser);
    return node;
}

static struct tpl_node *
parse_and(struct tpl_parser *parser)
{
    struct tpl_node *left = parse_not(parser);

    while (tpl_lex_skip_name(parser, "and")) {
        struct tpl_node *node = tpl_parse_node(parser, TPL_AND, left->line);
        node->a = left;
        node->b = parse_not(parser);
        left = node;
    }
    return left;
}

static struct tpl_node *
parse_or(struct tpl_parser *parser)
{
    struct tpl_node *left = parse_and(parser);

    while (tpl_lex_skip_name(parser, "or")) {
        struct tpl_node *node = tpl_parse_node(parser, TPL_OR, left->line);
        node->a = left;
        node->b = parse_and(parser);
        left = node;
    }
    return left;
}

struct tpl_node *
tpl_parse_expression(struct tpl_parser *parser)
{
    struct tpl_node *node = NULL;

    enter(parser);
    node = parse_or(parser);
    while (tpl_lex_skip_name(parser, "if")) {
        struct tpl_node *cond = tpl_parse_node(parser, TPL_COND, node->line);
        cond->b = node;
        cond->a = parse_or(parser);
        if (tpl_lex_skip_name(parser, "else")) {
            cond->c = tpl_parse_expression(parser);
        }
        node = cond;
    }
    leave(parser);
    return node;
}
