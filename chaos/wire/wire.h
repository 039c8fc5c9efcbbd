/*
 * A wire between hosts: a switch with one port per host, whose links delay,
 * jitter, lose and repeat frames, or are severed. It does what netem does where
 * the kernel has it, and does it everywhere. Every decision is drawn from one
 * seed. Each direction of each pair of ports is a link of its own, which may be
 * changed while frames are under way.
 *
 * A frame goes to the port where its receiver was last heard, to all others
 * when that is not known. Without jitter a link keeps the order of frames.
 *
 * Role: core. Owns: the frames under way. Thread: one owner.
 * Limits: WIRE_PORTS_MAX, WIRE_FRAMES_MAX, WIRE_FRAME_BYTES_MAX; what exceeds
 * them is dropped and counted. Errors: -ENOMEM.
 */
#ifndef CHAOS_WIRE_H
#define CHAOS_WIRE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "chaos/base/virtual_time.h"
#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/rng.h"
#include "index/base/slice.h"

#define WIRE_PORTS_MAX       32U
#define WIRE_FRAMES_MAX      8192U
#define WIRE_FRAME_BYTES_MAX 2048U
#define WIRE_PREFIX_BYTES    10U /* of the kernel's, before the frame itself */
#define WIRE_COMMAND_MAX     ((size_t)16 << 10)
#define WIRE_DELAY_MAX_US    UINT64_C(60000000)

/* From one port to another. All zero: perfect. */
struct wire_link {
    uint64_t delay_us;
    uint64_t jitter_us; /* the delay is this much less or more, uniformly */
    uint32_t loss_permille;
    uint32_t duplicate_permille;
    bool severed;
};

struct wire_frame {
    uint32_t to; /* the port it leaves by */
    uint32_t len;
    uint8_t bytes[WIRE_FRAME_BYTES_MAX]; /* prefix included */
};

struct wire_counts {
    uint64_t passed;
    uint64_t lost; /* by chance */
    uint64_t severed;
    uint64_t duplicated;
    uint64_t full; /* no room left */
    uint64_t odd;  /* too short or too long */
};

struct wire {
    uint64_t carried[WIRE_PORTS_MAX][WIRE_PORTS_MAX]; /* bytes, from, to */
    struct virtual_time time;
    struct rng rng;
    const char *const *names; /* of ports */
    uint32_t ports_count;
    struct wire_link link[WIRE_PORTS_MAX][WIRE_PORTS_MAX]; /* from, to */
    uint64_t host[WIRE_PORTS_MAX]; /* who was heard there; 0: nobody yet */
    struct wire_frame *frames;
    uint32_t free[WIRE_FRAMES_MAX];
    uint32_t free_count;
    struct wire_counts counts;
};

/* names: borrowed, 1 to WIRE_PORTS_MAX. All links are perfect. 0 or -ENOMEM. */
int wire_init(struct wire *wire, const char *const *names, uint32_t ports_count,
              uint64_t seed, uint64_t now_us) MUST_CHECK;

/* Frees the frames under way. */
void wire_fini(struct wire *wire);

/* A frame came in at a port; it is copied. */
void wire_recv(struct wire *wire, uint32_t from, const uint8_t *bytes,
               size_t len, uint64_t now_us);

/* The next frame that is due: the caller's to send until it calls again. NULL:
 * none is. */
const struct wire_frame *wire_next_out(struct wire *wire, uint64_t now_us);

/* When the next frame is due; UINT64_MAX: never. */
uint64_t wire_deadline(const struct wire *wire);

/*
 * Carries out commands, a line each, all or none, and answers in text:
 *
 *   link FROM TO KEY=VALUE...  FROM and TO are ports, `*` stands for all; keys
 *                              are delay_us, jitter_us, loss_permille,
 *                              duplicate_permille, severed (0, 1); others stay
 *   reset                      all links are perfect
 *   counts                     asks for the counts
 *   bytes FROM TO              asks for what that way carried so far, in bytes of
 *                              frames
 *
 * The answer is `ok` and the counts as KEY=VALUE (bytes: of all ways that were
 * asked for), or `no:` and why.
 */
void wire_command(struct wire *wire, struct slice text, struct buf *answer);

#endif
