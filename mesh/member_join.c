/* How other members are found: hints, and full exchanges. */
#include <stdio.h>
#include <string.h>

#include "mesh/member_internal.h"

static struct member_hint *
find_hint(struct member_table *t, const char *address)
{
    CHECK(address[0] != '\0');
    for (uint32_t i = 0; i < HINTS_MAX; i++) {
        if (strcmp(t->hints[i].address, address) == 0) {
            return &t->hints[i];
        }
    }
    return NULL;
}

/* A free slot, or that of the oldest hint. */
static struct member_hint *
take_hint(struct member_table *t)
{
    struct member_hint *hint = &t->hints[0];

    for (uint32_t i = 0; i < HINTS_MAX; i++) {
        if (t->hints[i].address[0] == '\0') {
            return &t->hints[i];
        }
        if (t->hints[i].given_us < hint->given_us) {
            hint = &t->hints[i];
        }
    }
    return hint;
}

static bool
is_known(const struct member_table *t, const char *address)
{
    uint32_t slot = member_find_address(t, address);

    CHECK(address[0] != '\0');
    return slot != NOBODY && entry_counts(&t->entries[slot]);
}

void
member_hint_add(struct member_table *t, const char *address)
{
    struct member_hint *hint;

    CHECK(!t->silent);
    if (address[0] == '\0' ||
        strnlen(address, MEMBER_ADDRESS_MAX) == MEMBER_ADDRESS_MAX ||
        is_known(t, address)) {
        return;
    }
    hint = find_hint(t, address);
    if (hint != NULL) {
        hint->given_us = t->now_us;
        return;
    }
    hint = take_hint(t);
    *hint = (struct member_hint){
        .given_us = t->now_us,
        .next_us = t->now_us,
        .wait_us = t->config.probe_ms * MS,
    };
    (void)snprintf(hint->address, sizeof hint->address, "%s", address);
    member_hints_tick(t);
}

void
member_hint_drop(struct member_table *t, const char *address)
{
    struct member_hint *hint =
        address[0] != '\0' ? find_hint(t, address) : NULL;

    if (hint != NULL) {
        *hint = (struct member_hint){0};
    }
}

void
member_hints_tick(struct member_table *t)
{
    uint64_t most = (uint64_t)HINT_PERIODS * t->config.probe_ms * MS;

    CHECK(!t->silent);
    for (uint32_t i = 0; i < HINTS_MAX; i++) {
        struct member_hint *hint = &t->hints[i];
        if (hint->address[0] == '\0' || t->now_us < hint->next_us) {
            continue;
        }
        if (is_known(t, hint->address)) {
            *hint = (struct member_hint){0};
            continue;
        }
        CHECK(hint->wait_us > 0 && hint->wait_us <= most);
        member_sync(t, hint->address);
        hint->next_us = t->now_us + member_jitter_us(t, hint->wait_us);
        hint->wait_us = hint->wait_us * 2 < most ? hint->wait_us * 2 : most;
    }
}

void
member_sync(struct member_table *t, const char *address)
{
    struct member_send *send = member_send(t, MEMBER_SYNC, address);

    if (send != NULL) {
        memcpy(send->target_address, send->address,
               sizeof send->target_address);
    }
}

void
member_sync_tick(struct member_table *t)
{
    uint32_t slot = member_any_alive(t, 0);

    CHECK(slot != SELF);
    t->next_sync_us = t->now_us + member_jitter_us(t, t->config.sync_ms * MS);
    if (slot != NOBODY) {
        member_sync(t, t->entries[slot].is.address);
    }
}

void
member_got_sync(struct member_table *t, const struct member_message *m)
{
    CHECK(m->kind == MEMBER_SYNC || m->kind == MEMBER_SYNC_ACK);
    if (m->kind == MEMBER_SYNC_ACK) {
        member_hint_drop(t, m->target_address);
        return;
    }
    struct member_send *send = member_send(t, MEMBER_SYNC_ACK, m->from.address);

    if (send != NULL) {
        memcpy(send->target_address, m->target_address,
               sizeof send->target_address);
    }
}
