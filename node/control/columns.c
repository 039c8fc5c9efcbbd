/* The last elections, as a list from the oldest to the newest. */
#include "node/control/columns.h"

#include <stdlib.h>
#include <string.h>

#include "index/base/check.h"

void
columns_init(struct columns *columns, size_t bytes_max)
{
    *columns = (struct columns){.bytes_max = bytes_max};
}

static void
drop_oldest(struct columns *columns)
{
    struct columns_of *oldest = columns->oldest;

    CHECK(oldest != NULL && columns->bytes >= oldest->bytes);
    columns->bytes -= oldest->bytes;
    columns->oldest = oldest->next;
    if (oldest->next == NULL) {
        columns->newest = NULL;
    }
    free(oldest);
}

void
columns_fini(struct columns *columns)
{
    while (columns->oldest != NULL) {
        drop_oldest(columns);
    }
    CHECK(columns->bytes == 0);
}

static const char *
id_of(const struct fact_column *column, const struct fleet_view *view)
{
    const struct fleet_worker *worker =
        column->slot < WORKERS_MAX ? view->worker[column->slot] : NULL;

    return worker != NULL && worker->generation == column->generation
               ? worker->id
               : "";
}

void
columns_add(struct columns *columns, const struct fact_columns *fact,
            const struct fleet_view *view)
{
    size_t rows = fact->count * sizeof(fact->column[0]);
    size_t bytes = sizeof(struct columns_of) + rows;

    CHECK(fact->kind == FACT_COLUMNS && fact->count <= WORKERS_MAX);
    for (uint32_t i = 0; i < fact->count; i++) {
        bytes += strlen(id_of(&fact->column[i], view)) + 1;
    }
    while (columns->oldest != NULL &&
           columns->bytes + bytes > columns->bytes_max) {
        drop_oldest(columns);
    }
    struct columns_of *of = bytes <= columns->bytes_max ? malloc(bytes) : NULL;
    if (of == NULL) {
        columns->dropped++;
        return;
    }
    *of = (struct columns_of){
        .bytes = bytes, .number = fact->number, .count = fact->count};
    memcpy(of->column, fact->column, rows);
    char *text = (char *)of->column + rows;
    for (uint32_t i = 0; i < fact->count; i++) {
        const char *id = id_of(&fact->column[i], view);
        size_t size = strlen(id) + 1;
        memcpy(text, id, size);
        text += size;
    }
    CHECK((size_t)(text - (char *)of) == bytes);
    if (columns->newest != NULL) {
        columns->newest->next = of;
    } else {
        columns->oldest = of;
    }
    columns->newest = of;
    columns->bytes += bytes;
}

const struct columns_of *
columns_find(const struct columns *columns, uint64_t number)
{
    const struct columns_of *of = columns->oldest;

    while (of != NULL && (number == 0 || of->number != number)) {
        of = of->next;
    }
    return of;
}

const char *
columns_worker(const struct columns_of *of, uint32_t at)
{
    const char *text = (const char *)&of->column[of->count];

    CHECK(at < of->count);
    for (uint32_t i = 0; i < at; i++) {
        text += strlen(text) + 1;
    }
    return text;
}
