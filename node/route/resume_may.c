/* Which streams may go on at another worker. */
#include "node/route/resume_may.h"

/* Whether there is a text to go on with; of Messages and Responses as chats. */
static bool
is_apt(const struct scan *scan)
{
    bool text = scan->shape == SCAN_STRING || scan->shape == SCAN_ID_LIST;

    switch (scan->api) {
    case SCAN_API_CHAT:
    case SCAN_API_MESSAGES:
        return scan->shape == SCAN_MESSAGES;
    case SCAN_API_RESPONSES:
        return scan->shape == SCAN_MESSAGES || scan->shape == SCAN_STRING;
    case SCAN_API_TEXT:
        return text;
    case SCAN_API_GUESSED:
        return !scan->prompt_is_input && (text || scan->shape == SCAN_MESSAGES);
    case SCAN_API_EMBEDDINGS:
    case SCAN_API_POOLING:
    case SCAN_API_OTHER:
    case SCAN_APIS:
        break;
    }
    return false;
}

enum resume_pass
resume_judge(const struct scan *scan, size_t body_len, enum resume_rule rule,
             bool retries)
{
    if (!scan->stream) {
        return RESUME_NO_STREAM;
    }
    if (rule == RESUME_OFF) {
        return RESUME_RULE_OFF;
    }
    if (!retries) {
        return RESUME_NO_RETRIES;
    }
    if (rule == RESUME_GREEDY && !scan->greedy) {
        return RESUME_SAMPLED;
    }
    if (scan->n != 1 || scan->prompts != 1) {
        return RESUME_SEVERAL;
    }
    if (!is_apt(scan)) {
        return RESUME_PATH;
    }
    if (scan->stateful || scan->rescored || scan->truncated) {
        return RESUME_STATE;
    }
    return body_len > RESUME_REQUEST_MAX ? RESUME_LARGE : RESUME_MAY;
}

bool
resume_suits(enum engine_kind kind, enum scan_api api, bool exact)
{
    return api == SCAN_API_TEXT || kind == ENGINE_VLLM ||
           kind == ENGINE_SGLANG || (kind == ENGINE_OTHER && exact);
}

const char *
resume_pass_name(enum resume_pass pass)
{
    static const char *const names[] = {
        [RESUME_MAY] = "",
        [RESUME_NO_STREAM] = "no_stream",
        [RESUME_RULE_OFF] = "off",
        [RESUME_NO_RETRIES] = "no_retries",
        [RESUME_SAMPLED] = "sampled",
        [RESUME_PATH] = "path",
        [RESUME_SEVERAL] = "several",
        [RESUME_STATE] = "state",
        [RESUME_LARGE] = "large",
        [RESUME_MEMBER] = "member",
        [RESUME_OWN_PATH] = "own_path",
        [RESUME_ALONE] = "alone",
    };

    return names[pass];
}
