/* What a renderer says of a prompt's pictures, and the keys of their blocks. */
#include "node/tokens/token_media.h"

#include "index/index.h"
#include "node/events/kv_media.h"
#include "node/text/json_pull.h"

/* An item on its way: lists of names and of places come one after the other. */
struct draft {
    uint64_t kind;   /* digest of "image", ... */
    uint32_t number; /* within its kind */
    uint64_t identifier;
    uint64_t at;
    uint64_t len;
};

struct drafts {
    uint32_t count;
    struct draft item[TOKEN_MEDIA_MAX];
};

static bool
add(struct drafts *drafts, const struct draft *draft)
{
    if (drafts->count == TOKEN_MEDIA_MAX) {
        return false;
    }
    drafts->item[drafts->count++] = *draft;
    return true;
}

/* {"offset": 3, "length": 64}, behind its bracket. */
static bool
read_place(struct json_pull *pull, struct draft *draft)
{
    enum pull_token token;

    draft->at = UINT64_MAX;
    while ((token = json_pull_next(pull)) == PULL_KEY) {
        bool at = json_pull_is(pull, SLICE("offset"));
        bool len = json_pull_is(pull, SLICE("length"));
        if (!at && !len) {
            if (!json_pull_skip(pull)) {
                return false;
            }
        } else if (json_pull_next(pull) != PULL_NUMBER ||
                   !json_pull_uint(pull, UINT32_MAX,
                                   at ? &draft->at : &draft->len)) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && draft->at != UINT64_MAX &&
           draft->len != 0;
}

/* One list of a kind: of names, or of places. */
static bool
read_list(struct json_pull *pull, struct drafts *drafts, uint64_t kind)
{
    struct draft draft = {.kind = kind};
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_ARRAY) {
        return token == PULL_NULL;
    }
    while ((token = json_pull_next(pull)) != PULL_ARRAY_END) {
        if (token == PULL_STRING && !pull->escaped) {
            draft.identifier = key_digest(pull->text);
        } else if (token != PULL_OBJECT || !read_place(pull, &draft)) {
            return false;
        }
        if (!add(drafts, &draft)) {
            return false;
        }
        draft.number++;
    }
    return true;
}

/* {"image": [...], "audio": [...]}, from its key on. */
static bool
read_kinds(struct json_pull *pull, struct drafts *drafts)
{
    enum pull_token token = json_pull_next(pull);

    if (token != PULL_OBJECT) {
        return token == PULL_NULL;
    }
    while ((token = json_pull_next(pull)) == PULL_KEY) {
        if (!read_list(pull, drafts, key_digest(pull->text))) {
            return false;
        }
    }
    return token == PULL_OBJECT_END;
}

static const struct draft *
find(const struct drafts *drafts, const struct draft *like)
{
    for (uint32_t i = 0; i < drafts->count; i++) {
        if (drafts->item[i].kind == like->kind &&
            drafts->item[i].number == like->number) {
            return &drafts->item[i];
        }
    }
    return NULL;
}

/* Every place has a name, and none reaches into another. */
static bool
join(struct token_media *out, const struct drafts *names,
     const struct drafts *places)
{
    if (names->count != places->count) {
        return false;
    }
    for (uint32_t i = 0; i < places->count; i++) {
        const struct draft *place = &places->item[i];
        const struct draft *name = find(names, place);
        uint32_t to = out->count;
        if (name == NULL) {
            return false;
        }
        for (; to > 0 && out->item[to - 1].at > place->at; to--) {
            out->item[to] = out->item[to - 1];
        }
        out->item[to] = (struct token_medium){.identifier = name->identifier,
                                              .at = (uint32_t)place->at,
                                              .len = (uint32_t)place->len};
        out->count++;
    }
    for (uint32_t i = 1; i < out->count; i++) {
        const struct token_medium *before = &out->item[i - 1];
        if ((uint64_t)before->at + before->len > out->item[i].at) {
            return false;
        }
    }
    return true;
}

/* The members of `features`, behind its bracket. */
static bool
read_features(struct json_pull *pull, struct token_media *out)
{
    struct drafts names = {.count = 0};
    struct drafts places = {.count = 0};
    enum pull_token token;

    while ((token = json_pull_next(pull)) == PULL_KEY) {
        bool good = json_pull_is(pull, SLICE("mm_hashes"))
                        ? read_kinds(pull, &names)
                    : json_pull_is(pull, SLICE("mm_placeholders"))
                        ? read_kinds(pull, &places)
                        : json_pull_skip(pull);
        if (!good) {
            return false;
        }
    }
    return token == PULL_OBJECT_END && join(out, &names, &places);
}

int
token_media_read(struct token_media *out, struct slice json)
{
    struct json_pull pull;

    out->count = 0;
    json_pull_init(&pull, json);
    enum pull_token token = json_pull_next(&pull);
    if (token == PULL_ARRAY) {
        token = json_pull_next(&pull);
    }
    if (token != PULL_OBJECT) {
        return TOKEN_MEDIA_E_BAD;
    }
    while ((token = json_pull_next(&pull)) == PULL_KEY) {
        if (!json_pull_is(&pull, SLICE("features"))) {
            if (!json_pull_skip(&pull)) {
                return TOKEN_MEDIA_E_BAD;
            }
            continue;
        }
        token = json_pull_next(&pull);
        if (token == PULL_NULL) {
            return TOKEN_MEDIA_E_NONE;
        }
        if (token == PULL_OBJECT && read_features(&pull, out)) {
            return 0;
        }
        out->count = 0;
        return TOKEN_MEDIA_E_BAD;
    }
    return token == PULL_OBJECT_END ? TOKEN_MEDIA_E_NONE : TOKEN_MEDIA_E_BAD;
}

/* Of the items from *next on, those that reach into [from, to); passes those
 * that end before. */
static uint64_t
media_of(const struct token_media *media, uint32_t *next, uint64_t from,
         uint64_t to)
{
    uint64_t found = 0;

    for (uint32_t i = *next; i < media->count; i++) {
        const struct token_medium *item = &media->item[i];
        if (item->at >= to) {
            break;
        }
        if ((uint64_t)item->at + item->len <= from) {
            *next = i + 1;
            continue;
        }
        found = kv_media_place(found, item->identifier,
                               (int64_t)item->at - (int64_t)from);
    }
    return found;
}

void
token_media_chain(const struct token_media *media, uint64_t root,
                  const uint32_t *tokens, uint32_t count, uint32_t grain,
                  uint64_t *keys)
{
    uint32_t block_tokens = shape_tokens(grain);
    uint32_t ahead = shape_ahead(grain);
    size_t size = block_tokens * sizeof(*tokens);
    uint64_t parent = root;
    uint32_t next = 0;

    CHECK(block_tokens != 0);
    if (media == NULL || media->count == 0) {
        key_chain_grain(root, tokens, count, grain, keys);
        return;
    }
    CHECK(media->count <= TOKEN_MEDIA_MAX);
    for (uint32_t i = 0; i < count; i++) {
        uint64_t from = (uint64_t)i * block_tokens;
        uint64_t to = from + block_tokens;
        uint64_t apart = media_of(media, &next, from, to + ahead);
        apart = key_ahead(apart, tokens + to, ahead);
        parent = key_next_apart(parent, apart, tokens + from, size);
        keys[i] = parent;
    }
}
