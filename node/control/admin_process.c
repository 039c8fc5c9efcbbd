/* What Prometheus' own clients tell of any process: process_*. Its open
 * descriptors are left out: to count them is to list them, and they may be tens
 * of thousands; kvasir_connections is most of them. */
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "node/base/file.h"
#include "node/control/admin.h"
#include "node/text/prom_out.h"

#define STAT_BYTES_MAX 1024

struct used {
    uint64_t user_ticks;
    uint64_t system_ticks;
    uint64_t virtual_bytes;
    uint64_t resident_pages;
};

/* A field of proc(5)'s stat; rest ends the second one. 0: there is none. */
static uint64_t
field_of(const char *rest, unsigned number)
{
    for (unsigned at = 2; at < number && rest != NULL; at++) {
        rest = strchr(rest + 1, ' ');
    }
    return rest != NULL ? strtoull(rest, NULL, 10) : 0;
}

/* False: it cannot be read. The name before the last parenthesis may hold
 * anything. */
static bool
read_used(struct used *used)
{
    char text[STAT_BYTES_MAX];
    ssize_t len = file_read("/proc/self/stat", text, sizeof text - 1);

    if (len < 0) {
        return false;
    }
    text[len] = '\0';
    const char *rest = strrchr(text, ')');
    if (rest == NULL) {
        return false;
    }
    used->user_ticks = field_of(rest, 14);
    used->system_ticks = field_of(rest, 15);
    used->virtual_bytes = field_of(rest, 23);
    used->resident_pages = field_of(rest, 24);
    return true;
}

void
admin_put_process_metrics(const struct control *control, struct buf *out)
{
    uint64_t hertz = (uint64_t)sysconf(_SC_CLK_TCK);
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    struct rlimit files;
    struct used used;

    prom_out_single(out, "process_start_time_seconds", "gauge",
                    "When the process began, since 1970",
                    control->started_wall_s);
    if (getrlimit(RLIMIT_NOFILE, &files) == 0) {
        prom_out_single(out, "process_max_fds", "gauge",
                        "Descriptors that it may have", files.rlim_cur);
    }
    if (!read_used(&used)) {
        return;
    }
    prom_out_single_of(out, "process_cpu_seconds_total", "counter",
                       "CPU time of all of its threads",
                       (used.user_ticks + used.system_ticks) * 1000000 / hertz,
                       1000000);
    prom_out_single(out, "process_resident_memory_bytes", "gauge",
                    "Its memory that is in RAM", used.resident_pages * page);
    prom_out_single(out, "process_virtual_memory_bytes", "gauge",
                    "Its address space", used.virtual_bytes);
}
