/*
 * Whether a template goes through a message's content part by part.
 *
 * This is vLLM's rule (entrypoints/chat_utils.py, _detect_content_format): there
 * is a loop over a name called content, or over X.content or X["content"], where
 * X is the variable of a loop over messages, or over a name that messages were
 * assigned to. Filters, tests
 * and slices around either do not matter. A target that is no plain name makes
 * vLLM give up, and take text.
 */
#include "node/template/template_tree_internal.h"

#define NAMES_MAX 256

struct names {
    struct slice at[NAMES_MAX];
    uint32_t len;
    bool failed; /* vLLM would have given up here */
};

/* What is done with each node of a kind; false: stop. */
struct search {
    uint8_t kind;
    void (*found)(struct search *search, const struct tpl_node *node);
    struct names *from; /* names to look for */
    struct names *to;   /* names that were found */
    struct slice now;   /* the one that is followed */
    bool content;       /* its content, instead of itself */
};

static void
add_name(struct names *names, const struct tpl_node *target)
{
    if (target->kind != TPL_NAME || names->len == NAMES_MAX) {
        names->failed = true;
        return;
    }
    names->at[names->len++] = json_tree_slice(&target->value);
}

/* Whether an expression is this name, or its content. */
static bool
reads(const struct tpl_node *node, struct slice name, bool content)
{
    while (node != NULL &&
           (node->kind == TPL_FILTER || node->kind == TPL_TEST ||
            (node->kind == TPL_ITEM && node->b->kind == TPL_SLICE))) {
        node = node->a;
    }
    if (node == NULL) {
        return false;
    }
    if (content) {
        const struct json_value *key = &node->value;
        if (node->kind == TPL_ITEM && node->b->kind == TPL_CONST) {
            key = &node->b->value;
        } else if (node->kind != TPL_ATTR) {
            return false;
        }
        if (key->kind != JSON_STRING ||
            !slice_equal(json_tree_slice(key), SLICE("content"))) {
            return false;
        }
        node = node->a;
    }
    return node->kind == TPL_NAME &&
           slice_equal(json_tree_slice(&node->value), name);
}

/* {% set to = now %} */
static void
found_set(struct search *search, const struct tpl_node *node)
{
    if (reads(node->b, search->now, false)) {
        bool itself =
            node->a->kind == TPL_NAME &&
            slice_equal(json_tree_slice(&node->a->value), search->now);
        if (!itself) {
            add_name(search->to, node->a);
        }
    }
}

/* {% for to in from %}, or in from.content */
static void
found_for(struct search *search, const struct tpl_node *node)
{
    for (uint32_t i = 0; i < search->from->len; i++) {
        if (reads(node->b, search->from->at[i], search->content)) {
            add_name(search->to, node->a);
            return;
        }
    }
    if (search->content && node->b->kind == TPL_NAME &&
        slice_equal(json_tree_slice(&node->b->value), SLICE("content"))) {
        add_name(search->to, node->a);
    }
}

static void
visit(struct search *search, const struct tpl_node *first)
{
    for (const struct tpl_node *node = first; node != NULL; node = node->next) {
        if (node->kind == search->kind) {
            search->found(search, node);
        }
        switch ((int)node->kind) {
        case TPL_FOR:
        case TPL_IF:
        case TPL_SETBLOCK:
        case TPL_FILTERBLOCK:
        case TPL_WITH:
            visit(search, node->b);
            visit(search, node->c);
            visit(search, node->d);
            break;
        case TPL_MACRO:
        case TPL_CALLBLOCK:
            visit(search, node->function->body);
            break;
        default: /* expressions hold no statements */
            break;
        }
    }
}

bool
template_takes_parts(const struct template *compiled)
{
    struct names lists = {.at = {SLICE("messages")}, .len = 1};
    struct names messages = {.len = 0};
    struct names contents = {.len = 0};
    struct search sets = {.kind = TPL_SET, .found = found_set, .to = &lists};
    struct search loops = {
        .kind = TPL_FOR, .found = found_for, .from = &lists, .to = &messages};
    struct search parts = {.kind = TPL_FOR,
                           .found = found_for,
                           .from = &messages,
                           .to = &contents,
                           .content = true};

    for (uint32_t i = 0; i < lists.len && !lists.failed; i++) {
        sets.now = lists.at[i];
        visit(&sets, compiled->body);
    }
    visit(&loops, compiled->body);
    visit(&parts, compiled->body);
    return contents.len > 0 && !lists.failed && !messages.failed;
}
