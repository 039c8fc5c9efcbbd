/* The first difference of this node's tokens and an engine's, for the log. */
#include "node/local/local_differ.h"

#include "index/base/buf.h"
#include "node/base/log.h"

#define IDS_TEXT ((size_t)256)

static void
add_ids(struct buf *out, const uint32_t *ids, uint32_t count)
{
    for (uint32_t i = 0; i < count; i++) {
        buf_add_text(out, i == 0 ? "" : " ");
        buf_add_uint(out, ids[i]);
    }
}

void
local_differ_log(const struct local_model *model, enum local_way way,
                 uint32_t at, uint32_t from, const uint32_t *ours,
                 uint32_t ours_count, const uint32_t *theirs,
                 uint32_t theirs_count)
{
    struct buf our_ids;
    struct buf their_ids;

    LOG_ERROR("tokens_first_difference", KV("model", local_model_name(model)),
              KV("way", local_way_name(way)), KV("at", at),
              KV("hint", "log.level debug shows the ids; compare the model's "
                         "files with the engine's"));
    buf_init(&our_ids, IDS_TEXT);
    buf_init(&their_ids, IDS_TEXT);
    add_ids(&our_ids, ours, ours_count);
    add_ids(&their_ids, theirs, theirs_count);
    LOG_DEBUG(
        "tokens_first_difference_ids", KV("model", local_model_name(model)),
        KV("way", local_way_name(way)), KV("from", from),
        KV("ours", buf_slice(&our_ids)), KV("engine", buf_slice(&their_ids)));
    buf_fini(&our_ids);
    buf_fini(&their_ids);
}
