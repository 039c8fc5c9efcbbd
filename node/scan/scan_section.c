/*
 * The sections of a prompt: found in any order, left in that of rendering.
 */
#include "node/scan/scan_section_internal.h"

enum section_id
section_named(struct slice name)
{
    if (WALK_IS(name, "messages")) {
        return MESSAGES;
    }
    if (WALK_IS(name, "prompt")) {
        return PROMPT;
    }
    if (WALK_IS(name, "input")) {
        return INPUT;
    }
    if (WALK_IS(name, "tools")) {
        return TOOLS;
    }
    if (WALK_IS(name, "functions")) {
        return FUNCTIONS;
    }
    if (WALK_IS(name, "system")) {
        return SYSTEM;
    }
    return WALK_IS(name, "instructions") ? INSTRUCTIONS : SECTIONS;
}

/* Walks one section's value; its spans go behind those that are there. */
static void
walk_section(struct walk *w, enum section_id id, struct token t,
             struct section *s)
{
    struct scan_text raw;

    CHECK_SLOW(id < SECTIONS);
    *s = (struct section){.at = t.at, .first = w->spans_count};
    switch (id) {
    case TOOLS:
    case FUNCTIONS:
        raw = walk_raw(w, t);
        walk_push(w, SCAN_TOOLS, raw);
        s->present = raw.present;
        break;
    case SYSTEM:
    case INSTRUCTIONS:
        s->present = walk_content(w, t);
        break;
    case MESSAGES:
        s->prompt = walk_messages(w, t);
        s->present = s->prompt.shape != SCAN_NO_PROMPT;
        break;
    case INPUT:
    case PROMPT:
        s->prompt = walk_prompt(w, t);
        s->present = s->prompt.shape != SCAN_NO_PROMPT;
        break;
    case SECTIONS:
        break;
    }
    s->end = w->taken + 1;
    s->count = w->spans_count - s->first;
    if (!s->present) {
        w->spans_count = s->first;
    }
}

void
sections_walk(struct sections *sections, struct walk *w, enum section_id id,
              struct token t)
{
    struct section *s = &sections->of[id];

    CHECK_SLOW(id < SECTIONS);
    if (s->present && s->first + s->count == w->spans_count) {
        w->spans_count = s->first;
    }
    walk_section(w, id, t, s);
}

static struct scan_text
raw_of(const struct section *s)
{
    CHECK_SLOW(!s->present || s->at < s->end);
    if (!s->present) {
        return (struct scan_text){.present = false};
    }
    return (struct scan_text){
        .at = s->at, .len = s->end - s->at, .present = true};
}

/* The sections that are meant, in order; how many. */
static unsigned
meant(struct section *s, struct section *list[SECTIONS],
      struct sections_found *found)
{
    unsigned count = 0;

    for (unsigned id = TOOLS; id <= FUNCTIONS; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
        }
    }
    for (unsigned id = SYSTEM; id <= INSTRUCTIONS; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
            break;
        }
    }
    for (unsigned id = MESSAGES; id <= PROMPT; id++) {
        if (s[id].present) {
            list[count++] = &s[id];
            found->prompt = s[id].prompt;
            found->raw = raw_of(&s[id]);
            found->is_input = id == INPUT;
            break;
        }
    }
    found->tools = raw_of(&s[TOOLS]);
    return count;
}

static void
reverse(struct scan_span *spans, uint32_t from, uint32_t to)
{
    while (from + 1 < to) {
        struct scan_span span = spans[from];
        spans[from++] = spans[--to];
        spans[to] = span;
    }
}

/*
 * Brings the spans of each section to its place: what stood between moves
 * behind it. In most bodies they are there already.
 */
static void
arrange(struct walk *w, struct section *const *list, unsigned count)
{
    uint32_t place = 0;

    for (unsigned i = 0; i < count; i++) {
        uint32_t first = list[i]->first;
        uint32_t end = first + list[i]->count;
        if (first != place) {
            reverse(w->spans, place, first);
            reverse(w->spans, first, end);
            reverse(w->spans, place, end);
            for (unsigned k = i + 1; k < count; k++) {
                list[k]->first += list[k]->first < first ? list[i]->count : 0;
            }
        }
        place += list[i]->count;
    }
    w->spans_count = place;
    CHECK_SLOW(place <= w->spans_max);
}

/*
 * The spans did not all fit, so they are gathered again, this time in order:
 * those that are kept must be the first.
 */
static void
gather(struct walk *w, const struct section *sections,
       struct section *const *list, unsigned count)
{
    uint32_t depth_max = (uint32_t)w->blocks.depth_max;

    CHECK_SLOW(count <= SECTIONS);
    w->spans_count = 0;
    w->spans_truncated = false;
    for (unsigned i = 0; i < count && !w->spans_truncated; i++) {
        struct section s = *list[i];
        enum section_id id = (enum section_id)(list[i] - sections);
        struct slice body = {.ptr = w->body, .len = s.end};
        walk_init(w, body, s.at, depth_max);
        walk_section(w, id, walk_token(w), &s);
    }
}

struct sections_found
sections_finish(struct sections *sections, struct walk *w)
{
    struct sections_found found = {
        .prompt = {.shape = SCAN_NO_PROMPT, .prompts = 1}};
    struct section *list[SECTIONS];
    unsigned count = meant(sections->of, list, &found);

    if (w->spans_truncated) {
        gather(w, sections->of, list, count);
    } else {
        arrange(w, list, count);
    }
    return found;
}
