/* From a request's spans to token ids, by a fixed chat template. */
#include "chaos/engine/engine_prompt_internal.h"

#include <stdio.h>

#include "chaos/engine/engine_json_internal.h"
#include "index/index.h"

void
engine_prompt_init(struct engine_prompt *prompt, size_t max_tokens)
{
    prompt->scan = (struct scan){.spans = prompt->spans};
    prompt->body = SLICE("");
    prompt->fault[0] = '\0';
    prompt->files = NULL;
    engine_ids_init(&prompt->ids, max_tokens);
    buf_init(&prompt->text, SIZE_MAX / 2);
}

void
engine_prompt_fini(struct engine_prompt *prompt)
{
    engine_ids_fini(&prompt->ids);
    buf_fini(&prompt->text);
}

static int
bad(struct engine_prompt *prompt, const char *fault)
{
    (void)snprintf(prompt->fault, sizeof(prompt->fault), "%s", fault);
    return ENGINE_PROMPT_E_BAD;
}

int
engine_prompt_scan(struct engine_prompt *prompt, struct slice body,
                   enum scan_api api)
{
    struct scan_limits limits = {.depth_max = ENGINE_DEPTH_MAX,
                                 .spans_max = ENGINE_SPANS_MAX};

    prompt->body = body;
    prompt->scan.spans = prompt->spans;
    prompt->scan.api = api;
    if (scan_body(body.ptr, body.len, &limits, &prompt->scan) != 0) {
        (void)snprintf(prompt->fault, sizeof(prompt->fault),
                       "the body is not a JSON object: %s at byte %zu",
                       prompt->scan.fault, prompt->scan.fault_at);
        return ENGINE_PROMPT_E_BAD;
    }
    return 0;
}

static struct slice
unescape(struct engine_prompt *prompt, uint32_t at, uint32_t len, bool escaped)
{
    struct slice raw = {prompt->body.ptr + at, len};

    CHECK(at <= prompt->body.len && len <= prompt->body.len - at);
    if (!escaped) {
        return raw;
    }
    buf_clear(&prompt->text);
    char *room = buf_reserve(&prompt->text, len);
    if (room == NULL) {
        prompt->ids.failed = true;
        return SLICE("");
    }
    return (struct slice){room, scan_unescape(raw.ptr, raw.len, room)};
}

struct slice
engine_prompt_text(struct engine_prompt *prompt, struct scan_text text)
{
    return text.present ? unescape(prompt, text.at, text.len, text.escaped)
                        : SLICE("");
}

static void
add_role(struct engine_ids *ids, struct slice role)
{
    static const struct {
        const char *name;
        enum engine_special special;
    } roles[] = {
        {"system", ENGINE_SPECIAL_SYSTEM},
        {"developer", ENGINE_SPECIAL_SYSTEM},
        {"user", ENGINE_SPECIAL_USER},
        {"assistant", ENGINE_SPECIAL_ASSISTANT},
        {"tool", ENGINE_SPECIAL_TOOL},
        {"function", ENGINE_SPECIAL_TOOL},
    };

    for (size_t i = 0; i < sizeof(roles) / sizeof(roles[0]); i++) {
        if (slice_equal(role, slice_of(roles[i].name))) {
            engine_ids_add(ids, roles[i].special);
            return;
        }
    }
    engine_ids_add(ids, ENGINE_SPECIAL_ROLE);
    engine_ids_add_text(ids, role);
}

/* An image's tokens are derived from its hash. */
static void
add_media(struct engine_ids *ids, struct slice identity)
{
    uint64_t digest = key_digest(identity);

    engine_ids_add(ids, ENGINE_SPECIAL_MEDIA);
    engine_ids_add(ids, 0x03000000 | (uint32_t)(digest >> 40));
    engine_ids_add(ids, 0x03000000 | (uint32_t)(digest >> 16 & 0xFFFFFF));
}

static bool
is_true(const struct engine_prompt *prompt, enum scan_option option)
{
    const struct scan_text *raw = &prompt->scan.options[option];

    return raw->present && prompt->body.ptr[raw->at] == 't';
}

/* Where in the template a span stands. */
struct place {
    bool chat;       /* the prompt is messages */
    bool in_message; /* its end marker is due */
};

static bool
add_span(struct engine_prompt *prompt, const struct scan_span *span,
         struct place *place)
{
    struct engine_ids *ids = &prompt->ids;
    struct slice text = unescape(prompt, span->at, span->len, span->escaped);
    bool outside = place->chat && !place->in_message;

    switch ((enum scan_span_kind)span->kind) {
    case SCAN_ROLE:
        if (place->in_message) {
            engine_ids_add(ids, ENGINE_SPECIAL_END);
        }
        place->in_message = true;
        add_role(ids, text);
        prompt->spoken_at = ids->count;
        prompt->continues = slice_equal(text, SLICE("assistant")) &&
                            is_true(prompt, SCAN_CONTINUE_FINAL_MESSAGE);
        return true;
    case SCAN_TEXT:
    case SCAN_TOOLS:
        if (outside) {
            engine_ids_add(ids, span->kind == SCAN_TOOLS
                                    ? ENGINE_SPECIAL_TOOLS
                                    : ENGINE_SPECIAL_SYSTEM);
        }
        engine_ids_add_text(ids, text);
        if (outside) {
            engine_ids_add(ids, ENGINE_SPECIAL_END);
        }
        return true;
    case SCAN_MEDIA:
        add_media(ids, text);
        return true;
    case SCAN_IDS:
        return engine_json_id_array(text, ids);
    }
    return false;
}

/* The last span is what the user says, without a role. */
static bool
is_bare_input(const struct scan *scan)
{
    return scan->api == SCAN_API_RESPONSES && scan->shape == SCAN_STRING;
}

/* By a model's own files. ENGINE_FILES_E_OWN: they are not for this prompt. */
static int
render_by_files(struct engine_prompt *prompt)
{
    int r = prompt->files != NULL
                ? engine_files_render(prompt->files, prompt->body,
                                      &prompt->scan, &prompt->ids)
                : ENGINE_FILES_E_OWN;

    if (r == ENGINE_FILES_E_BAD) {
        (void)bad(prompt, prompt->files->answer.why);
    }
    return r;
}

int
engine_prompt_render(struct engine_prompt *prompt, bool speak)
{
    const struct scan *scan = &prompt->scan;
    bool bare = is_bare_input(scan);
    struct place place = {.chat = scan->shape == SCAN_MESSAGES || bare};

    CHECK(scan->fault == NULL && scan->spans_count <= ENGINE_SPANS_MAX);
    prompt->ids.count = 0;
    prompt->ids.failed = false;
    prompt->continues = false;
    int by_files = render_by_files(prompt);
    if (by_files != ENGINE_FILES_E_OWN) {
        return by_files != 0        ? ENGINE_PROMPT_E_BAD
               : prompt->ids.failed ? ENGINE_PROMPT_E_MEMORY
                                    : 0;
    }
    if (scan->shape == SCAN_NO_PROMPT) {
        return bad(prompt, "there are no messages and no prompt");
    }
    if (scan->spans_truncated) {
        return bad(prompt, "the prompt has too many parts");
    }
    for (uint32_t i = 0; i < scan->spans_count; i++) {
        if (bare && i + 1 == scan->spans_count) {
            place.in_message = true;
            add_role(&prompt->ids, SLICE("user"));
        }
        if (!add_span(prompt, &scan->spans[i], &place)) {
            return bad(prompt, "token ids must be integers from 0 to 2^32 - 1");
        }
    }
    if (place.in_message && !prompt->continues) {
        engine_ids_add(&prompt->ids, ENGINE_SPECIAL_END);
    }
    if (place.chat && speak && !prompt->continues) {
        engine_ids_add(&prompt->ids, ENGINE_SPECIAL_ASSISTANT);
    }
    if (prompt->ids.failed) {
        return ENGINE_PROMPT_E_MEMORY;
    }
    return prompt->ids.count > 0 ? 0 : bad(prompt, "the prompt is empty");
}
