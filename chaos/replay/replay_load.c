/* Builds a load request by request. */
#include "chaos/replay/replay_load.h"

#include <errno.h>
#include <stdlib.h>

#include "index/base/rng.h"

#define SIZE_MIN 256U

void
replay_load_init(struct replay_load *load, const struct replay_limits *limits)
{
    CHECK(limits->requests_max < REPLAY_NONE && limits->requests_max > 0);
    CHECK(limits->prompt_tokens_max <= UINT32_MAX / 4 &&
          limits->output_tokens_max <= UINT32_MAX / 4);
    *load = (struct replay_load){.limits = *limits};
}

void
replay_load_fini(struct replay_load *load)
{
    free(load->requests);
    free(load->runs);
    *load = (struct replay_load){.requests = NULL};
}

/* Doubles an array of *size elements, up to max. */
static int
grow(void **array, uint32_t *size, uint32_t max, size_t element)
{
    uint32_t wanted = *size == 0 ? SIZE_MIN : *size * 2;

    CHECK(*size == 0 || *array != NULL);
    wanted = wanted < max ? wanted : max;
    if (wanted <= *size) {
        return REPLAY_E_FULL;
    }
    void *grown = realloc(*array, wanted * element);
    if (grown == NULL) {
        return -ENOMEM;
    }
    *array = grown;
    *size = wanted;
    return 0;
}

int
replay_load_run(struct replay_load *load, uint64_t text, uint32_t from,
                uint32_t tokens)
{
    if (tokens == 0) {
        return 0;
    }
    if (load->runs_count == load->runs_size) {
        void *runs = load->runs;
        int outcome = grow(&runs, &load->runs_size, load->limits.runs_max,
                           sizeof(*load->runs));
        if (outcome != 0) {
            return outcome;
        }
        load->runs = runs;
    }
    load->runs[load->runs_count++] =
        (struct replay_run){.text = text, .from = from, .tokens = tokens};
    return 0;
}

int
replay_load_history(struct replay_load *load, uint32_t request)
{
    CHECK(request < load->count);
    struct replay_request r = load->requests[request];
    int outcome = 0;

    for (uint32_t i = 0; i < r.runs_count && outcome == 0; i++) {
        struct replay_run run = load->runs[r.runs_from + i];
        outcome = replay_load_run(load, run.text, run.from, run.tokens);
    }
    return outcome == 0 ? replay_load_run(load, r.answer, 0, r.output_tokens)
                        : outcome;
}

void
replay_load_drop(struct replay_load *load)
{
    CHECK(load->open_from <= load->runs_count);
    load->runs_count = load->open_from;
}

/* The tokens of the prompt that is being made; too many are one over. */
static uint64_t
open_tokens(const struct replay_load *load)
{
    uint64_t tokens = 0;

    for (uint32_t i = load->open_from; i < load->runs_count; i++) {
        tokens += load->runs[i].tokens;
    }
    return tokens;
}

static int
judge(const struct replay_load *load, const struct replay_request *request,
      uint64_t tokens)
{
    CHECK(load->count <= load->limits.requests_max);
    if (tokens == 0 || request->output_tokens == 0) {
        return REPLAY_E_EMPTY;
    }
    if (tokens > load->limits.prompt_tokens_max ||
        request->output_tokens > load->limits.output_tokens_max) {
        return REPLAY_E_TOO_LONG;
    }
    if (request->after != REPLAY_NONE &&
        (request->after >= load->count ||
         load->requests[request->after].next != REPLAY_NONE)) {
        return REPLAY_E_BAD_AFTER;
    }
    return 0;
}

int
replay_load_add(struct replay_load *load, const struct replay_request *request,
                uint32_t *index)
{
    uint64_t tokens = open_tokens(load);
    int outcome = judge(load, request, tokens);

    if (outcome == 0 && load->count == load->size) {
        void *requests = load->requests;
        outcome = grow(&requests, &load->size, load->limits.requests_max,
                       sizeof(*load->requests));
        load->requests = requests;
    }
    if (outcome != 0) {
        replay_load_drop(load);
        return outcome;
    }
    struct replay_request *added = &load->requests[load->count];
    *added = *request;
    added->next = REPLAY_NONE;
    added->runs_from = load->open_from;
    added->runs_count = load->runs_count - load->open_from;
    added->prompt_tokens = (uint32_t)tokens;
    if (request->after != REPLAY_NONE) {
        load->requests[request->after].next = load->count;
    }
    load->open_from = load->runs_count;
    if (index != NULL) {
        *index = load->count;
    }
    load->count++;
    CHECK(load->count <= load->size && added->runs_count > 0);
    return 0;
}

/* Requests of equal times stay in the order in which they were added. */
static int
compare(const void *a, const void *b)
{
    const struct replay_request *x = a;
    const struct replay_request *y = b;

    if (x->at_us != y->at_us) {
        return x->at_us < y->at_us ? -1 : 1;
    }
    return x->runs_from < y->runs_from ? -1 : x->runs_from > y->runs_from;
}

void
replay_load_sort(struct replay_load *load)
{
    for (uint32_t i = 0; i < load->count; i++) {
        CHECK(load->requests[i].after == REPLAY_NONE);
    }
    if (load->count > 1) {
        qsort(load->requests, load->count, sizeof(*load->requests), compare);
    }
}

int
replay_load_limit(struct replay_load *load, uint64_t until_us,
                  uint32_t requests_max)
{
    uint32_t *moved = malloc((load->count + (size_t)1) * sizeof(*moved));
    uint32_t kept = 0;

    if (moved == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < load->count; i++) {
        struct replay_request request = load->requests[i];
        bool stays = request.at_us <= until_us; /* a pause is not an arrival */
        if (request.after != REPLAY_NONE) {
            CHECK(request.after < i);
            request.after = moved[request.after];
            stays = request.after != REPLAY_NONE;
        }
        moved[i] = REPLAY_NONE;
        if (!stays || kept == requests_max) {
            continue;
        }
        if (request.after != REPLAY_NONE) {
            load->requests[request.after].next = kept;
        }
        request.next = REPLAY_NONE;
        moved[i] = kept;
        load->requests[kept++] = request;
    }
    load->count = kept;
    free(moved);
    CHECK(kept <= load->size);
    return 0;
}

/* Each text has a start and a stride of its own, so that no blocks of two texts
 * are equal, nor two of one. Additions alone are what a vector unit is quick
 * at; a hash for each token was a sixth of a replay. */
void
replay_run_tokens(const struct replay_run *run, uint32_t *out)
{
    uint64_t stride = rng_mix(run->text) | 1;
    uint64_t at = rng_mix(stride) + run->from * stride;
    const uint32_t count = run->tokens;

    for (uint32_t i = 0; i < count; i++) {
        out[i] = (uint32_t)(at >> 33);
        at += stride;
    }
}

void
replay_load_tokens(const struct replay_load *load,
                   const struct replay_request *request, uint32_t *out)
{
    CHECK(request->runs_from + request->runs_count <= load->runs_count);
    for (uint32_t i = 0; i < request->runs_count; i++) {
        const struct replay_run *run = &load->runs[request->runs_from + i];
        replay_run_tokens(run, out);
        out += run->tokens;
    }
}

uint32_t
replay_load_longest_prompt(const struct replay_load *load)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < load->count; i++) {
        uint32_t tokens = load->requests[i].prompt_tokens;
        longest = tokens > longest ? tokens : longest;
    }
    return longest;
}

uint32_t
replay_load_longest(const struct replay_load *load)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < load->count; i++) {
        const struct replay_request *r = &load->requests[i];
        uint32_t tokens = r->prompt_tokens + r->output_tokens;
        longest = tokens > longest ? tokens : longest;
    }
    return longest;
}
