/*
 * Whether a template goes through a message's content part by part, as engines
 * find out.
 *
 * vLLM 0.33 (renderers/hf.py, _detect_content_format): there is a loop over
 * X.content or X["content"], where X is the variable of a loop over messages, or
 * over a name or a namespace's member that messages were assigned to; or in a
 * macro over the parameter that gets such a content; or outside of macros over
 * the name content. Filters, tests and slices around any of them do not matter.
 * A loop's target that is no plain name makes vLLM give up, and take text.
 *
 * SGLang 0.5.23 (srt/parser/jinja_template_utils.py,
 * detect_jinja_template_content_format): it speaks of pictures, sounds or videos,
 * or has a loop over the content of message, msg or m, whatever these are.
 */
#include <string.h>

#include "node/template/template_tree_internal.h"

#define NAMES_MAX 256

/* A name, or a namespace's member. */
struct name {
    struct slice base;
    struct slice member; /* empty: the name alone */
};

struct names {
    struct name at[NAMES_MAX];
    uint32_t len;
    bool failed; /* vLLM would have given up here */
};

/* What is done with each node of a kind. */
struct search {
    const struct tpl_node *body; /* of the template */
    uint8_t kind;
    void (*found)(struct search *search, const struct tpl_node *node);
    const struct names *from;      /* names to look for */
    struct names *to;              /* names that were found */
    struct name now;               /* the one that is followed */
    const struct tpl_node *around; /* the innermost macro, or NULL */
    const struct tpl_node *called; /* the macro whose calls are looked for */
    bool some;                     /* what is looked for was found */
};

static void
add_name(struct names *names, struct name name)
{
    for (uint32_t i = 0; i < names->len; i++) {
        if (slice_equal(names->at[i].base, name.base) &&
            slice_equal(names->at[i].member, name.member)) {
            return;
        }
    }
    if (names->len == NAMES_MAX) {
        names->failed = true;
        return;
    }
    names->at[names->len++] = name;
}

static bool
is_plain(const struct tpl_node *node, struct slice name)
{
    return node->kind == TPL_NAME &&
           slice_equal(json_tree_slice(&node->value), name);
}

static bool
is_name(const struct tpl_node *node, const struct name *name)
{
    return name->member.len == 0
               ? is_plain(node, name->base)
               : node->kind == TPL_ATTR &&
                     slice_equal(json_tree_slice(&node->value), name->member) &&
                     is_plain(node->a, name->base);
}

/* Without filters, tests and slices; NULL: a filter of a block. */
static const struct tpl_node *
bare(const struct tpl_node *node)
{
    while (node != NULL &&
           (node->kind == TPL_FILTER || node->kind == TPL_TEST ||
            (node->kind == TPL_ITEM && node->b->kind == TPL_SLICE))) {
        node = node->a;
    }
    return node;
}

static bool
reads(const struct tpl_node *node, const struct name *name)
{
    node = bare(node);
    return node != NULL && is_name(node, name);
}

/* Whose content an expression is; NULL: nobody's. */
static const struct tpl_node *
content_of(const struct tpl_node *node)
{
    const struct json_value *key = NULL;

    node = bare(node);
    if (node != NULL && node->kind == TPL_ATTR) {
        key = &node->value;
    } else if (node != NULL && node->kind == TPL_ITEM &&
               node->b->kind == TPL_CONST) {
        key = &node->b->value;
    }
    return key != NULL && key->kind == JSON_STRING &&
                   slice_equal(json_tree_slice(key), SLICE("content"))
               ? node->a
               : NULL;
}

static bool
reads_content(const struct tpl_node *node, const struct names *names)
{
    const struct tpl_node *of = content_of(node);

    for (uint32_t i = 0; of != NULL && i < names->len; i++) {
        if (is_name(of, &names->at[i])) {
            return true;
        }
    }
    return false;
}

/* Goes through expressions, too: macros are called in them. */
static void
visit(struct search *search, const struct tpl_node *first)
{
    for (const struct tpl_node *node = first; node != NULL; node = node->next) {
        const struct tpl_node *outer = search->around;
        if (node->kind == search->kind) {
            search->found(search, node);
        }
        visit(search, node->a);
        visit(search, node->b);
        visit(search, node->c);
        visit(search, node->d);
        visit(search, node->e);
        if (node->kind == TPL_MACRO || node->kind == TPL_CALLBLOCK) {
            search->around = node->kind == TPL_MACRO ? node : outer;
            visit(search, node->function->presets);
            visit(search, node->function->body);
            search->around = outer;
        }
    }
}

/* {% set to = now %}, {% set to.member = now %} and
 * {% set to = namespace(member=now) %} */
static void
found_set(struct search *search, const struct tpl_node *node)
{
    const struct tpl_node *to = node->a;
    const struct tpl_node *value = node->b;

    if (to->kind == TPL_NAME && reads(value, &search->now)) {
        add_name(search->to,
                 (struct name){.base = json_tree_slice(&to->value)});
    } else if (to->kind == TPL_NSREF && reads(value, &search->now)) {
        add_name(search->to, (struct name){json_tree_slice(&to->a->value),
                                           json_tree_slice(&to->value)});
    } else if (to->kind == TPL_NAME && value->kind == TPL_CALL &&
               is_plain(value->a, SLICE("namespace"))) {
        for (const struct tpl_node *i = value->b; i != NULL; i = i->next) {
            if (i->op == TPL_KEYWORD && reads(i->a, &search->now)) {
                add_name(search->to, (struct name){json_tree_slice(&to->value),
                                                   json_tree_slice(&i->value)});
            }
        }
    }
}

/* {% for to in from %} */
static void
found_messages(struct search *search, const struct tpl_node *node)
{
    for (uint32_t i = 0; i < search->from->len; i++) {
        if (!reads(node->b, &search->from->at[i])) {
            continue;
        }
        if (node->a->kind == TPL_NAME) {
            add_name(search->to,
                     (struct name){.base = json_tree_slice(&node->a->value)});
        } else {
            search->to->failed = true;
        }
        return;
    }
}

/* {{ called(from.content) }}: is it the parameter now that gets it? */
static void
found_call(struct search *search, const struct tpl_node *node)
{
    const struct tpl_node *parameter = search->called->function->args;

    if (!is_plain(node->a, json_tree_slice(&search->called->value))) {
        return;
    }
    for (const struct tpl_node *i = node->b; i != NULL; i = i->next) {
        bool gets =
            i->op == TPL_KEYWORD
                ? slice_equal(json_tree_slice(&i->value), search->now.base)
                : i->op == TPL_PLAIN && parameter != NULL &&
                      is_plain(parameter, search->now.base);
        search->some |= gets && reads_content(i->a, search->from);
        parameter = parameter != NULL ? parameter->next : NULL;
    }
}

static bool
is_content_parameter(const struct search *search, struct slice name)
{
    struct search calls = {.body = search->body,
                           .kind = TPL_CALL,
                           .found = found_call,
                           .from = search->from,
                           .now = {.base = name},
                           .called = search->around};

    visit(&calls, search->body);
    return calls.some;
}

/* {% for part in from.content %} */
static void
found_parts(struct search *search, const struct tpl_node *node)
{
    struct slice name = {0};

    if (reads_content(node->b, search->from)) {
        search->some = true;
    } else if (node->b->kind == TPL_NAME) {
        name = json_tree_slice(&node->b->value);
        search->some |= search->around != NULL
                            ? is_content_parameter(search, name)
                            : slice_equal(name, SLICE("content"));
    }
}

static bool
vllm_takes_parts(const struct template *compiled)
{
    struct names lists = {.at = {{.base = SLICE("messages")}}, .len = 1};
    struct names messages = {.len = 0};
    struct search sets = {.kind = TPL_SET, .found = found_set, .to = &lists};
    struct search loops = {.kind = TPL_FOR,
                           .found = found_messages,
                           .from = &lists,
                           .to = &messages};
    struct search parts = {.body = compiled->body,
                           .kind = TPL_FOR,
                           .found = found_parts,
                           .from = &messages};

    for (uint32_t i = 0; i < lists.len && !lists.failed; i++) {
        sets.now = lists.at[i];
        visit(&sets, compiled->body);
    }
    visit(&loops, compiled->body);
    visit(&parts, compiled->body);
    return parts.some && !lists.failed && !messages.failed;
}

static void
found_sglang_parts(struct search *search, const struct tpl_node *node)
{
    search->some |= reads_content(node->b, search->from);
}

static bool
sglang_takes_parts(const struct template *compiled)
{
    static const char *const media[] = {"image", "audio", "video", "vision"};
    struct names messages = {.at = {{.base = SLICE("message")},
                                    {.base = SLICE("msg")},
                                    {.base = SLICE("m")}},
                             .len = 3};
    struct search parts = {
        .kind = TPL_FOR, .found = found_sglang_parts, .from = &messages};
    struct slice source = compiled->source;

    for (size_t i = 0; i < sizeof media / sizeof media[0]; i++) {
        parts.some |=
            memmem(source.ptr, source.len, media[i], strlen(media[i])) != NULL;
    }
    visit(&parts, compiled->body);
    return parts.some;
}

bool
template_takes_parts(const struct template *compiled, enum template_rule rule)
{
    return rule == TEMPLATE_SGLANG ? sglang_takes_parts(compiled)
                                   : vllm_takes_parts(compiled);
}
