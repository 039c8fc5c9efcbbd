/*
 * Content: a string, or an array of parts of many types.
 */
#include "node/scan/scan_walk_internal.h"

#define NAME(literal)                                \
    {                                                \
        .ptr = (literal), .len = sizeof(literal) - 1 \
    }

/* The keys under which parts keep what they are about. */
enum part_key {
    PART_TEXT,
    PART_REFUSAL,
    PART_IMAGE_URL,
    PART_AUDIO_URL,
    PART_VIDEO_URL,
    PART_INPUT_AUDIO,
    PART_FILE,
    PART_SOURCE,
    PART_KEYS,
};

static const struct slice part_keys[PART_KEYS] = {
    [PART_TEXT] = NAME("text"),
    [PART_REFUSAL] = NAME("refusal"),
    [PART_IMAGE_URL] = NAME("image_url"),
    [PART_AUDIO_URL] = NAME("audio_url"),
    [PART_VIDEO_URL] = NAME("video_url"),
    [PART_INPUT_AUDIO] = NAME("input_audio"),
    [PART_FILE] = NAME("file"),
    [PART_SOURCE] = NAME("source"),
};

static const struct part_type {
    struct slice type;
    enum part_key key;
} part_types[] = {
    {NAME("text"), PART_TEXT},
    {NAME("input_text"), PART_TEXT},
    {NAME("output_text"), PART_TEXT},
    {NAME("refusal"), PART_REFUSAL},
    {NAME("image_url"), PART_IMAGE_URL},
    {NAME("input_image"), PART_IMAGE_URL},
    {NAME("audio_url"), PART_AUDIO_URL},
    {NAME("video_url"), PART_VIDEO_URL},
    {NAME("input_audio"), PART_INPUT_AUDIO},
    {NAME("file"), PART_FILE},
    {NAME("image"), PART_SOURCE},
    {NAME("document"), PART_SOURCE},
};

/* The members of a media object that say which one it is, the best first. */
static const struct slice media_keys[] = {NAME("url"), NAME("data"),
                                          NAME("file_data"), NAME("file_id")};
#define MEDIA_KEYS (sizeof(media_keys) / sizeof(media_keys[0]))

/* Which of count names it is; count when none. */
static size_t
find(struct slice name, const struct slice *names, size_t count)
{
    size_t i = 0;

    CHECK_SLOW(count > 0);
    while (i < count && !slice_equal(name, names[i])) {
        i++;
    }
    return i;
}

/* "https://..." or {"url": "https://..."} and its like. */
static struct scan_text
media(struct walk *w, struct token t)
{
    struct scan_text found[MEDIA_KEYS + 1] = {{.present = false}};
    struct scan_name room;
    size_t i = 0;

    if (t.kind != '{') {
        return walk_text(w, t);
    }
    for (t = walk_token(w); t.kind == '"'; t = walk_token(w)) {
        i = find(walk_key(w, t.at, &room), media_keys, MEDIA_KEYS);
        found[i] = walk_text(w, walk_token(w));
    }
    for (i = 0; i < MEDIA_KEYS && !found[i].present; i++) {
    }
    return i < MEDIA_KEYS ? found[i] : (struct scan_text){.present = false};
}

/* Under which key a part of this type has its contents; PART_KEYS: unknown. */
static enum part_key
key_of_type(struct slice type)
{
    for (size_t i = 0; i < sizeof(part_types) / sizeof(part_types[0]); i++) {
        if (slice_equal(type, part_types[i].type)) {
            return part_types[i].key;
        }
    }
    return PART_KEYS;
}

/* Blocks of Anthropic's messages that are no media, and that are kept raw: their
 * tokens follow from their JSON. A tool's result may have an image in it, whose
 * object is its `source`. */
static bool
is_plain_block(struct slice type, struct slice raw)
{
    static const struct slice plain[] = {NAME("thinking"),
                                         NAME("redacted_thinking"),
                                         NAME("tool_use"), NAME("tool_result")};
    size_t count = sizeof(plain) / sizeof(plain[0]);
    size_t i = find(type, plain, count);

    return i + 1 < count ||
           (i < count && memmem(raw.ptr, raw.len, "\"source\"", 8) == NULL);
}

/* An object that is a part; one that we cannot read is kept raw. */
static void
part(struct walk *w, uint32_t at)
{
    struct scan_text values[PART_KEYS + 1] = {{.present = false}};
    struct scan_text type = {.present = false};
    struct scan_text uuid = {.present = false};
    struct scan_name room;
    struct token t = walk_token(w);
    bool named = false;

    CHECK_SLOW(w->body[at] == '{');
    for (; t.kind == '"'; t = walk_token(w)) {
        struct slice name = walk_key(w, t.at, &room);
        struct token value = walk_token(w);
        if (WALK_IS(name, "type")) {
            type = walk_text(w, value);
            continue;
        }
        if (WALK_IS(name, "uuid")) {
            uuid = walk_text(w, value);
            named = value.kind != 'n';
            continue;
        }
        size_t key = find(name, part_keys, PART_KEYS);
        bool nested = key > PART_REFUSAL && key < PART_KEYS;
        values[key] = nested ? media(w, value) : walk_text(w, value);
    }
    enum part_key key =
        type.present ? key_of_type(walk_name(w, type, &room)) : PART_TEXT;
    struct slice raw = {w->body + at, t.at + 1 - at};
    bool is_media =
        key > PART_REFUSAL && !(key == PART_KEYS && type.present &&
                                is_plain_block(walk_name(w, type, &room), raw));
    w->media |= is_media;
    w->media_named |= is_media && named;
    if (key > PART_REFUSAL && key < PART_KEYS && uuid.present &&
        uuid.len != 0) {
        values[key] = uuid;
    }
    if (key == PART_KEYS || !values[key].present) {
        walk_push(w, SCAN_TOOLS,
                  (struct scan_text){
                      .at = at, .len = t.at + 1 - at, .present = true});
        return;
    }
    walk_push(w, key > PART_REFUSAL ? SCAN_MEDIA : SCAN_TEXT, values[key]);
}

bool
walk_content(struct walk *w, struct token t)
{
    if (t.kind == '"') {
        walk_push(w, SCAN_TEXT, walk_string(w, t.at));
        return true;
    }
    if (t.kind != '[') {
        walk_skip(w, t);
        return false;
    }
    for (t = walk_token(w); walk_open(t); t = walk_token(w)) {
        if (t.kind == '{') {
            part(w, t.at);
        } else if (t.kind == '"') {
            walk_push(w, SCAN_TEXT, walk_string(w, t.at));
        } else {
            walk_skip(w, t);
        }
    }
    return true;
}
