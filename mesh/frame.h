/*
 * Frames: what travels between two nodes, one frame per message of the
 * transport.
 *
 *   head  magic u32, major u8, minor u8, type u8, size of the head u8,
 *         session u64, sequence u64, size of the body u32, zero u32,
 *         checksum u64
 *   body  bytes
 *
 * All numbers are little endian. The head may grow: it contains its own size,
 * and a receiver skips fields at its end that it does not know; the same holds
 * for the end of a hello. A frame of an unknown type is skipped whole. So minor
 * versions never separate nodes. A different major version does, and is refused
 * by name. The checksum (XXH3, through key.h) covers everything but itself. It
 * detects what a transport without TLS may do to bytes; it proves nothing about
 * the sender.
 *
 * The first frame of a connection is a hello. It carries the sender's identity,
 * cluster and address, the channel of this connection, a random number for this
 * connection (nonce), and the last such number that the sender received on each
 * channel. A node that gets its own number back knows that it is heard. The
 * hellos of both channels are numbered together, because a hello that another
 * one overtook is out of date. A hello is a msgpack map (index/base/pack.h)
 * with the keys channel, min, max, cluster, name, address, nonce, echo_ctl and
 * echo_bulk; unknown keys are skipped. It is written in the lowest major
 * version that its sender speaks and names the highest. Both nodes then speak
 * the lower of their two highest versions.
 *
 * Major version 1 had hellos, memberships, rosters and gauges at fixed offsets
 * instead of in msgpack. It is refused.
 *
 * Role: core. Owns: nothing. Thread: any. Limits: FRAME_BODY_MAX.
 */
#ifndef MESH_FRAME_H
#define MESH_FRAME_H

#include <stddef.h>
#include <stdint.h>

#include "index/base/check.h"
#include "index/base/slice.h"

#define FRAME_MAGIC     0x5253564BU /* "KVSR" as bytes */
#define FRAME_MAJOR_MIN 2U          /* versions that this build speaks */
#define FRAME_MAJOR_MAX 2U
#define FRAME_MINOR     0U
#define FRAME_HEAD_SIZE 40U
#define FRAME_BODY_MAX  ((size_t)256 << 10)
#define FRAME_TEXT_MAX  64U  /* of a hello's texts, NUL included */
#define FRAME_CHANNELS  2U   /* control and bulk, see link.h */
#define FRAME_HELLO_MAX 320U /* bytes; its texts are most of it */

enum frame_type {
    FRAME_HELLO = 1, /* may be repeated on a connection, with newly heard
                        numbers */
    FRAME_IDLE,      /* empty; sent so that silence is significant */
    FRAME_DATA,
};

enum {
    FRAME_E_MAGIC = 1, /* not a frame of ours, or too short to tell */
    FRAME_E_VERSION,   /* an unsupported major version: frame.major */
    FRAME_E_SIZE,      /* its sizes disagree, or the body exceeds the limit */
    FRAME_E_SUM,       /* damaged in transit */
    FRAME_E_HELLO,     /* an impossible hello */
};

struct frame {
    uint8_t major;
    uint8_t minor;
    uint8_t type;      /* enum frame_type, or one of a later version */
    uint64_t session;  /* of the sender's process, random */
    uint64_t sequence; /* DATA: rises from 1 within a session's channel; a gap
                          means that the sender dropped frames or a connection
                          lost them. HELLO: rises within the session */
    struct slice body;
};

/*
 * Fills in the head of a frame whose body is at bytes + FRAME_HEAD_SIZE. size:
 * of the whole frame, at least FRAME_HEAD_SIZE; the body is at most
 * FRAME_BODY_MAX. frame->body is ignored.
 */
void frame_seal(const struct frame *frame, uint8_t *bytes, size_t size);

/*
 * 0 and the frame, whose body is borrowed from bytes, or an outcome above. An
 * unknown major version is reported before anything that it may have changed.
 */
int frame_read(const uint8_t *bytes, size_t size, struct frame *frame)
    MUST_CHECK;

/* Texts: printable ASCII without spaces. */
struct frame_hello {
    uint8_t channel;              /* of this connection, below FRAME_CHANNELS */
    uint8_t major_min;            /* lowest major version that the sender
                                     speaks */
    uint8_t major_max;            /* highest one */
    char cluster[FRAME_TEXT_MAX]; /* not empty */
    char name[FRAME_TEXT_MAX];    /* of the node; not empty */
    char address[FRAME_TEXT_MAX]; /* where the node is reached; not empty */
    uint64_t nonce;               /* of this connection, random, not 0 */
    uint64_t echo[FRAME_CHANNELS]; /* the receiver's nonces, as last heard; or
                                      0 */
};

/* Writes a hello; returns its size, at most FRAME_HELLO_MAX. */
size_t frame_hello_write(const struct frame_hello *hello, uint8_t *bytes);

/* Reads the body of a hello: 0, or FRAME_E_HELLO and *hello is undefined. */
int frame_hello_read(struct slice body, struct frame_hello *hello) MUST_CHECK;

#endif
