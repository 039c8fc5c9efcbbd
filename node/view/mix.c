/* Rows of lengths that fade. */
#include "node/view/mix.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"
#include "index/base/pack.h"

#define FORMAT       1U
#define BACK_MS      (24 * MIX_HOUR_MS)
#define LEAST        0.5 /* requests of a row that stays */
#define CELL_BYTES   26U /* place, three numbers */
#define HOUR_BYTES   ((size_t)8)
#define NUMBER_MAX   1e15 /* of what is saved */
#define OTHERS       MIX_ROWS_MAX
#define BUDGET_BYTES ((size_t)18) /* class, two numbers */
#define ROW_SAVED    (MIX_CELLS * CELL_BYTES)
#define HOURS_SAVED  (MIX_HOURS * HOUR_BYTES)

struct mix *
mix_new(uint64_t now_ms)
{
    struct mix *mix = calloc(1, sizeof(*mix));

    if (mix != NULL) {
        mix->begun_ms = now_ms;
        mix->now_ms = now_ms;
    }
    return mix;
}

void
mix_free(struct mix *mix)
{
    free(mix);
}

/* Two to each doubling; 0 and 1 have their own. */
static uint32_t
class_of(uint32_t tokens, uint32_t classes)
{
    if (tokens == 0) {
        return 0;
    }
    uint32_t log = 31U - (uint32_t)__builtin_clz(tokens);
    uint32_t half = ((uint64_t)tokens * tokens >> (2 * log + 1)) != 0;
    uint32_t at = 1 + 2 * log + half;
    return at < classes ? at : classes - 1;
}

static uint32_t
place_of(uint64_t ms)
{
    return (uint32_t)(ms / MIX_HOUR_MS % MIX_HOURS);
}

/* Fading */

static void
fade_row(struct mix_row *row, double left)
{
    row->requests *= left;
    row->cached *= left;
    row->judged *= left;
    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        struct mix_sum *cell = &row->cell[i];
        if (cell->requests > 0) {
            cell->requests *= left;
            cell->prompt *= left;
            cell->answer *= left;
        }
    }
    pool_budgets_fade(&row->budgets, left);
}

static void
join(struct mix_row *to, struct mix_row *from)
{
    to->used = true;
    to->requests += from->requests;
    to->cached += from->cached;
    to->judged += from->judged;
    for (uint32_t i = 0; i < MIX_HOURS; i++) {
        to->hour[i] += from->hour[i];
        if (from->longest[i] > to->longest[i]) {
            to->longest[i] = from->longest[i];
        }
    }
    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        to->cell[i].requests += from->cell[i].requests;
        to->cell[i].prompt += from->cell[i].prompt;
        to->cell[i].answer += from->cell[i].answer;
    }
    pool_budgets_join(&to->budgets, &from->budgets);
    memset(from, 0, sizeof(*from));
}

/* Rows that hardly ask go; where none is left, the least does, too. */
static void
make_room(struct mix *mix)
{
    struct mix_row *others = &mix->row[OTHERS];
    struct mix_row *least = NULL;
    bool full = true;

    for (uint32_t i = 0; i < OTHERS; i++) {
        struct mix_row *row = &mix->row[i];
        if (row->used && row->requests < LEAST) {
            join(others, row);
        }
        full = full && row->used;
        least = least == NULL || row->requests < least->requests ? row : least;
    }
    if (full) {
        join(others, least);
    }
}

static void
clear_hours(struct mix *mix, uint64_t now_ms)
{
    uint64_t hours = now_ms / MIX_HOUR_MS - mix->now_ms / MIX_HOUR_MS;

    hours = hours < MIX_HOURS ? hours : MIX_HOURS;
    for (uint32_t i = 0; i <= OTHERS; i++) {
        struct mix_row *row = &mix->row[i];
        for (uint64_t n = 0; row->used && n < hours; n++) {
            uint32_t at = place_of(now_ms - n * MIX_HOUR_MS);
            row->hour[at] = 0;
            row->longest[at] = 0;
        }
    }
}

/* That clock was wrong, or this one is. */
static void
begin_anew(struct mix *mix, uint64_t now_ms)
{
    mix->begun_ms = now_ms;
    mix->now_ms = now_ms;
    for (uint32_t i = 0; i <= OTHERS; i++) {
        memset(mix->row[i].hour, 0, sizeof(mix->row[i].hour));
        memset(mix->row[i].longest, 0, sizeof(mix->row[i].longest));
    }
}

/* counts: the mix was there in that time. */
static void
pass(struct mix *mix, uint64_t now_ms, bool counts)
{
    if (now_ms + BACK_MS < mix->now_ms) {
        begin_anew(mix, now_ms);
        return;
    }
    if (now_ms / MIX_HOUR_MS <= mix->now_ms / MIX_HOUR_MS) {
        mix->now_ms = now_ms > mix->now_ms ? now_ms : mix->now_ms;
        return;
    }
    double ms = (double)(now_ms - mix->begun_ms);
    double left = exp2(-ms / (double)MIX_HALF_MS);
    mix->faded_s = (mix->faded_s + (counts ? ms / 1000 : 0)) * left;
    for (uint32_t i = 0; i <= OTHERS; i++) {
        if (mix->row[i].used) {
            fade_row(&mix->row[i], left);
        }
    }
    clear_hours(mix, now_ms);
    make_room(mix);
    mix->begun_ms = now_ms;
    mix->now_ms = now_ms;
}

void
mix_pass(struct mix *mix, uint64_t now_ms)
{
    pass(mix, now_ms, true);
}

double
mix_span_s(const struct mix *mix)
{
    return mix->faded_s + (double)(mix->now_ms - mix->begun_ms) / 1000;
}

/* Requests */

/* The rest of the room has zeros. */
static void
copy(char *to, struct slice from)
{
    if (from.len > 0) {
        memcpy(to, from.ptr, from.len);
    }
}

static struct mix_row *
row_of(struct mix *mix, const char *model, const char *tenant)
{
    struct mix_row *unused = NULL;

    for (uint32_t i = 0; i < OTHERS; i++) {
        struct mix_row *row = &mix->row[i];
        if (!row->used) {
            unused = unused == NULL ? row : unused;
        } else if (strncmp(row->model, model, FACT_MODEL_MAX - 1) == 0 &&
                   strncmp(row->tenant, tenant, MIX_TENANT_MAX - 1) == 0) {
            return row;
        }
    }
    if (unused == NULL) {
        mix->beyond++;
        unused = &mix->row[OTHERS];
    } else {
        copy(unused->model,
             (struct slice){model, strnlen(model, FACT_MODEL_MAX - 1)});
        copy(unused->tenant,
             (struct slice){tenant, strnlen(tenant, MIX_TENANT_MAX - 1)});
    }
    unused->used = true;
    return unused;
}

static uint32_t
bounded(uint32_t tokens)
{
    return tokens < MIX_TOKENS_MAX ? tokens : MIX_TOKENS_MAX;
}

static void
add_length(struct mix_row *row, uint32_t at, const struct fact_decision *fact)
{
    uint32_t prompt = bounded(fact->prompt_tokens);
    uint32_t answer = bounded(fact->completion_tokens);
    uint32_t place = class_of(prompt, MIX_PROMPTS) * MIX_ANSWERS +
                     class_of(answer, MIX_ANSWERS);
    struct mix_sum *cell = &row->cell[place];
    uint32_t total = prompt + answer;
    uint32_t cached = bounded(fact->cached_known ? fact->cached_tokens : 0);

    cached = cached < prompt ? cached : prompt;
    CHECK(place < MIX_CELLS && at < MIX_HOURS);
    cell->requests += 1;
    cell->prompt += prompt;
    cell->answer += answer;
    row->longest[at] = total > row->longest[at] ? total : row->longest[at];
    pool_budgets_add(&row->budgets, fact->budget_tokens, prompt - cached,
                     answer);
    if (fact->cached_known) {
        row->cached += cached;
        row->judged += prompt;
    }
}

void
mix_take(struct mix *mix, const struct fact_decision *fact, const char *tenant)
{
    CHECK(fact->kind == FACT_DECISION);
    if (fact->status / 100 != 2) {
        return;
    }
    mix_pass(mix, fact->wall_ms);
    struct mix_row *row = row_of(mix, fact->model, tenant);
    uint32_t at = place_of(mix->now_ms);
    row->requests += 1;
    row->hour[at] += row->hour[at] < UINT32_MAX;
    if (fact->prompt_tokens > 0 && fact->resumed == 0) {
        add_length(row, at, fact);
    }
}

/* Looking */

struct mix_sum
mix_sum(const struct mix_row *row)
{
    struct mix_sum sum = {.requests = 0};

    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        sum.requests += row->cell[i].requests;
        sum.prompt += row->cell[i].prompt;
        sum.answer += row->cell[i].answer;
    }
    return sum;
}

uint32_t
mix_hour(const struct mix *mix, const struct mix_row *row, uint32_t before)
{
    CHECK(before < MIX_HOURS);
    return row->hour[(place_of(mix->now_ms) + MIX_HOURS - before) % MIX_HOURS];
}

uint32_t
mix_longest(const struct mix_row *row)
{
    uint32_t longest = 0;

    for (uint32_t i = 0; i < MIX_HOURS; i++) {
        longest = row->longest[i] > longest ? row->longest[i] : longest;
    }
    return longest;
}

struct pool_budgets
mix_budgets(const struct mix *mix, struct slice model)
{
    struct pool_budgets budgets = {.requests = {0}};
    size_t len =
        model.len < FACT_MODEL_MAX - 1 ? model.len : FACT_MODEL_MAX - 1;

    for (uint32_t i = 0; i < OTHERS && len > 0; i++) {
        const struct mix_row *row = &mix->row[i];
        if (row->used && row->model[len] == '\0' &&
            memcmp(row->model, model.ptr, len) == 0) {
            pool_budgets_join(&budgets, &row->budgets);
        }
    }
    return budgets;
}

/* As bytes: a map of the whole, then one for each row. */

static void
put_number(struct buf *out, uint64_t number, unsigned bytes)
{
    for (unsigned i = 0; i < bytes; i++) {
        char byte = (char)(uint8_t)(number >> (8 * i));
        buf_add(out, &byte, 1);
    }
}

static uint64_t
milli(double number)
{
    return (uint64_t)((number < NUMBER_MAX ? number : NUMBER_MAX) * 1000 + 0.5);
}

static void
save_budgets(const struct pool_budgets *budgets, struct pack_map *map,
             struct buf *out)
{
    uint32_t count = 0;

    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        count += milli(budgets->requests[i]) > 0;
    }
    pack_put_bytes_head(map, "budgets", count * BUDGET_BYTES);
    for (uint32_t i = 0; i < POOL_BUDGETS; i++) {
        if (milli(budgets->requests[i]) > 0) {
            put_number(out, i, 2);
            put_number(out, milli(budgets->requests[i]), 8);
            put_number(out, milli(budgets->work[i]), 8);
        }
    }
}

static void
save_row(const struct mix_row *row, struct buf *out)
{
    struct pack_map map = pack_open(out);
    uint32_t cells = 0;

    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        cells += milli(row->cell[i].requests) > 0;
    }
    pack_put_text(&map, "model", slice_of(row->model));
    pack_put_text(&map, "tenant", slice_of(row->tenant));
    pack_put_uint(&map, "requests", milli(row->requests));
    pack_put_uint(&map, "cached", milli(row->cached));
    pack_put_uint(&map, "judged", milli(row->judged));
    pack_put_bytes_head(&map, "hours", HOURS_SAVED);
    for (uint32_t i = 0; i < MIX_HOURS; i++) {
        put_number(out, row->hour[i], 4);
        put_number(out, row->longest[i], 4);
    }
    pack_put_bytes_head(&map, "cells", (size_t)cells * CELL_BYTES);
    for (uint32_t i = 0; i < MIX_CELLS; i++) {
        const struct mix_sum *cell = &row->cell[i];
        if (milli(cell->requests) > 0) {
            put_number(out, i, 2);
            put_number(out, milli(cell->requests), 8);
            put_number(out, milli(cell->prompt), 8);
            put_number(out, milli(cell->answer), 8);
        }
    }
    save_budgets(&row->budgets, &map, out);
    pack_close(&map);
}

void
mix_save(const struct mix *mix, struct buf *out)
{
    struct pack_map map = pack_open(out);

    pack_put_uint(&map, "format", FORMAT);
    pack_put_uint(&map, "now_ms", mix->now_ms);
    pack_put_uint(&map, "span_ms", milli(mix_span_s(mix)));
    pack_put_uint(&map, "beyond", mix->beyond);
    pack_close(&map);
    for (uint32_t i = 0; i <= OTHERS; i++) {
        if (mix->row[i].used) {
            save_row(&mix->row[i], out);
        }
    }
}

/* ... and back. */

static uint64_t
get_number(const char **at, unsigned bytes)
{
    uint64_t number = 0;

    for (unsigned i = 0; i < bytes; i++) {
        number |= (uint64_t)(uint8_t)(*at)[i] << (8 * i);
    }
    *at += bytes;
    return number;
}

static double
get_milli(const char **at)
{
    return (double)get_number(at, 8) / 1000;
}

static bool
load_cells(struct mix_row *row, struct slice bytes)
{
    const char *at = bytes.ptr;
    bool good = bytes.len % CELL_BYTES == 0;

    for (size_t i = 0; good && i < bytes.len / CELL_BYTES; i++) {
        uint64_t place = get_number(&at, 2);
        struct mix_sum cell = {.requests = get_milli(&at)};
        cell.prompt = get_milli(&at);
        cell.answer = get_milli(&at);
        double most = cell.requests * MIX_TOKENS_MAX + 1; /* as rounded */
        good = place < MIX_CELLS && cell.requests <= NUMBER_MAX &&
               cell.prompt <= most && cell.answer <= most;
        if (good) {
            row->cell[place] = cell;
        }
    }
    return good;
}

static bool
load_budgets(struct pool_budgets *budgets, struct slice bytes)
{
    const char *at = bytes.ptr;
    bool good = bytes.len % BUDGET_BYTES == 0;

    for (size_t i = 0; good && i < bytes.len / BUDGET_BYTES; i++) {
        uint64_t place = get_number(&at, 2);
        double requests = get_milli(&at);
        double work = get_milli(&at);
        good = place < POOL_BUDGETS && requests <= NUMBER_MAX &&
               work <= NUMBER_MAX;
        if (good) {
            budgets->requests[place] = requests;
            budgets->work[place] = work;
        }
    }
    return good;
}

static bool
load_row(struct mix_row *row, struct unpack *in)
{
    struct slice model = unpack_text(in, "model", FACT_MODEL_MAX - 1);
    struct slice tenant = unpack_text(in, "tenant", MIX_TENANT_MAX - 1);
    uint64_t most = (uint64_t)NUMBER_MAX * 1000;
    struct slice hours = unpack_bytes(in, "hours", HOURS_SAVED);
    struct slice cells = unpack_bytes(in, "cells", ROW_SAVED);
    struct slice budgets =
        unpack_bytes(in, "budgets", POOL_BUDGETS * BUDGET_BYTES);

    row->used = true;
    copy(row->model, model);
    copy(row->tenant, tenant);
    row->requests = (double)unpack_uint(in, "requests", most) / 1000;
    row->cached = (double)unpack_uint(in, "cached", most) / 1000;
    row->judged = (double)unpack_uint(in, "judged", most) / 1000;
    const char *at = hours.ptr;
    for (size_t i = 0; i < hours.len / HOUR_BYTES; i++) {
        row->hour[i] = (uint32_t)get_number(&at, 4);
        row->longest[i] = (uint32_t)get_number(&at, 4);
    }
    return load_cells(row, cells) && load_budgets(&row->budgets, budgets) &&
           !in->failed;
}

/* The row for this map: its own, or the others'. NULL: there are too many, or it
 * was there before. */
static struct mix_row *
next_row(struct mix *mix, struct unpack *in, uint32_t *count)
{
    struct slice model = unpack_text(in, "model", FACT_MODEL_MAX - 1);
    struct slice tenant = unpack_text(in, "tenant", MIX_TENANT_MAX - 1);
    bool others = model.len == 0 && tenant.len == 0;
    struct mix_row *row = others ? &mix->row[OTHERS] : &mix->row[*count];

    if (row->used || (!others && *count == OTHERS)) {
        return NULL;
    }
    *count += !others;
    return row;
}

static bool
load_all(struct mix *mix, struct slice bytes)
{
    struct unpack in;
    uint32_t count = 0;
    bool good = true;

    unpack_init(&in, bytes);
    if (!unpack_next(&in) || unpack_uint(&in, "format", FORMAT) != FORMAT) {
        return false;
    }
    mix->now_ms = unpack_uint(&in, "now_ms", UINT64_MAX);
    mix->faded_s =
        (double)unpack_uint(&in, "span_ms", (uint64_t)NUMBER_MAX) / 1000;
    mix->beyond = unpack_uint(&in, "beyond", UINT64_MAX);
    mix->begun_ms = mix->now_ms;
    while (good && unpack_next(&in)) {
        struct mix_row *row = next_row(mix, &in, &count);
        good = row != NULL && load_row(row, &in);
    }
    return good && !in.failed;
}

bool
mix_load(struct mix *mix, struct slice bytes, uint64_t now_ms)
{
    memset(mix, 0, sizeof(*mix));
    bool good = load_all(mix, bytes);

    if (!good) {
        memset(mix, 0, sizeof(*mix));
    }
    pass(mix, now_ms, false);
    mix->begun_ms = mix->now_ms;
    return good;
}
