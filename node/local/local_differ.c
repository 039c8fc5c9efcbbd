/* The first difference of this node's tokens and an engine's, for the log. */
#include "node/local/local_differ.h"

#include "node/base/log.h"

#define IDS_TEXT ((size_t)256)
#define TEXT_MAX ((size_t)2048)

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
                 uint32_t at, const uint32_t *ours, uint32_t ours_count,
                 const uint32_t *theirs, uint32_t theirs_count)
{
    struct buf part[4];

    for (int i = 0; i < 4; i++) {
        buf_init(&part[i], i < 2 ? IDS_TEXT : TEXT_MAX);
    }
    add_ids(&part[0], ours, ours_count);
    add_ids(&part[1], theirs, theirs_count);
    local_model_text(model, ours, ours_count, &part[2]);
    local_model_text(model, theirs, theirs_count, &part[3]);
    LOG_ERROR("tokens_first_difference", KV("model", local_model_name(model)),
              KV("way", local_way_name(way)), KV("at", at),
              KV("ours", buf_slice(&part[0])),
              KV("engine", buf_slice(&part[1])),
              KV("our_text", buf_slice(&part[2])),
              KV("engine_text", buf_slice(&part[3])));
    for (int i = 0; i < 4; i++) {
        buf_fini(&part[i]);
    }
}
