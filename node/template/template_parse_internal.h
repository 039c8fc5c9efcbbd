/* The compiler's parts: tokens, expressions, statements, names. A fault leaves
 * all of them at once, by longjmp() to template_compile(): they own nothing but
 * the arena's memory, and every grammar rule would otherwise end in a test. */
#ifndef NODE_TEMPLATE_PARSE_INTERNAL_H
#define NODE_TEMPLATE_PARSE_INTERNAL_H

#include <setjmp.h>

#include "node/template/template_tree_internal.h"

#define TPL_PARSE_DEPTH_MAX 200

enum tpl_token {
    TPL_T_EOF,
    TPL_T_DATA,
    TPL_T_BLOCK_BEGIN,
    TPL_T_BLOCK_END,
    TPL_T_VARIABLE_BEGIN,
    TPL_T_VARIABLE_END,
    TPL_T_NAME,
    TPL_T_STRING,
    TPL_T_INTEGER,
    TPL_T_FLOAT,
    TPL_T_ADD,
    TPL_T_SUB,
    TPL_T_MUL,
    TPL_T_DIV,
    TPL_T_FLOORDIV,
    TPL_T_MOD,
    TPL_T_POW,
    TPL_T_TILDE,
    TPL_T_LBRACKET,
    TPL_T_RBRACKET,
    TPL_T_LPAREN,
    TPL_T_RPAREN,
    TPL_T_LBRACE,
    TPL_T_RBRACE,
    TPL_T_EQ,
    TPL_T_NE,
    TPL_T_GT,
    TPL_T_GE,
    TPL_T_LT,
    TPL_T_LE,
    TPL_T_ASSIGN,
    TPL_T_DOT,
    TPL_T_COLON,
    TPL_T_PIPE,
    TPL_T_COMMA,
    TPL_T_SEMICOLON,
};

struct tpl_lexeme {
    enum tpl_token token;
    uint32_t line;
    struct slice text;       /* a name; data */
    struct json_value value; /* a string, a number */
};

/* Where the lexer stands between two tokens. */
enum tpl_lex_state {
    TPL_LEX_ROOT,
    TPL_LEX_BLOCK,
    TPL_LEX_VARIABLE
};

struct tpl_parser {
    struct template *tpl;
    struct slice source;
    size_t at;
    uint32_t line;
    enum tpl_lex_state state;
    bool line_starting; /* what came before ended with a newline */
    bool opens;         /* data was handed out; the tag's begin comes next */
    char brackets[TPL_PARSE_DEPTH_MAX];
    uint32_t brackets_count;
    struct tpl_lexeme now;
    struct tpl_lexeme ahead;
    uint32_t depth;       /* of rules in one another */
    uint32_t loops;       /* around this place, in this function */
    uint32_t uses_caller; /* how often these names were loaded so far */
    uint32_t uses_kwargs;
    uint32_t uses_varargs;
    jmp_buf out;
    struct template_error *error;
};

/* Leaves the compiler with a message. */
NORETURN __attribute__((format(printf, 3, 4))) void
tpl_parse_fail(struct tpl_parser *parser, uint32_t line, const char *format,
               ...);

/* n bytes of the template's memory. */
void *tpl_parse_take(struct tpl_parser *parser, size_t n);

/* Starts the lexer: now and ahead hold the first two tokens. */
void tpl_lex_start(struct tpl_parser *parser);

/* Moves on by a token; returns the one that was current. */
struct tpl_lexeme tpl_lex_next(struct tpl_parser *parser);

/* Whether the current token is this one, or this name. */
bool tpl_lex_is(const struct tpl_parser *parser, enum tpl_token token);
bool tpl_lex_is_name(const struct tpl_parser *parser, const char *name);

/* Moves past the token or name when it is the current one. */
bool tpl_lex_skip(struct tpl_parser *parser, enum tpl_token token);
bool tpl_lex_skip_name(struct tpl_parser *parser, const char *name);

/* Moves past it, or fails. */
struct tpl_lexeme tpl_lex_expect(struct tpl_parser *parser,
                                 enum tpl_token token);

/* Reads a string literal (with its quotes) or a number. */
void tpl_literal_string(struct tpl_parser *parser, struct slice raw,
                        struct json_value *value);
void tpl_literal_number(struct tpl_parser *parser, struct slice raw,
                        bool integer, struct json_value *value);

struct tpl_node *tpl_parse_node(struct tpl_parser *parser, enum tpl_kind kind,
                                uint32_t line);

/* What parse_tuple() of jinja2 takes: which forms an expression may have. */
struct tpl_tuple_form {
    bool simplified;      /* only names and literals */
    bool no_condexpr;     /* no a if b */
    bool parentheses;     /* () is a tuple */
    bool with_namespace;  /* a.b is a target */
    const char *end_name; /* ends it, too */
};

struct tpl_node *tpl_parse_tuple(struct tpl_parser *parser,
                                 struct tpl_tuple_form form);
struct tpl_node *tpl_parse_expression(struct tpl_parser *parser);
/* Filters after a value; of NULL: those of a block, the first without "|" when
 * inline_first. */
struct tpl_node *tpl_parse_filter(struct tpl_parser *parser,
                                  struct tpl_node *of, bool inline_first);
struct tpl_node *tpl_parse_target(struct tpl_parser *parser,
                                  struct tpl_tuple_form form);

/* The whole template. */
struct tpl_node *tpl_parse_template(struct tpl_parser *parser);

/* Gives every name its slot. */
void tpl_bind(struct tpl_parser *parser);

#endif
