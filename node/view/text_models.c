/* Rows of ratios. */
#include "node/view/text_models.h"

#include <string.h>

#include "index/base/check.h"
#include "index/base/pack.h"
#include "index/index.h"

#define KIND_BYTES ((size_t)12) /* weight, mean, distance */

static struct slice
shortened(struct slice model)
{
    model.len = model.len < FACT_MODEL_MAX - 1 ? model.len : FACT_MODEL_MAX - 1;
    return model;
}

/* Not 0. */
static uint64_t
digest_of(struct slice model)
{
    return key_digest(shortened(model)) | 1;
}

struct text_model *
text_models_row(struct text_models *models, struct slice model)
{
    uint64_t digest = digest_of(model);
    struct text_model *row = models->model;

    CHECK(models->count <= TEXT_MODELS_MAX);
    if (model.len == 0) {
        return NULL;
    }
    for (uint32_t i = 0; i < models->count; i++, row++) {
        if (row->digest == digest) {
            row->seen = true;
            return row;
        }
    }
    if (models->count == TEXT_MODELS_MAX) {
        return NULL;
    }
    models->count++;
    row->seen = true;
    row->digest = digest;
    memcpy(row->name, model.ptr, shortened(model).len);
    return row;
}

void
text_models_take(struct text_models *models, const struct fact_decision *fact)
{
    struct text_model *row = /* names that engines refuse are anybody's */
        fact->prompt_tokens != 0
            ? text_models_row(models, slice_of(fact->model))
            : NULL;

    text_ratio_take(&models->any.own, fact);
    if (row != NULL) {
        text_ratio_take(&row->own, fact);
    }
}

static void
publish(const struct text_model *row, struct gauge milli[TEXT_KINDS])
{
    for (unsigned kind = 0; kind < TEXT_KINDS; kind++) {
        bool known = row->all.of[kind].left > 0;
        gauge_set(&milli[kind], known ? (int32_t)text_ratio_milli(
                                            &row->all, (enum text_kind)kind)
                                      : 0);
    }
}

void
text_models_publish(const struct text_models *models, struct text_board *board)
{
    publish(&models->any, board->any);
    for (uint32_t i = 0; i < models->count; i++) {
        publish(&models->model[i], board->model[i].milli);
        gauge_set(&board->model[i].pool,
                  (int32_t)models->model[i].pool_threshold);
        counter_set(&board->model[i].digest, models->model[i].digest);
    }
}

/* Its place on the board; TEXT_MODELS_MAX: it has none. */
static uint32_t
place_of(const struct text_board *board, struct slice model)
{
    uint64_t digest = digest_of(model);

    for (uint32_t i = 0; i < TEXT_MODELS_MAX && model.len != 0; i++) {
        uint64_t other = counter_read(&board->model[i].digest);
        if (other == digest) {
            return i;
        }
        if (other == 0) {
            break;
        }
    }
    return TEXT_MODELS_MAX;
}

uint32_t
text_board_milli(const struct text_board *board, struct slice model,
                 enum text_kind kind)
{
    uint32_t place = place_of(board, model);
    uint32_t milli = 0;

    CHECK(kind < TEXT_KINDS);
    if (place < TEXT_MODELS_MAX) {
        milli = gauge_read(&board->model[place].milli[kind]);
    }
    milli = milli != 0 ? milli : gauge_read(&board->any[kind]);
    return milli != 0 ? milli : TEXT_RATIO_START_MILLI;
}

uint32_t
text_board_pool(const struct text_board *board, struct slice model)
{
    uint32_t place = place_of(board, model);

    return place < TEXT_MODELS_MAX ? gauge_read(&board->model[place].pool) : 0;
}

/* As bytes: a map for each row, that of all models without a name. */

static void
put_u32(struct buf *out, uint32_t number)
{
    for (unsigned i = 0; i < 4; i++) {
        char byte = (char)(uint8_t)(number >> (8 * i));
        buf_add(out, &byte, 1);
    }
}

static void
save_row(const struct text_model *row, struct buf *out)
{
    struct pack_map map = pack_open(out);

    pack_put_text(&map, "model", slice_of(row->name));
    pack_put_bytes_head(&map, "kinds", (size_t)TEXT_KINDS * KIND_BYTES);
    for (unsigned kind = 0; kind < TEXT_KINDS; kind++) {
        struct text_told told =
            text_ratio_told(&row->own, (enum text_kind)kind);
        put_u32(out, told.weight);
        put_u32(out, told.mean_milli);
        put_u32(out, told.apart_milli);
    }
    pack_close(&map);
}

void
text_models_save(const struct text_models *models, struct buf *out)
{
    save_row(&models->any, out);
    for (uint32_t i = 0; i < models->count; i++) {
        if (models->model[i].seen) {
            save_row(&models->model[i], out);
        }
    }
}

static uint32_t
get_u32(const char *at)
{
    uint32_t number = 0;

    for (unsigned i = 0; i < 4; i++) {
        number |= (uint32_t)(uint8_t)at[i] << (8 * i);
    }
    return number;
}

/* Kinds that a later version has beside these are left out. */
static void
load_row(struct text_model *row, struct slice kinds)
{
    for (unsigned kind = 0;
         kind < TEXT_KINDS && (kind + 1) * KIND_BYTES <= kinds.len; kind++) {
        const char *at = kinds.ptr + (size_t)kind * KIND_BYTES;
        struct text_told told = {
            .weight = get_u32(at),
            .mean_milli = get_u32(at + 4),
            .apart_milli = get_u32(at + 8),
        };
        if (row->own.of[kind].left <= 0) {
            text_ratio_join(&row->own, (enum text_kind)kind, &told);
        }
    }
}

bool
text_models_load(struct text_models *models, struct slice bytes)
{
    struct unpack in;

    unpack_init(&in, bytes);
    while (unpack_next(&in)) {
        struct slice name = unpack_text(&in, "model", FACT_MODEL_MAX - 1);
        struct slice kinds = unpack_bytes(&in, "kinds", 64 * KIND_BYTES);
        struct text_model *row =
            name.len == 0 ? &models->any : text_models_row(models, name);
        if (row != NULL && !in.failed) {
            load_row(row, kinds);
            row->seen = false;
        }
    }
    return !in.failed;
}
