/* A chat completion as an answer of /v1/responses: what a whole one and the
 * events of a stream have in common. */
#include "node/dialect/dialect_responses_internal.h"

#include <inttypes.h>
#include <string.h>

void
dialect_response_name(struct buf *out, const struct dialect_chat *chat)
{
    buf_add_text(out, "\"id\":\"resp_");
    buf_add_slice(out, chat->id.text);
    buf_printf(out,
               "\",\"object\":\"response\",\"created_at\":%" PRIu64
               ",\"model\":\"",
               dialect_uint(&chat->created));
    buf_add_slice(out, chat->model.text);
    buf_add_text(out, "\"");
}

static void
put_usage(struct buf *out, const struct dialect_usage *usage)
{
    buf_printf(out,
               "{\"input_tokens\":%" PRIu64
               ",\"input_tokens_details\":{\"cached_tokens\":%" PRIu64
               "},\"output_tokens\":%" PRIu64
               ",\"output_tokens_details\":{\"reasoning_tokens\":0}"
               ",\"total_tokens\":%" PRIu64 "}",
               usage->prompt, usage->cached, usage->completion,
               usage->prompt + usage->completion);
}

/* Members that clients read, with what they mean where nothing was stored. */
#define REST                                                                  \
    ",\"background\":false,\"error\":null,\"instructions\":null,"             \
    "\"metadata\":{},\"parallel_tool_calls\":true,"                           \
    "\"previous_response_id\":null,\"store\":false,\"tool_choice\":\"auto\"," \
    "\"tools\":[]"

void
dialect_response_put(struct buf *out, struct slice name,
                     const struct dialect_response *r)
{
    const char *status = r->reason == NULL      ? "in_progress"
                         : r->reason[0] == '\0' ? "completed"
                                                : "incomplete";

    buf_add_text(out, "{");
    buf_add_slice(out, name);
    buf_printf(out, ",\"status\":\"%s\",\"incomplete_details\":", status);
    if (r->reason != NULL && r->reason[0] != '\0') {
        buf_printf(out, "{\"reason\":\"%s\"}", r->reason);
    } else {
        buf_add_text(out, "null");
    }
    buf_add_text(out, REST ",\"output\":[");
    buf_add_slice(out, r->items);
    buf_add_text(out, "],\"usage\":");
    if (r->usage != NULL) {
        put_usage(out, r->usage);
    } else {
        buf_add_text(out, "null");
    }
    buf_add_text(out, "}");
}

const char *
dialect_response_reason(const struct dialect_value *finish)
{
    return dialect_is(finish, "length")           ? "max_output_tokens"
           : dialect_is(finish, "content_filter") ? "content_filter"
                                                  : "";
}

/* Items */

void
dialect_item_put_id(struct buf *out, enum dialect_block kind, uint32_t index,
                    struct slice id)
{
    buf_add_text(out, kind == DIALECT_TEXT       ? "msg_"
                      : kind == DIALECT_THINKING ? "rs_"
                                                 : "fc_");
    buf_add_slice(out, id);
    buf_printf(out, "_%u", index);
}

void
dialect_item_put_part(struct buf *out, enum dialect_block kind,
                      struct slice text)
{
    buf_add_text(out, kind == DIALECT_TEXT
                          ? "{\"type\":\"output_text\",\"annotations\":[],"
                            "\"logprobs\":[],\"text\":\""
                          : "{\"type\":\"reasoning_text\",\"text\":\"");
    buf_add_slice(out, text);
    buf_add_text(out, "\"}");
}

/* Namespaces */

void
dialect_spaces_read(struct slice asked, struct buf *out)
{
    static const char *const outer[] = {"tools"};
    static const char *const names[] = {"type", "name"};
    struct dialect_value tools;
    struct dialect_items items;
    struct dialect_value item;
    struct dialect_value v[2];

    if (asked.len == 0 ||
        memmem(asked.ptr, asked.len, DIALECT_SPACE,
               sizeof(DIALECT_SPACE) - 1) == NULL ||
        !dialect_members(asked, outer, 1, &tools)) {
        return;
    }
    dialect_items_init(&items, &tools);
    while (dialect_items_next(&items, &item)) {
        if (dialect_members(item.raw, names, 2, v) &&
            dialect_is(&v[0], DIALECT_SPACE) && v[1].text.len != 0 &&
            buf_reserve(out, v[1].text.len + 1) != NULL) {
            buf_add_slice(out, v[1].text);
            buf_add_text(out, "\"");
        }
    }
}

/* Cuts its namespace off a function's name: the longest that fits. */
static struct slice
cut_space(struct slice spaces, struct slice *name)
{
    struct slice best = SLICE("");
    size_t cut = 0;

    while (spaces.len != 0) {
        const char *quote = memchr(spaces.ptr, '"', spaces.len);
        CHECK(quote != NULL);
        struct slice space = {spaces.ptr, (size_t)(quote - spaces.ptr)};
        spaces.len -= space.len + 1;
        spaces.ptr += space.len + 1;
        size_t len = space.len + sizeof(DIALECT_SPACE_END) - 1;
        if (len < name->len && len > cut &&
            memcmp(name->ptr, space.ptr, space.len) == 0 &&
            memcmp(name->ptr + space.len, DIALECT_SPACE_END, len - space.len) ==
                0) {
            best = space;
            cut = len;
        }
    }
    if (cut != 0) {
        name->ptr += cut;
        name->len -= cut;
    }
    return best;
}

/* A call's members, which are there from its begin. */
static void
put_call(struct buf *out, const struct dialect_item *item)
{
    struct slice name = item->name;
    struct slice space = cut_space(item->spaces, &name);

    buf_add_text(out, ",\"type\":\"function_call\",\"call_id\":\"");
    buf_add_slice(out, item->call_id);
    if (space.len != 0) {
        buf_add_text(out, "\",\"namespace\":\"");
        buf_add_slice(out, space);
    }
    buf_add_text(out, "\",\"name\":\"");
    buf_add_slice(out, name);
    buf_add_text(out, "\",\"arguments\":\"");
    buf_add_slice(out, item->text);
    buf_add_text(out, "\"");
}

void
dialect_item_put(struct buf *out, const struct dialect_item *item)
{
    buf_add_text(out, "{\"id\":\"");
    dialect_item_put_id(out, item->kind, item->index, item->id);
    buf_printf(out, "\",\"status\":\"%s\"",
               item->open ? "in_progress" : "completed");
    if (item->kind == DIALECT_TOOL) {
        put_call(out, item);
        buf_add_text(out, "}");
        return;
    }
    buf_add_text(out, item->kind == DIALECT_TEXT
                          ? ",\"type\":\"message\",\"role\":\"assistant\""
                          : ",\"type\":\"reasoning\",\"summary\":[]");
    buf_add_text(out, ",\"content\":[");
    if (!item->open) {
        dialect_item_put_part(out, item->kind, item->text);
    }
    buf_add_text(out, "]}");
}

/* A whole answer */

static void
add_item(struct buf *out, struct dialect_item *item, enum dialect_block kind,
         struct slice text)
{
    if (item->index != 0) {
        buf_add_text(out, ",");
    }
    item->kind = kind;
    item->text = text;
    dialect_item_put(out, item);
    item->index++;
}

static bool
put_items(struct buf *out, const struct dialect_chat *chat, struct slice spaces)
{
    struct dialect_item item = {.id = chat->id.text, .spaces = spaces};
    struct dialect_items items;
    struct dialect_value value;
    struct dialect_call call;

    if (chat->thought.text.len != 0) {
        add_item(out, &item, DIALECT_THINKING, chat->thought.text);
    }
    if (chat->content.text.len != 0) {
        add_item(out, &item, DIALECT_TEXT, chat->content.text);
    }
    dialect_items_init(&items, &chat->calls);
    while (dialect_items_next(&items, &value)) {
        if (!dialect_call_read(&value, &call)) {
            return false;
        }
        item.call_id = call.id.text;
        item.name = call.name.text;
        add_item(out, &item, DIALECT_TOOL, call.arguments.text);
    }
    return true;
}

bool
dialect_response_answer(struct slice asked, struct slice json, struct buf *out)
{
    struct dialect_chat chat;
    struct buf spaces;
    struct buf name;
    struct buf items;

    if (!dialect_chat_read_whole(json, &chat)) {
        return false;
    }
    buf_init(&spaces, DIALECT_EVENT_MAX);
    buf_init(&name, DIALECT_EVENT_MAX);
    buf_init(&items, out->max_bytes);
    dialect_spaces_read(asked, &spaces);
    dialect_response_name(&name, &chat);
    bool good = put_items(&items, &chat, buf_slice(&spaces));
    const struct dialect_response whole = {
        .items = buf_slice(&items),
        .reason = dialect_response_reason(&chat.finish),
        .usage = &chat.usage,
    };
    dialect_response_put(out, buf_slice(&name), &whole);
    good =
        good && !spaces.failed && !name.failed && !items.failed && !out->failed;
    buf_fini(&spaces);
    buf_fini(&name);
    buf_fini(&items);
    return good;
}
