/*
 * A fault script: what is done to a mesh, and when, as text that the simulator
 * (kvasir-sim --script) and real processes (chaos/netns script) both play.
 *
 *   # two nodes lose the third          a comment, to the end of its line
 *   nodes 3                             first of all; then
 *   engines 2
 *   replay 16                           engines repeat no more than 16 batches;
 *                                       absent: as many as they like
 *   at 1s sever n1 n3                   both ways
 *   at 1s mute n2 n3                    n3 does not hear n2
 *   at 1s miss n1 e2                    n1 does not reach e2
 *   at 1500ms loss 20%                  of the packets between all nodes
 *   at 1.5s delay 80ms 40ms             between all nodes: 40 to 120 ms
 *   at 3s heal                          links are perfect again
 *   at 4s kill n2                       no goodbye
 *   at 4s stop n1                       a goodbye
 *   at 5s start n2
 *   at 5s pause n3 2s                   it stands still for two seconds
 *   at 6s restart e1                    another process, with an empty cache
 *   at 8s end                           last of all: everything is mended
 *
 * Time begins when the mesh is together, and never goes back from one line to
 * the next. Impossible lines are refused: a killed node cannot be killed again,
 * and nothing can be done to a paused one.
 *
 * Role: core. Owns: nothing; no allocation. Thread: any. Limits: FAULT_*_MAX.
 * Errors: the first thing that is wrong, and its place.
 */
#ifndef CHAOS_FAULT_SCRIPT_H
#define CHAOS_FAULT_SCRIPT_H

#include <stdint.h>

#include "index/base/buf.h"
#include "index/base/check.h"
#include "index/base/slice.h"

#define FAULT_NODES_MAX   20U
#define FAULT_ENGINES_MAX 6U
#define FAULT_EVENTS_MAX  200U
#define FAULT_TEXT_MAX    ((size_t)16 << 10)
#define FAULT_MS_MAX      86400000U
#define FAULT_REPLAY_MAX  100000U

/* X(VERB, word, shape), a letter for each argument: n node, e engine, t time, p
 * percent. */
#define FAULT_VERBS(X)       \
    X(SEVER, sever, "nn")    \
    X(MUTE, mute, "nn")      \
    X(MISS, miss, "ne")      \
    X(LOSS, loss, "p")       \
    X(DELAY, delay, "tt")    \
    X(HEAL, heal, "")        \
    X(KILL, kill, "n")       \
    X(STOP, stop, "n")       \
    X(START, start, "n")     \
    X(PAUSE, pause, "nt")    \
    X(RESTART, restart, "e") \
    X(END, end, "")

enum fault_verb {
#define FAULT_VERB_ENUM(VERB, word, shape) FAULT_##VERB,
    FAULT_VERBS(FAULT_VERB_ENUM)
#undef FAULT_VERB_ENUM
    FAULT_VERB_KINDS,
};

struct fault_event {
    uint32_t at_ms;
    enum fault_verb verb;
    uint32_t argument[2]; /* n1 and e1 are 0; times in ms; percent */
};

struct fault_script {
    uint32_t nodes;
    uint32_t engines;
    uint32_t replay;       /* batches that an engine repeats; 0: all */
    uint32_t events_count; /* the last one is END */
    struct fault_event events[FAULT_EVENTS_MAX];
};

/* Where the text is wrong, counted from 1, and what is; static text. */
struct fault_error {
    uint32_t line;
    uint32_t column;
    const char *what;
};

/* Reads a script. False: *error says why, and *script must not be used. */
bool fault_script_read(struct fault_script *script, struct slice text,
                       struct fault_error *error) MUST_CHECK;

/* Writes the script as text: a line for each event, one space between words,
 * times in ms. */
void fault_script_put(const struct fault_script *script, struct buf *out);

#endif
