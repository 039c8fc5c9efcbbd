/*
 * Reading journals that come from a copy of the index.
 */
#include "index/watch.h"

size_t
watch_op_words(const uint64_t *words, size_t count)
{
    size_t size = 0;

    CHECK(words != NULL || count == 0);
    if (count == 0 || watch_slot(words[0]) >= WORKERS_MAX) {
        return 0;
    }
    switch (watch_kind(words[0])) {
    case WATCH_OPEN:
    case WATCH_CLOSE:
    case WATCH_FREE:
    case WATCH_ENTER:
    case WATCH_LEAVE:
    case WATCH_COPIES:
        size = 1;
        break;
    case WATCH_APPLY:
        size = 1 + (size_t)watch_arg(words[0]);
        break;
    case WATCH_BLOCK:
        size = 4;
        break;
    default:
        break;
    }
    return size <= count ? size : 0;
}

bool
watch_journal_check(const uint64_t *words, size_t count,
                    size_t after[WORKERS_MAX])
{
    CHECK(words != NULL || count == 0);
    for (uint32_t i = 0; i < WORKERS_MAX; i++) {
        after[i] = 0;
    }
    for (size_t at = 0; at < count;) {
        size_t size = watch_op_words(words + at, count - at);
        if (size == 0) {
            return false;
        }
        enum watch_kind kind = watch_kind(words[at]);
        if (kind == WATCH_OPEN || kind == WATCH_CLOSE) {
            after[watch_slot(words[at])] = at + size;
        }
        at += size;
    }
    return true;
}
