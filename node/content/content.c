/* Names, their rules, and the first rule that fits. */
#include "node/content/content.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/buf.h"
#include "index/base/counter.h"
#include "node/content/content_like_internal.h"
#include "node/content/content_text_internal.h"
#include "node/content/content_things_internal.h"

/* One for each rule, and one for each name where none fits. */
#define COUNTERS (CONTENT_RULES_MAX + CONTENT_NAMES_MAX)

struct rule {
    struct content_rule says;
    uint32_t name;    /* its place */
    uint32_t pattern; /* the first of its patterns ... */
    uint32_t patterns;
    struct buf text;             /* of the next, while words are added */
    struct content_regex *words; /* NULL: none */
};

struct name {
    char name[CONTENT_MODEL_MAX];
    char model[CONTENT_MODEL_MAX];
    enum content_look look;
    uint32_t things;    /* that its rules ask for */
    uint32_t languages; /* the same */
};

struct content {
    struct qsbr_node retired; /* first */
    struct name name[CONTENT_NAMES_MAX];
    struct rule rule[CONTENT_RULES_MAX]; /* in the order of names */
    struct content_regex *pattern[CONTENT_PATTERNS_MAX];
    uint32_t names, rules, patterns;
    struct content_things things;
    struct content_likes likes;
    struct counter count[CONTENT_LANES_MAX][COUNTERS];
    struct counter liked[CONTENT_LANES_MAX][CONTENT_LIKES];
};

struct content_scratch {
    struct content_matcher *matcher;
    char text[CONTENT_TEXT_MAX];
    char set[CONTENT_SET_MAX];
};

int
content_new(struct content **out)
{
    struct content *content = calloc(1, sizeof *content);

    *out = NULL;
    if (content == NULL || content_things_init(&content->things) != 0) {
        content_free(content);
        return -ENOMEM;
    }
    *out = content;
    return 0;
}

void
content_free(struct content *content)
{
    if (content == NULL) {
        return;
    }
    for (uint32_t i = 0; i < content->rules; i++) {
        buf_fini(&content->rule[i].text);
        content_regex_free(content->rule[i].words);
    }
    for (uint32_t i = 0; i < content->patterns; i++) {
        content_regex_free(content->pattern[i]);
    }
    content_things_fini(&content->things);
    content_likes_fini(&content->likes);
    free(content);
}

struct qsbr_node *
content_retired(struct content *content)
{
    return &content->retired;
}

void
content_free_retired(struct qsbr_node *retired)
{
    content_free((struct content *)retired);
}

static void
copy(char *to, size_t room, struct slice text)
{
    CHECK(text.len < room);
    memcpy(to, text.ptr, text.len);
    to[text.len] = '\0';
}

static const struct name *
find_name(const struct content *content, struct slice name)
{
    for (uint32_t i = 0; i < content->names; i++) {
        if (slice_equal(slice_of(content->name[i].name), name)) {
            return &content->name[i];
        }
    }
    return NULL;
}

int
content_add_name(struct content *content, struct slice name, struct slice model,
                 enum content_look look)
{
    struct name *fresh = &content->name[content->names];

    if (find_name(content, name) != NULL) {
        return CONTENT_E_TWICE;
    }
    if (content->names == CONTENT_NAMES_MAX) {
        return CONTENT_E_FULL;
    }
    copy(fresh->name, sizeof fresh->name, name);
    copy(fresh->model, sizeof fresh->model, model);
    fresh->look = look;
    content->names++;
    return 0;
}

int
content_add_rule(struct content *content, const struct content_rule *rule)
{
    CHECK(content->names > 0);
    uint32_t at = content->names - 1;
    struct name *name = &content->name[at];

    for (uint32_t i = 0; i < content->rules; i++) {
        if (content->rule[i].name == at &&
            strcmp(content->rule[i].says.name, rule->name) == 0) {
            return CONTENT_E_TWICE;
        }
    }
    if (content->rules == CONTENT_RULES_MAX) {
        return CONTENT_E_FULL;
    }
    struct rule *fresh = &content->rule[content->rules++];
    fresh->says = *rule;
    fresh->name = at;
    fresh->pattern = content->patterns;
    buf_init(&fresh->text, CONTENT_PATTERN_BYTES);
    name->things |= rule->things;
    name->languages |= rule->languages;
    return 0;
}

static struct rule *
last_rule(struct content *content)
{
    CHECK(content->rules > 0);
    return &content->rule[content->rules - 1];
}

static bool
is_word_byte(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

int
content_add_word(struct content *content, struct slice word)
{
    struct buf *words = &last_rule(content)->text;

    CHECK(word.len > 0);
    buf_add_text(words, words->len == 0 ? "(?:" : "|");
    /* Chinese has no blanks between words, C++ no letter at its end. */
    buf_add_text(words, is_word_byte(word.ptr[0]) ? "(?<!\\w)" : "");
    for (size_t i = 0; i < word.len; i++) {
        char c = word.ptr[i];
        if ((uint8_t)c < 0x80 && !is_word_byte(c)) {
            buf_add_text(words, "\\");
        }
        buf_add(words, &c, 1);
    }
    buf_add_text(words, is_word_byte(word.ptr[word.len - 1]) ? "(?!\\w)" : "");
    return words->failed ? CONTENT_E_FULL : 0;
}

int
content_add_pattern(struct content *content, struct slice pattern,
                    char why[CONTENT_WHY_MAX])
{
    struct rule *rule = last_rule(content);

    if (content->patterns == CONTENT_PATTERNS_MAX ||
        pattern.len > CONTENT_PATTERN_BYTES) {
        return CONTENT_E_FULL;
    }
    int outcome =
        content_regex_new(pattern, &content->pattern[content->patterns], why);
    if (outcome == 0) {
        content->patterns++;
        rule->patterns++;
    }
    return outcome;
}

int
content_add_example(struct content *content, struct slice text)
{
    CHECK(content->rules > 0);
    return content_likes_add(&content->likes, content->rules - 1, text);
}

uint32_t
content_examples(const struct content *content)
{
    return content->likes.count;
}

struct slice
content_example(const struct content *content, uint32_t at)
{
    CHECK(at < content->likes.count);
    return (struct slice){content->likes.example[at].text,
                          content->likes.example[at].len};
}

int
content_set_vectors(struct content *content, struct text_vector *const *vectors)
{
    return content_likes_set(&content->likes, vectors);
}

int
content_finish(struct content *content, char why[CONTENT_WHY_MAX])
{
    int outcome = 0;

    for (uint32_t i = 0; i < content->rules && outcome == 0; i++) {
        struct rule *rule = &content->rule[i];
        if (rule->text.len != 0) {
            buf_add_text(&rule->text, ")");
            outcome = rule->text.failed
                          ? -ENOMEM
                          : content_regex_new(buf_slice(&rule->text),
                                              &rule->words, why);
        }
    }
    return outcome;
}

uint32_t
content_rules_count(const struct content *content)
{
    return content->rules;
}

const char *
content_name(const struct content *content, uint32_t at)
{
    return at < content->names ? content->name[at].name : NULL;
}

bool
content_has(const struct content *content, struct slice name)
{
    return find_name(content, name) != NULL;
}

const char *
content_model(const struct content *content, struct slice name)
{
    const struct name *found = find_name(content, name);

    CHECK(found != NULL);
    return found->model;
}

struct content_scratch *
content_scratch_new(void)
{
    struct content_scratch *scratch = calloc(1, sizeof *scratch);

    if (scratch != NULL && (scratch->matcher = content_matcher_new()) == NULL) {
        free(scratch);
        return NULL;
    }
    return scratch;
}

void
content_scratch_free(struct content_scratch *scratch)
{
    if (scratch != NULL) {
        content_matcher_free(scratch->matcher);
        free(scratch);
    }
}

/* Whether a list between blanks has the word. */
static bool
lists(const char *list, struct slice word)
{
    struct slice left = slice_of(list);

    while (left.len != 0) {
        if (slice_equal(slice_take(&left, ' '), word)) {
            return true;
        }
    }
    return false;
}

static bool
finds(const struct content_regex *regex, struct content_scratch *scratch,
      struct slice text, struct content_seen *seen)
{
    struct slice found;
    int outcome = content_regex_find(regex, scratch->matcher, text, &found);

    seen->too_hard += outcome < 0;
    return outcome == 1;
}

static bool
finds_any(const struct content *content, const struct rule *rule,
          struct content_scratch *scratch, struct slice text,
          struct content_seen *seen)
{
    if (rule->words == NULL && rule->patterns == 0) {
        return true;
    }
    if (rule->words != NULL && finds(rule->words, scratch, text, seen)) {
        return true;
    }
    for (uint32_t i = 0; i < rule->patterns; i++) {
        if (finds(content->pattern[rule->pattern + i], scratch, text, seen)) {
            return true;
        }
    }
    return false;
}

/* What is known of the message's vector, once a rule has use for it. */
static void
liken(const struct content *content, uint32_t name,
      const struct content_asked *asked, struct content_seen *seen)
{
    uint64_t rules = 0;

    seen->like = asked->like;
    if (publish_get(&content->likes.centres) == NULL &&
        asked->like != CONTENT_LIKE_TENANT) {
        seen->like = CONTENT_LIKE_LOADING;
    }
    if (seen->like != CONTENT_LIKE_KNOWN) {
        return;
    }
    for (uint32_t i = 0; i < content->rules; i++) {
        rules |= content->rule[i].name == name ? UINT64_C(1) << i : 0;
    }
    uint32_t nearest = content_likes_nearest(&content->likes, asked->vector,
                                             rules, &seen->permille);
    if (nearest != CONTENT_RULES_MAX) {
        seen->nearest = content->rule[nearest].says.name;
    }
}

/* Whether the message is nearest to the rule's examples, if it has some. */
static bool
is_like(const struct content *content, const struct rule *rule,
        const struct content_asked *asked, struct content_seen *seen)
{
    if (!content_likes_has(&content->likes, (uint32_t)(rule - content->rule))) {
        return true;
    }
    if (seen->like == CONTENT_LIKE_UNASKED) {
        liken(content, rule->name, asked, seen);
    }
    return strcmp(seen->nearest, rule->says.name) == 0;
}

/* What costs least is looked at first. */
static bool
fits(const struct content *content, const struct rule *rule,
     struct content_scratch *scratch, const struct content_asked *asked,
     struct slice text, struct content_seen *seen)
{
    const struct content_rule *says = &rule->says;

    return seen->bytes >= says->longer &&
           (says->shorter == 0 || seen->bytes <= says->shorter) &&
           (says->tenants[0] == '\0' || lists(says->tenants, asked->tenant)) &&
           (says->things == 0 || (says->things & seen->things) != 0) &&
           (says->languages == 0 ||
            (says->languages >> seen->language & 1U) != 0) &&
           finds_any(content, rule, scratch, text, seen) &&
           is_like(content, rule, asked, seen);
}

static struct content_seen
look_at(const struct content *content, const struct name *name,
        struct content_scratch *scratch, const struct content_asked *asked,
        struct slice text)
{
    struct content_seen seen = {.bytes = content_text_bytes(asked->scan),
                                .nearest = ""};

    if (asked->scan->tools_raw.present) {
        seen.things |= 1U << CONTENT_TOOLS;
    }
    if (asked->scan->media) {
        seen.things |= 1U << CONTENT_MEDIA;
    }
    seen.things &= name->things;
    seen.things |= content_things_in(&content->things, scratch->matcher, text,
                                     name->things, &seen.too_hard);
    if (name->languages != 0) {
        seen.language = content_language_of(text);
    }
    return seen;
}

/* The option that a member's key is; SCAN_OPTIONS: none. */
static uint32_t
option_of(struct slice key)
{
    uint32_t i = 0;

    while (i < SCAN_OPTIONS &&
           !slice_equal(slice_of(scan_option_name((enum scan_option)i)), key)) {
        i++;
    }
    return i;
}

/* The rule's members but for those that the client has said itself. Members
 * stand on lines of their own. */
static const char *
members(const struct content_rule *rule, const struct scan *scan,
        char out[CONTENT_SET_MAX])
{
    struct slice left = slice_of(rule->set);
    size_t len = 0;

    while (left.len != 0) {
        struct slice line = slice_take_line(&left);
        struct slice rest = line;
        (void)slice_take(&rest, '"');
        uint32_t option = option_of(slice_take(&rest, '"'));
        CHECK(option < SCAN_OPTIONS);
        if (!scan->options[option].present) {
            memcpy(out + len, line.ptr, line.len);
            len += line.len;
        }
    }
    out[len] = '\0';
    return out;
}

/* The message as far as it is likened: whole characters of it. */
static struct slice
likened(struct slice text)
{
    text.len -=
        text.len > 0; /* its last line's end, as content_text() has it */
    text = slice_trim(text);
    if (text.len > CONTENT_EXAMPLE_BYTES) {
        text.len = CONTENT_EXAMPLE_BYTES;
        while (((uint8_t)text.ptr[text.len] & 0xC0U) == 0x80U) {
            text.len--;
        }
    }
    return text;
}

static void
take_rule(const struct rule *rule, const struct content *content,
          const struct content_asked *asked, struct content_scratch *scratch,
          struct content_verdict *verdict)
{
    verdict->rule = rule->says.name;
    verdict->counter = (uint32_t)(rule - content->rule);
    verdict->semantic_permille = rule->says.semantic_permille;
    verdict->set = members(&rule->says, asked->scan, scratch->set);
    if (rule->says.model[0] != '\0') {
        verdict->model = rule->says.model;
    }
}

bool
content_judge(const struct content *content, struct content_scratch *scratch,
              struct slice name, const struct content_asked *asked,
              struct content_verdict *verdict)
{
    const struct name *found = find_name(content, name);

    if (found == NULL) {
        return false;
    }
    uint32_t place = (uint32_t)(found - content->name);
    *verdict = (struct content_verdict){
        .name = found->name,
        .model = found->model,
        .rule = "",
        .set = "",
        .seen = {.nearest = ""},
        .counter = CONTENT_RULES_MAX + place,
    };
    if (asked->scan == NULL) {
        return true;
    }
    struct slice text = content_text(asked, found->look, scratch->text);
    struct content_seen seen = look_at(content, found, scratch, asked, text);
    for (uint32_t i = 0; i < content->rules; i++) {
        const struct rule *rule = &content->rule[i];
        if (rule->name == place &&
            fits(content, rule, scratch, asked, text, &seen)) {
            take_rule(rule, content, asked, scratch, verdict);
            break;
        }
        if (seen.like == CONTENT_LIKE_WANTED) {
            verdict->likened = likened(text);
            break;
        }
    }
    verdict->seen = seen;
    return true;
}

void
content_count(struct content *content, uint32_t lane,
              const struct content_verdict *verdict)
{
    CHECK(lane < CONTENT_LANES_MAX && verdict->counter < COUNTERS);
    counter_bump(&content->count[lane][verdict->counter], 1);
    counter_bump(&content->liked[lane][verdict->seen.like], 1);
}

uint64_t
content_like_count(const struct content *content, enum content_like like)
{
    uint64_t count = 0;

    for (uint32_t lane = 0; lane < CONTENT_LANES_MAX; lane++) {
        count += counter_read(&content->liked[lane][like]);
    }
    return count;
}

bool
content_next_count(const struct content *content, uint32_t *at,
                   const char **name, const char **rule, uint64_t *count)
{
    uint32_t all = content->rules + content->names;
    uint32_t i =
        *at < content->rules ? *at : CONTENT_RULES_MAX + *at - content->rules;

    if (*at >= all) {
        return false;
    }
    bool of_rule = *at < content->rules;
    *rule = of_rule ? content->rule[i].says.name : "";
    *name =
        content->name[of_rule ? content->rule[i].name : i - CONTENT_RULES_MAX]
            .name;
    *count = 0;
    for (uint32_t lane = 0; lane < CONTENT_LANES_MAX; lane++) {
        *count += counter_read(&content->count[lane][i]);
    }
    (*at)++;
    return true;
}
