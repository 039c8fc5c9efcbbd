/* llama.cpp's slots. */
#include "chaos/engine/engine_slots_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define SIMILAR_DIVISOR 10U /* --slot-prompt-similarity 0.1 */

int
engine_slots_init(struct engine_slots *slots, uint32_t count)
{
    CHECK(count > 0);
    *slots = (struct engine_slots){.count = count};
    slots->slots = calloc(count, sizeof *slots->slots);
    return slots->slots != NULL ? 0 : -ENOMEM;
}

void
engine_slots_fini(struct engine_slots *slots)
{
    for (uint32_t i = 0; slots->slots != NULL && i < slots->count; i++) {
        free(slots->slots[i].tokens);
    }
    free(slots->slots);
    *slots = (struct engine_slots){.count = 0};
}

/* Tokens in common, less the prompt's last one, which is always computed. */
static uint32_t
common(const struct engine_slot *slot, const uint32_t *prompt,
       uint32_t prompt_len)
{
    uint32_t max = slot->len < prompt_len ? slot->len : prompt_len - 1;
    uint32_t n = 0;

    while (n < max && slot->tokens[n] == prompt[n]) {
        n++;
    }
    return n;
}

uint32_t
engine_slots_find(const struct engine_slots *slots, const uint32_t *prompt,
                  uint32_t prompt_len, uint32_t *cached)
{
    uint32_t longest = slots->count;
    uint32_t oldest = slots->count;

    CHECK(prompt_len > 0);
    *cached = 0;
    for (uint32_t i = 0; i < slots->count; i++) {
        const struct engine_slot *slot = &slots->slots[i];
        if (slot->busy) {
            continue;
        }
        uint32_t n = common(slot, prompt, prompt_len);
        if (n > *cached && n > prompt_len / SIMILAR_DIVISOR) {
            *cached = n;
            longest = i;
        }
        if (oldest == slots->count ||
            slot->idle_since < slots->slots[oldest].idle_since) {
            oldest = i;
        }
    }
    CHECK(oldest < slots->count);
    if (longest == slots->count) {
        *cached = common(&slots->slots[oldest], prompt, prompt_len);
        return oldest;
    }
    return longest;
}

void
engine_slots_take(struct engine_slots *slots, uint32_t slot)
{
    CHECK(slot < slots->count && !slots->slots[slot].busy);
    slots->slots[slot].busy = true;
}

void
engine_slots_release(struct engine_slots *slots, uint32_t slot,
                     const uint32_t *tokens, uint32_t len)
{
    struct engine_slot *s = &slots->slots[slot];

    CHECK(slot < slots->count && s->busy);
    s->busy = false;
    s->idle_since = ++slots->releases;
    free(s->tokens);
    s->tokens = len > 0 ? malloc(len * sizeof *s->tokens) : NULL;
    s->len = s->tokens != NULL ? len : 0;
    if (s->len > 0) {
        memcpy(s->tokens, tokens, len * sizeof *s->tokens);
    }
}
