/* Whatever a trace says, what was read of it can be replayed: requests with a
 * prompt and an answer, times from 0 on, each following an earlier one. */
#include "chaos/replay/replay_trace.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const struct replay_limits limits = {.requests_max = 64,
                                            .runs_max = 4096,
                                            .prompt_tokens_max = 1U << 16,
                                            .output_tokens_max = 1U << 16};

static void
check_request(const struct replay_load *load, uint32_t index)
{
    const struct replay_request *r = &load->requests[index];
    uint64_t tokens = 0;

    for (uint32_t i = 0; i < r->runs_count; i++) {
        CHECK(r->runs_from + i < load->runs_count);
        CHECK(load->runs[r->runs_from + i].tokens > 0);
        tokens += load->runs[r->runs_from + i].tokens;
    }
    CHECK(tokens == r->prompt_tokens && tokens > 0);
    CHECK(tokens <= limits.prompt_tokens_max);
    CHECK(r->output_tokens > 0 && r->output_tokens <= limits.output_tokens_max);
    if (r->after != REPLAY_NONE) {
        CHECK(r->after < index && load->requests[r->after].next == index);
    } else if (index > 0) {
        CHECK(r->at_us >= load->requests[0].at_us);
    }
}

int
LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct slice bytes = {.ptr = (const char *)data, .len = size};
    struct replay_load load;
    struct replay_fault fault;

    replay_load_init(&load, &limits);
    int outcome = replay_trace_read(bytes, &load, &fault);
    CHECK(outcome == 0 || outcome == REPLAY_TRACE_E_BAD);
    CHECK((outcome == 0) == (fault.text[0] == '\0'));
    CHECK(fault.line <= size);
    CHECK(outcome != 0 || (load.count > 0 && load.requests[0].at_us == 0));
    for (uint32_t i = 0; i < load.count && outcome == 0; i++) {
        check_request(&load, i);
    }
    replay_load_fini(&load);
    return 0;
}
