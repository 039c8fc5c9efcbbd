/* The lines of a Prometheus page. */
#include "node/text/prom_out.h"

#include <inttypes.h>

void
prom_out_head(struct buf *out, const char *name, const char *type,
              const char *help)
{
    buf_printf(out, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

void
prom_out_single(struct buf *out, const char *name, const char *type,
                const char *help, uint64_t value)
{
    prom_out_head(out, name, type, help);
    buf_printf(out, "%s %" PRIu64 "\n", name, value);
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
