/* The lines of a Prometheus page. */
#include "node/text/prom_out.h"

#include <inttypes.h>
#include <string.h>

#include "index/base/check.h"
#include "node/text/json_text.h"

void
prom_out_head(struct buf *out, const char *name, const char *type,
              const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
prom_out_value(struct buf *out, uint64_t value, uint64_t per)
{
    int digits = per == 1 ? 0 : per == 1000 ? 3 : 6;

    CHECK(per == 1 || per == 1000 || per == 1000000);
    if (digits == 0) {
        buf_printf(out, " %" PRIu64 "\n", value);
    } else {
        buf_printf(out, " %" PRIu64 ".%0*" PRIu64 "\n", value / per, digits,
                   value % per);
    }
}

void
prom_out_single_of(struct buf *out, const char *name, const char *type,
                   const char *help, uint64_t value, uint64_t per)
{
    prom_out_head(out, name, type, help);
    buf_add_text(out, name);
    prom_out_value(out, value, per);
}

void
prom_out_single(struct buf *out, const char *name, const char *type,
                const char *help, uint64_t value)
{
    prom_out_single_of(out, name, type, help, value, 1);
}

void
prom_out_label(struct buf *out, const char *text)
{
    struct slice rest = slice_of(text);

    while (rest.len != 0) {
        size_t len = json_text_char(rest);
        if (*rest.ptr == '\\' || *rest.ptr == '"') {
            buf_add(out, "\\", 1);
        }
        if (*rest.ptr == '\n') {
            buf_add_text(out, "\\n");
        } else if (len == 0) {
            buf_add(out, "?", 1);
        } else {
            buf_add(out, rest.ptr, len);
        }
        slice_skip(&rest, len != 0 ? len : 1);
    }
}

/* The head of rows[0], with what its values mean. */
static void
put_head(struct buf *out, const char *prefix, const struct prom_row *rows,
         size_t count)
{
    const char *between = ": ";

    buf_printf(out, "# HELP %s_%s_total %s", prefix, rows->name, rows->help);
    for (size_t i = 1; i < count && rows[i].name == NULL; i++) {
        buf_printf(out, "%s%s (%s)", between, rows[i].value, rows[i].help);
        between = ", ";
    }
    buf_printf(out, "\n# TYPE %s_%s_total counter\n", prefix, rows->name);
}

void
prom_out_rows(struct buf *out, const char *prefix, const struct prom_row *rows,
              size_t count, const void *numbers)
{
    const struct prom_row *family = NULL;

    for (size_t i = 0; i < count; i++) {
        const struct prom_row *row = &rows[i];
        uint64_t number;
        if (row->name != NULL) {
            family = row;
            put_head(out, prefix, row, count - i);
        }
        CHECK(family != NULL && (row->name != NULL || family->label != NULL));
        if (row->name != NULL && row->label != NULL) {
            continue;
        }
        memcpy(&number, (const char *)numbers + row->offset, sizeof number);
        buf_printf(out, "%s_%s_total", prefix, family->name);
        if (row->name == NULL) {
            buf_printf(out, "{%s=\"%s\"}", family->label, row->value);
        }
        prom_out_value(out, number, 1);
    }
}
