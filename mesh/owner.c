/* Who reads a stream and who pushes it, by rendezvous hashing. */
#include "mesh/owner.h"

#include "index/base/check.h"
#include "index/base/rng.h"

uint64_t
owner_name(const char *name)
{
    CHECK(name != NULL);
    return key_digest(slice_of(name));
}

uint64_t
owner_weight(uint64_t name, const struct event_stream *stream)
{
    return rng_mix(name ^ rng_mix(stream->worker ^ rng_mix(stream->rank)));
}

/* Whether a is before b. Equal weights go by name, so that the order of the
 * members does not matter. */
static bool
before(const struct event_stream *stream, const struct owner_member *a,
       const struct owner_member *b)
{
    uint64_t weight_a = owner_weight(a->name, stream);
    uint64_t weight_b = owner_weight(b->name, stream);

    if (a->near != b->near) {
        return a->near > b->near;
    }
    return weight_a != weight_b ? weight_a > weight_b : a->name > b->name;
}

static bool
anyone_able(const struct owner_member *members, uint32_t count)
{
    CHECK(members != NULL || count == 0);
    for (uint32_t i = 0; i < count; i++) {
        if (!members[i].unable) {
            return true;
        }
    }
    return false;
}

uint32_t
owner_rank(const struct event_stream *stream,
           const struct owner_member *members, uint32_t count, uint32_t *ranked,
           uint32_t wanted)
{
    bool able = anyone_able(members, count);
    uint32_t len = 0;

    CHECK(wanted == 0 || ranked != NULL);
    for (uint32_t i = 0; i < count; i++) {
        if (able && members[i].unable) {
            continue;
        }
        uint32_t at = len;
        while (at > 0 &&
               before(stream, &members[i], &members[ranked[at - 1]])) {
            at--;
        }
        if (at >= wanted) {
            continue;
        }
        len += len < wanted;
        for (uint32_t k = len - 1; k > at; k--) {
            ranked[k] = ranked[k - 1];
        }
        ranked[at] = i;
    }
    CHECK(len <= wanted && len <= count);
    return len;
}

/* The role that a rank requires. */
static enum owner_role
due_role(const struct owner_view *view)
{
    CHECK(view != NULL);
    if (view->rank == OWNER_NO_RANK) {
        return OWNER_NONE;
    }
    if (view->rank == 0 || (view->rank == 1 && view->first_unwell)) {
        return OWNER_PUSHES;
    }
    return OWNER_READS;
}

enum owner_role
owner_update(struct owner *owner, const struct owner_view *view,
             uint32_t hand_over_ms, uint64_t now_us)
{
    enum owner_role due = due_role(view);

    CHECK(owner->role <= OWNER_PUSHES && now_us != UINT64_MAX);
    CHECK(!owner->handing_over || owner->role != OWNER_NONE);
    if (due >= owner->role) {
        *owner = (struct owner){.role = due};
    } else if (!owner->handing_over || view->first_unwell) {
        /* A first that is unwell does not take over yet. */
        owner->handing_over = true;
        owner->hand_over_us = now_us + (uint64_t)hand_over_ms * 1000;
    } else if (now_us >= owner->hand_over_us) {
        *owner = (struct owner){.role = due};
    }
    CHECK(owner->role >= due);
    return owner->role;
}

enum owner_role
owner_heard_first(struct owner *owner, const struct owner_view *view)
{
    enum owner_role due = due_role(view);

    CHECK(owner->role <= OWNER_PUSHES);
    if (due < owner->role) {
        *owner = (struct owner){.role = due};
    }
    return owner->role;
}

uint64_t
owner_deadline(const struct owner *owner)
{
    CHECK(!owner->handing_over || owner->role != OWNER_NONE);
    return owner->handing_over ? owner->hand_over_us : UINT64_MAX;
}
