/*
 * Links on one loop, and strangers that speak their wire by hand.
 */
#ifndef TESTS_UNIT_MESH_LINK_RIG_H
#define TESTS_UNIT_MESH_LINK_RIG_H

#include "index/base/buf.h"
#include "mesh/frame.h"
#include "mesh/link.h"

#define RIG_NODES  4U
#define RIG_WAIT_S 60U /* until something is held not to happen */

/* What one node was told. */
struct rig_node {
    struct mesh_link *link;
    unsigned ups;
    unsigned downs;
    unsigned resumed;
    unsigned refused[MESH_REFUSALS];
    uint64_t up_session;   /* of the last up() */
    char down_reason[64];  /* of the last down() */
    char refused_what[64]; /* of the last refused() */
    char refused_from[64];
    unsigned certificate[MESH_SECRET_BAD + 1];
    int64_t expiry_s;         /* of the last certificate() */
    char certificate_why[64]; /* ... that was bad */
    unsigned received[MESH_CHANNELS];
    uint64_t from_session;
    char from_name[64];
    struct buf text;                /* bodies, each followed by ';' */
    char echo_to[MESH_ADDRESS_MAX]; /* what comes is sent there, unless "" */
    const char *drop_on_down;       /* an address, or NULL */
};

struct rig {
    uv_loop_t loop;
    uv_loop_t other;    /* of nodes that may stand still */
    bool other_stopped; /* it is not turned */
    bool on_other[RIG_NODES];
    struct rig_node nodes[RIG_NODES];
};

extern struct rig rig;

void rig_init(void);

/* Frees the links and runs the loop until it is empty. */
void rig_fini(void);

/* Of node n: loopback, a free port, cluster "blue", name "node-N", session
 * n + 1, all waits short. */
struct mesh_link_config rig_config(unsigned n);

/* Opens the link of node n and returns its address. */
const char *rig_open(unsigned n, const struct mesh_link_config *config);
const char *rig_open_default(unsigned n);

/* Frees the link of node n; done when the loop ran on. */
void rig_close(unsigned n);

/* Turns the loops until the condition holds, or fails the test. */
#define RIG_UNTIL(...)                                  \
    do {                                                \
        rig_wait_begin();                               \
        while (!(__VA_ARGS__)) {                        \
            rig_turn(#__VA_ARGS__, __FILE__, __LINE__); \
        }                                               \
    } while (0)
void rig_wait_begin(void);
void rig_turn(const char *what, const char *file, int line);

/* Turns it for a while, to see that nothing happens. */
void rig_turns(unsigned ms);

/* Nodes a and b are up for each other. */
void rig_meet(unsigned a, unsigned b);

int rig_send(unsigned from, unsigned to, enum mesh_channel channel,
             const char *text);

struct mesh_link_stats rig_stats(unsigned n);

/* A TCP connection to node n from one of this machine's IPv4 addresses; the
 * caller close()s it. */
int rig_connect(unsigned n, uint32_t from);

/* A TCP connection to node n that has said it is PUSH, as NNG would; the
 * caller close()s it. */
int rig_stranger(unsigned n);

/* Sends bytes as one message, waiting until the kernel has them. */
void rig_say(int stranger, const void *bytes, size_t size);

/* A hello that node 0 would take, of a node at `address`. */
struct frame_hello rig_hello(const char *address);
void rig_say_hello(int stranger, const struct frame_hello *hello,
                   uint64_t session);
void rig_say_frame(int stranger, const struct frame *frame, const char *body);

#endif
