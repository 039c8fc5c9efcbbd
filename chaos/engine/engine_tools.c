/* Which tool an answer calls. */
#include "chaos/engine/engine_tools_internal.h"

#include <string.h>

#include "chaos/engine/engine_json_internal.h"

#define SIGN "call "

/* What a tool is called, and the first of its parameters. */
static struct engine_tool
read_tool(struct slice raw)
{
    struct slice function = engine_json_raw(raw, SLICE("function"));
    struct slice properties = engine_json_raw(
        engine_json_raw(function, SLICE("parameters")), SLICE("properties"));
    struct slice first = engine_json_first_key(properties);

    return (struct engine_tool){
        .name = engine_json_inside(engine_json_raw(function, SLICE("name"))),
        .argument = first.len != 0 ? first : SLICE("input"),
    };
}

/* The first tool of that name, or the first one if no name is given. */
static bool
find_tool(struct slice tools, struct slice name, struct engine_tool *tool)
{
    struct json_pull items;
    struct slice item;
    bool open = engine_json_items(&items, tools);

    while (open && engine_json_next(&items, &item)) {
        *tool = read_tool(item);
        if (tool->name.len != 0 &&
            (name.len == 0 || slice_equal(tool->name, name))) {
            return true;
        }
    }
    *tool = (struct engine_tool){.name = SLICE("")};
    return false;
}

/* Whether the text says "call NAME", and not a longer name. */
static bool
is_asked_for(struct slice text, struct slice name)
{
    const char *end = text.ptr + text.len;
    size_t sign = strlen(SIGN);

    while (text.len > sign) {
        const char *at = memmem(text.ptr, text.len, SIGN, sign);
        if (at == NULL) {
            return false;
        }
        const char *said = at + sign;
        size_t left = (size_t)(end - said);
        if (left >= name.len && memcmp(said, name.ptr, name.len) == 0 &&
            (left == name.len || strchr(" .,;:!?\n", said[name.len]) != NULL)) {
            return true;
        }
        text = (struct slice){said, left};
    }
    return false;
}

/* The tool that a text of the last message asks for. */
static void
find_asked(struct engine_prompt *prompt, struct slice tools,
           const struct scan_span *span, struct engine_tool *tool)
{
    struct json_pull items;
    struct slice item;
    bool open = engine_json_items(&items, tools);
    struct slice text = engine_prompt_text(
        prompt, (struct scan_text){.at = span->at,
                                   .len = span->len,
                                   .present = true,
                                   .escaped = span->escaped});

    while (tool->name.len == 0 && open && engine_json_next(&items, &item)) {
        struct engine_tool one = read_tool(item);
        if (one.name.len != 0 && is_asked_for(text, one.name)) {
            *tool = one;
        }
    }
}

/* The first span behind the last role, if that is the user's; or all of them. */
static uint32_t
find_last_user(struct engine_prompt *prompt)
{
    const struct scan *scan = &prompt->scan;
    uint32_t i = scan->spans_count;

    while (i > 0 && scan->spans[i - 1].kind != SCAN_ROLE) {
        i--;
    }
    if (i == 0) {
        return scan->spans_count;
    }
    const struct scan_span *role = &scan->spans[i - 1];
    struct slice name = {prompt->body.ptr + role->at, role->len};
    return slice_equal(name, SLICE("user")) ? i : scan->spans_count;
}

int
engine_tools_choose(struct engine_prompt *prompt, struct engine_tool *tool)
{
    const struct scan *scan = &prompt->scan;
    const struct scan_text *how = &scan->options[SCAN_TOOL_CHOICE];
    const char *body = prompt->body.ptr;
    struct slice tools = {body + scan->tools_raw.at, scan->tools_raw.len};
    struct slice choice = {body + how->at, how->present ? how->len : 0};

    *tool = (struct engine_tool){.name = SLICE("")};
    if (slice_equal(choice, SLICE("\"none\""))) {
        return 0;
    }
    if (choice.len != 0 && choice.ptr[0] == '{') {
        struct slice name = engine_json_inside(engine_json_raw(
            engine_json_raw(choice, SLICE("function")), SLICE("name")));
        return name.len != 0 && scan->tools_raw.present &&
                       find_tool(tools, name, tool)
                   ? 0
                   : ENGINE_TOOLS_E_UNKNOWN;
    }
    if (!scan->tools_raw.present) {
        return slice_equal(choice, SLICE("\"required\""))
                   ? ENGINE_TOOLS_E_UNKNOWN
                   : 0;
    }
    for (uint32_t i = find_last_user(prompt); i < scan->spans_count; i++) {
        if (scan->spans[i].kind == SCAN_TEXT && tool->name.len == 0) {
            find_asked(prompt, tools, &scan->spans[i], tool);
        }
    }
    if (tool->name.len == 0 && slice_equal(choice, SLICE("\"required\"")) &&
        !find_tool(tools, SLICE(""), tool)) {
        return ENGINE_TOOLS_E_UNKNOWN;
    }
    return 0;
}
