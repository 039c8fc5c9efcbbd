/* Switches, delays, loses and repeats frames. */
#include "chaos/wire/wire.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#define MAC_BYTES    6
#define FRAME_MIN    (WIRE_PREFIX_BYTES + 2U * MAC_BYTES + 2U)
#define MULTICAST    (UINT64_C(1) << 40) /* lowest bit of the first byte */
#define PERMILLE_ALL 1000U

int
wire_init(struct wire *wire, const char *const *names, uint32_t ports_count,
          uint64_t seed, uint64_t now_us)
{
    CHECK(ports_count >= 1 && ports_count <= WIRE_PORTS_MAX);
    *wire = (struct wire){.names = names, .ports_count = ports_count};
    wire->frames = calloc(WIRE_FRAMES_MAX, sizeof(*wire->frames));
    if (wire->frames == NULL) {
        return -ENOMEM;
    }
    for (uint32_t i = 0; i < WIRE_FRAMES_MAX; i++) {
        wire->free[i] = i;
    }
    wire->free_count = WIRE_FRAMES_MAX;
    rng_init(&wire->rng, seed);
    virtual_time_init(&wire->time, WIRE_FRAMES_MAX, now_us);
    return 0;
}

void
wire_fini(struct wire *wire)
{
    virtual_time_fini(&wire->time);
    free(wire->frames);
    wire->frames = NULL;
}

static uint64_t
mac_at(const uint8_t *bytes)
{
    uint64_t mac = 0;

    for (unsigned i = 0; i < MAC_BYTES; i++) {
        mac = mac << 8 | bytes[i];
    }
    return mac;
}

static bool
chance(struct wire *wire, uint32_t permille)
{
    return rng_below(&wire->rng, PERMILLE_ALL) < permille;
}

static uint64_t
draw_delay(struct wire *wire, const struct wire_link *link)
{
    uint64_t least =
        link->delay_us > link->jitter_us ? link->delay_us - link->jitter_us : 0;
    uint64_t most = link->delay_us + link->jitter_us;

    return least + rng_below(&wire->rng, most - least + 1);
}

static void
put(struct wire *wire, uint32_t from, uint32_t to, struct slice bytes,
    uint64_t now_us)
{
    uint64_t due_us = now_us + draw_delay(wire, &wire->link[from][to]);

    if (wire->free_count == 0) {
        wire->counts.full++;
        return;
    }
    uint32_t slot = wire->free[wire->free_count - 1];
    struct virtual_event event = {
        .time_us = due_us > wire->time.now_us ? due_us : wire->time.now_us,
        .who = slot};
    if (virtual_time_add(&wire->time, &event) != 0) {
        wire->counts.full++;
        return;
    }
    wire->free_count--;
    struct wire_frame *frame = &wire->frames[slot];
    frame->to = to;
    frame->len = (uint32_t)bytes.len;
    memcpy(frame->bytes, bytes.ptr, bytes.len);
}

static void
carry(struct wire *wire, uint32_t from, uint32_t to, struct slice bytes,
      uint64_t now_us)
{
    const struct wire_link *link = &wire->link[from][to];

    if (link->severed) {
        wire->counts.severed++;
        return;
    }
    if (chance(wire, link->loss_permille)) {
        wire->counts.lost++;
        return;
    }
    wire->carried[from][to] += bytes.len - WIRE_PREFIX_BYTES;
    put(wire, from, to, bytes, now_us);
    if (chance(wire, link->duplicate_permille)) {
        wire->counts.duplicated++;
        put(wire, from, to, bytes, now_us);
    }
}

/* The port of a host, or ports_count. */
static uint32_t
port_of(const struct wire *wire, uint64_t mac)
{
    uint32_t port = 0;

    while (port < wire->ports_count && wire->host[port] != mac) {
        port++;
    }
    return port;
}

void
wire_recv(struct wire *wire, uint32_t from, const uint8_t *bytes, size_t len,
          uint64_t now_us)
{
    struct slice frame = {(const char *)bytes, len};

    CHECK(from < wire->ports_count);
    if (len < FRAME_MIN || len > WIRE_FRAME_BYTES_MAX) {
        wire->counts.odd++;
        return;
    }
    uint64_t receiver = mac_at(bytes + WIRE_PREFIX_BYTES);
    wire->host[from] = mac_at(bytes + WIRE_PREFIX_BYTES + MAC_BYTES);
    uint32_t only = (receiver & MULTICAST) != 0 ? wire->ports_count
                                                : port_of(wire, receiver);
    for (uint32_t to = 0; to < wire->ports_count; to++) {
        if (to != from && (only == wire->ports_count || only == to)) {
            carry(wire, from, to, frame, now_us);
        }
    }
}

const struct wire_frame *
wire_next_out(struct wire *wire, uint64_t now_us)
{
    struct virtual_event event;

    if (!virtual_time_next(&wire->time, now_us, &event)) {
        return NULL;
    }
    CHECK(event.who < WIRE_FRAMES_MAX && wire->free_count < WIRE_FRAMES_MAX);
    wire->free[wire->free_count++] = event.who;
    wire->counts.passed++;
    return &wire->frames[event.who];
}

uint64_t
wire_deadline(const struct wire *wire)
{
    return virtual_time_deadline(&wire->time);
}
