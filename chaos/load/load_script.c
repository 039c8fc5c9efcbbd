/* What users say and how long they think, all from the seed. */
#include "chaos/load/load_script_internal.h"

#include <math.h>

#include "index/base/check.h"
#include "index/base/rng.h"

/* What a piece is derived for; keeps the sequences apart. */
enum piece {
    PIECE_GROUP,
    PIECE_SYSTEM,
    PIECE_USER,
    PIECE_THINK,
};

/*
 * A sentence is one of these with its letters filled in: N a noun, A an
 * adjective, V a verb, P a place, T a time, D a number.
 */
static const char *const orders[] = {
    "You are the assistant of the A N team in P.",
    "Always V the N before you V the N.",
    "Never V a A N without asking the N team in P.",
    "If the N is A, V it and tell the user why.",
    "Answer in at most D sentences unless the user asks for more.",
    "When a user mentions the A N, V the N of P first.",
    "The N may be opened T, and only when the N is A.",
    "Keep the A N of P apart from the N.",
    "Any request for more than D units of N goes to the N desk.",
    "Explain the N in plain words, then V the A N.",
    "Users in P may V the N T but not the A N.",
    "The limit for a A N is D per day, and D T.",
};

static const char *const talk[] = {
    "Could you V the A N for me?",
    "I tried to V the N T, but the N was A.",
    "What happens when the A N in P is A?",
    "Please compare the N with the A N and say which is better.",
    "We have D of them in P, and D more arrive T.",
    "My colleague said the N is A, is that right?",
    "Then how do I V the N without the A N?",
    "That did not work, the N is still A.",
    "Thank you, now V the N of P as well.",
    "Is there a way to V it T?",
    "The A N shows D instead of D, why?",
    "Write a short note about the A N for the team in P.",
};

static const char *const nouns[] = {
    "invoice", "garden",   "router",   "harbour",  "ledger",
    "engine",  "calendar", "workshop", "delivery", "contract",
    "library", "forecast", "antenna",  "kitchen",  "schedule",
    "archive", "lantern",  "bridge",   "recipe",   "telescope"};

static const char *const adjectives[] = {
    "quiet",  "broken", "northern", "urgent", "seasonal", "digital",
    "second", "remote", "wooden",   "shared", "annual",   "careful",
    "narrow", "hidden", "public",   "late"};

static const char *const verbs[] = {
    "check",   "describe", "cancel", "order",    "repair", "translate",
    "measure", "explain",  "move",   "schedule", "verify", "summarise"};

static const char *const places[] = {
    "Bergen", "Lisbon", "Kyoto",   "Tartu", "Valparaiso",
    "Ghent",  "Aarhus", "Trieste", "Cork",  "Tbilisi"};

static const char *const times[] = {
    "before noon", "on Mondays", "in the evening",   "every quarter",
    "at night",    "next week",  "during the storm", "on holidays"};

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

static struct rng
rng_for(const struct load_script *script, enum piece piece, uint32_t a,
        uint32_t b)
{
    struct rng rng;
    uint64_t place = (uint64_t)a << 32 | b;

    rng_init(&rng, rng_mix(rng_mix(script->seed) + piece) ^ place);
    return rng;
}

static void
add_word(struct rng *rng, const char *const *words, size_t count,
         struct buf *out)
{
    buf_add_text(out, words[rng_below(rng, count)]);
}

/* Fills one letter of a template in; false: it is not one. */
static bool
add_slot(struct rng *rng, char letter, struct buf *out)
{
    switch (letter) {
    case 'N':
        add_word(rng, nouns, COUNT(nouns), out);
        return true;
    case 'A':
        add_word(rng, adjectives, COUNT(adjectives), out);
        return true;
    case 'V':
        add_word(rng, verbs, COUNT(verbs), out);
        return true;
    case 'P':
        add_word(rng, places, COUNT(places), out);
        return true;
    case 'T':
        add_word(rng, times, COUNT(times), out);
        return true;
    case 'D':
        buf_add_uint(out, 2 + rng_below(rng, 98));
        return true;
    default:
        return false;
    }
}

/* A letter stands for a word only by itself: "A N", not "Answer". */
static bool
is_slot(const char *start, const char *at)
{
    bool begins = at == start || at[-1] == ' ';
    bool ends = at[1] == '\0' || at[1] == ' ' || at[1] == '.' || at[1] == ',' ||
                at[1] == '?';

    return begins && ends;
}

static void
add_sentence(struct rng *rng, const char *pattern, struct buf *out)
{
    for (const char *at = pattern; *at != '\0'; at++) {
        if (!is_slot(pattern, at) || !add_slot(rng, *at, out)) {
            buf_add(out, at, 1);
        }
    }
}

/*
 * Appends sentences until there are this many bytes, or the buffer is full; at
 * least one. opens: the first pattern begins the text and occurs only there.
 */
static void
add_sentences(struct rng *rng, const char *const *patterns, size_t count,
              bool opens, uint64_t bytes, struct buf *out)
{
    size_t start = out->len;
    size_t first = opens ? 1 : 0;

    CHECK(count > first);

    add_sentence(rng, patterns[opens ? 0 : rng_below(rng, count)], out);
    while (!out->failed && out->len - start < bytes) {
        buf_add_text(out, " ");
        add_sentence(rng, patterns[first + rng_below(rng, count - first)], out);
    }
}

uint32_t
load_script_group(const struct load_script *script, uint32_t conversation)
{
    CHECK(script->groups > 0);
    struct rng rng = rng_for(script, PIECE_GROUP, conversation, 0);

    return (uint32_t)rng_below(&rng, script->groups);
}

void
load_script_system(const struct load_script *script, uint32_t group,
                   struct buf *out)
{
    struct rng rng = rng_for(script, PIECE_SYSTEM, group, 0);

    add_sentences(&rng, orders, COUNT(orders), true, script->system_bytes, out);
}

void
load_script_user(const struct load_script *script, uint32_t conversation,
                 uint32_t turn, struct buf *out)
{
    struct rng rng = rng_for(script, PIECE_USER, conversation, turn);
    uint64_t half = script->user_bytes / 2;
    uint64_t bytes = half + rng_below(&rng, (uint64_t)script->user_bytes + 1);

    add_sentences(&rng, talk, COUNT(talk), false, bytes, out);
}

uint64_t
load_script_think(const struct load_script *script, uint32_t conversation,
                  uint32_t turn)
{
    struct rng rng = rng_for(script, PIECE_THINK, conversation, turn);
    double pause = -log1p(-rng_unit(&rng));

    if (pause > LOAD_SCRIPT_THINK_MAX) {
        pause = LOAD_SCRIPT_THINK_MAX;
    }
    return (uint64_t)(pause * (double)script->think_us);
}
