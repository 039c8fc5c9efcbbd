/* Each allocation of a stream that joins late, with holes in the replay, fails
 * once: what could not be held is asked for again, and nothing leaks. */
#include <errno.h>

#include "kv_stream_rig.h"
#include "tests/unit/failing_alloc.h"

#define LAST UINT64_C(30)

static void
follow(void)
{
    rig_connect();
    rig_live_run('a', 20, 25);
    rig_wait_ask();
    for (uint64_t seq = 0; seq < 20; seq += 3) {
        rig_reply('a', seq);
    }
    rig_end();
    for (uint64_t seq = 26; seq <= LAST; seq++) {
        rig_answer('a', 0, seq - 1);
        rig_live('a', seq);
        rig_wait(PROBE_MS * MS);
    }
    rig_answer('a', 0, LAST);
    rig_has('a', 0, LAST);
    cr_assert_eq(rig.state, KV_STREAM_LIVE);
}

Test(node_kv_stream_memory, every_allocation_may_fail_once)
{
    uint64_t n = 0;

    for (; failing_alloc_after(n); n++) {
        rig = (struct rig){
            .config = {.has_replay = true,
                       .replay_timeout_ms = SILENCE_MS,
                       .replay_rounds = ROUNDS,
                       .probe_interval_ms = PROBE_MS,
                       .retry_ms = RETRY_MS,
                       .pending_bytes_max = 1 << 20},
            .now_us = 1000000,
        };
        int error = kv_stream_new(&rig.stream, &rig.config, &rig.counters,
                                  rig.now_us, 1);
        if (error == 0) {
            follow();
            kv_stream_free(rig.stream);
        } else {
            cr_assert_eq(error, -ENOMEM);
        }
    }
    failing_alloc_stop();
    cr_assert_gt(n, 10);
}
