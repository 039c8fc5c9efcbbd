/* The lines of a Prometheus page. */
#include "node/text/prom_out.h"

#include <inttypes.h>

#include "index/base/check.h"

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
    for (; *text != '\0'; text++) {
        if (*text == '\n') {
            buf_add_text(out, "\\n");
            continue;
        }
        if (*text == '\\' || *text == '"') {
            buf_add(out, "\\", 1);
        }
        buf_add(out, text, 1);
    }
}
