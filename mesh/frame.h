/*
 * Frames: what travels between two nodes, one per message of the transport.
 *
 *   head  magic u32, major u8, minor u8, type u8, size of the head u8,
 *         session u64, sequence u64, size of the body u32, zero u32,
 *         checksum u64
 *   body  bytes
 *
 * Little endian. The head may grow: it says its size, and whoever does not
 * know a field at its end skips it; the same goes for the end of a hello. A
 * type that is not known is skipped whole. So minor versions never separate
 * nodes; a major one does, and is refused by name. The checksum (XXH3, by way
 * of key.h) is over all that is not it, against what a transport without TLS
 * may do to bytes; it proves nothing about who sent them.
 *
 * The first frame of a connection is a hello: who I am, which cluster I am of,
 * where I am reached, which channel this connection is, a number of this
 * connection, and the last such number I heard from you on each channel. Who
 * gets its own number back is heard. Hellos of both channels are numbered
 * together: one that another overtook says what is not true any more. A hello
 * is a msgpack map (index/base/pack.h) under the keys channel, min, max,
 * cluster, name, address, nonce, echo_ctl and echo_bulk; a key that is not
 * known is skipped. It is written in the lowest major version that its sender
 * speaks and says the highest; the two then speak the lower of their highest
 * ones.
 *
 * Major version 1 had hellos, memberships, rosters and gauges at fixed places
 * instead of msgpack. It is refused.
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
#define FRAME_MAJOR_MIN 2U          /* versions this build speaks */
#define FRAME_MAJOR_MAX 2U
#define FRAME_MINOR     0U
#define FRAME_HEAD_SIZE 40U
#define FRAME_BODY_MAX  ((size_t)256 << 10)
#define FRAME_TEXT_MAX  64U  /* of a hello's texts, with the NUL */
#define FRAME_CHANNELS  2U   /* control and bulk, see link.h */
#define FRAME_HELLO_MAX 320U /* bytes; its texts are most of it */

enum frame_type {
    FRAME_HELLO = 1, /* may come again on a connection: what was heard anew */
    FRAME_IDLE,      /* nothing, said so that silence means something */
    FRAME_DATA,
};

enum {
    FRAME_E_MAGIC = 1, /* not ours at all, or too short to tell */
    FRAME_E_VERSION,   /* a major version not spoken here: frame.major */
    FRAME_E_SIZE,      /* its sizes disagree, or the body is over the limit */
    FRAME_E_SUM,       /* damaged on the way */
    FRAME_E_HELLO,     /* a hello that cannot be */
};

struct frame {
    uint8_t major;
    uint8_t minor;
    uint8_t type;      /* enum frame_type, or one of a later version */
    uint64_t session;  /* of the sender's process, random */
    uint64_t sequence; /* DATA: of the session's channel, from 1, growing; a gap
                          is what the sender dropped or a connection lost.
                          HELLO: of the session, growing */
    struct slice body;
};

/*
 * Fills in the head of a frame whose body is at bytes + FRAME_HEAD_SIZE.
 * size: of the whole, FRAME_HEAD_SIZE or more, the body FRAME_BODY_MAX at most.
 * frame->body is not looked at.
 */
void frame_seal(const struct frame *frame, uint8_t *bytes, size_t size);

/*
 * 0 and the frame, its body borrowed from bytes, or an outcome above. A major
 * version that is not known is told before anything that it may have changed.
 */
int frame_read(const uint8_t *bytes, size_t size, struct frame *frame)
    MUST_CHECK;

/* Texts: printable ASCII without spaces. */
struct frame_hello {
    uint8_t channel;              /* of this connection, below FRAME_CHANNELS */
    uint8_t major_min;            /* spoken by the sender, both included */
    uint8_t major_max;            /* ... so they are what binds */
    char cluster[FRAME_TEXT_MAX]; /* not empty */
    char name[FRAME_TEXT_MAX];    /* of the node; not empty */
    char address[FRAME_TEXT_MAX]; /* where it is reached; not empty */
    uint64_t nonce;               /* of this connection, random, not 0 */
    uint64_t echo[FRAME_CHANNELS]; /* the receiver's, as last heard; or 0 */
};

/* The number of bytes written, FRAME_HELLO_MAX at most. */
size_t frame_hello_write(const struct frame_hello *hello, uint8_t *bytes);

/* The body of a hello: 0, or FRAME_E_HELLO and *hello is undefined. */
int frame_hello_read(struct slice body, struct frame_hello *hello) MUST_CHECK;

#endif
