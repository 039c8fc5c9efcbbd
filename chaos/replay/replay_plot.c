/* The ladder as a picture: three panels side by side, a line per policy. */
#include <inttypes.h>
#include <math.h>

#include "chaos/replay/replay_report.h"

#define PANELS       3
#define PANEL_WIDTH  280
#define PANEL_HEIGHT 240
#define GAP          70
#define LEFT         60
#define TOP          62
#define LEGEND       40
#define LEGEND_STEP  150
#define LEGEND_ROW   18
#define PLOT_WIDTH   (PANELS * PANEL_WIDTH + (PANELS - 1) * GAP)
#define TICKS_MAX    32 /* lines across a panel */
#define LABEL_WIDTH  34 /* of a load */
#define STEP_HEIGHT  45 /* between lines, at least (not logarithmic ones) */

static const char *const colours[] = {
    [REPLAY_KVASIR] = "#0b6e4f",      [REPLAY_BELIEF] = "#6abf8a",
    [REPLAY_ROUND_ROBIN] = "#b0651d", [REPLAY_LEAST_LOAD] = "#c0392b",
    [REPLAY_RANDOM] = "#8e8e8e",      [REPLAY_POWER_OF_TWO] = "#7d3c98",
    [REPLAY_RENDEZVOUS] = "#2471a3",  [REPLAY_GREEDY] = "#777700",
    [REPLAY_SOONEST] = "#111111",     [REPLAY_SLO] = "#4d4d9f",
    [REPLAY_SHARES] = "#e67e9f",      [REPLAY_STICKY] = "#4a90d9",
    [REPLAY_PREFIX_HASH] = "#1abc9c", [REPLAY_CONSISTENT_HASHING] = "#5d6d7e",
    [REPLAY_CACHE_AWARE] = "#d4ac0d", [REPLAY_COMPOSITE] = "#a04000",
    [REPLAY_SPLIT] = "#3f7cac",       [REPLAY_DYNAMO] = "#76b900",
};

enum panel {
    PANEL_CACHED,
    PANEL_TTFT,
    PANEL_OUTPUT,
};

static const char *const titles[PANELS] = {
    [PANEL_CACHED] = "cached prompt tokens, %",
    [PANEL_TTFT] = "TTFT p99, s (logarithmic)",
    [PANEL_OUTPUT] = "output tokens/s",
};

/* What the axes span, and where lines go across. */
struct axes {
    double x_min;
    double x_max;
    double y_min;
    double y_max;
    double ticks[TICKS_MAX];
    unsigned ticks_count;
};

static double
value_of(enum panel panel, const struct replay_row *row)
{
    const struct replay_result *r = &row->result;

    switch (panel) {
    case PANEL_CACHED:
        return replay_cached_share(r) / 100.0;
    case PANEL_TTFT:
        return log10(r->ttft_p99_us > 1000 ? (double)r->ttft_p99_us / 1e6
                                           : 1e-3);
    case PANEL_OUTPUT:
        break;
    }
    return (double)replay_output_rate(r);
}

static void
add_tick(struct axes *f, double y)
{
    if (f->ticks_count < TICKS_MAX) {
        f->ticks[f->ticks_count++] = y;
    }
}

/* 1, 2 or 5 times a power of ten: the at-th from 1 up. */
static double
round_number(int at)
{
    static const double digits[] = {1, 2, 5};
    int decade = (at >= 0 ? at : at - 2) / 3;
    int digit = at - 3 * decade;

    CHECK(digit >= 0 && digit < 3);
    return digits[digit] * pow(10, decade);
}

/* From the round number below the least to the one above the most. */
static void
axes_logarithm(struct axes *f)
{
    int first = 3 * (int)floor(f->y_min);

    while (log10(round_number(first + 1)) <= f->y_min) {
        first++;
    }
    int last = first + 1;
    while (log10(round_number(last)) < f->y_max) {
        last++;
    }
    for (int at = first; at <= last; at++) {
        add_tick(f, log10(round_number(at)));
    }
}

static void
axes_from_zero(struct axes *f, double most)
{
    int at = 0;

    while (most / round_number(at) > (double)PANEL_HEIGHT / STEP_HEIGHT) {
        at++;
    }
    double step = round_number(at);
    add_tick(f, 0);
    for (int i = 1; (i - 1) * step < most; i++) {
        add_tick(f, i * step);
    }
}

static struct axes
axes_of(const struct replay_report *report, enum panel panel)
{
    struct axes f = {
        .x_min = 1e300, .x_max = -1e300, .y_min = 1e300, .y_max = -1e300};

    for (uint32_t i = 0; i < report->rows_count; i++) {
        double x = report->rows[i].load_permille / 1000.0;
        double y = value_of(panel, &report->rows[i]);
        f.x_min = fmin(f.x_min, x);
        f.x_max = fmax(f.x_max, x);
        f.y_min = fmin(f.y_min, y);
        f.y_max = fmax(f.y_max, y);
    }
    if (panel == PANEL_TTFT) {
        axes_logarithm(&f);
    } else {
        axes_from_zero(&f, panel == PANEL_CACHED ? 100 : f.y_max);
    }
    f.y_min = f.ticks[0];
    f.y_max = f.ticks[f.ticks_count - 1];
    f.x_max = f.x_max > f.x_min ? f.x_max : f.x_min + 1;
    return f;
}

static double
x_at(const struct axes *f, enum panel panel, double x)
{
    double left = LEFT + (double)panel * (PANEL_WIDTH + GAP);

    return left + (x - f->x_min) / (f->x_max - f->x_min) * PANEL_WIDTH;
}

static double
y_at(const struct axes *f, double y)
{
    return TOP + PANEL_HEIGHT -
           (y - f->y_min) / (f->y_max - f->y_min) * PANEL_HEIGHT;
}

static void
draw_number(double value, struct buf *out)
{
    if (value >= 1000) {
        buf_printf(out, "%.0f,%03.0f", floor(value / 1000), fmod(value, 1000));
    } else {
        buf_printf(out, "%.10g", value);
    }
}

static void
draw_grid(const struct axes *f, enum panel panel, struct buf *out)
{
    double left = x_at(f, panel, f->x_min);
    double right = x_at(f, panel, f->x_max);

    buf_printf(out,
               "<text x=\"%.1f\" y=\"%d\" font-weight=\"bold\">%s</text>\n",
               left, TOP - 14, titles[panel]);
    for (unsigned i = 0; i < f->ticks_count; i++) {
        double y = f->ticks[i];
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                   "stroke=\"#ddd\"/>\n"
                   "<text x=\"%.1f\" y=\"%.1f\" text-anchor=\"end\">",
                   left, y_at(f, y), right, y_at(f, y), left - 8,
                   y_at(f, y) + 4);
        draw_number(panel == PANEL_TTFT ? pow(10, y) : y, out);
        buf_add_text(out, "</text>\n");
    }
}

/* The loads, without those whose labels would overlap others. Rows come load by
 * load. */
static void
draw_loads(const struct replay_report *report, const struct axes *f,
           enum panel panel, struct buf *out)
{
    double last = -1e300;

    for (uint32_t i = 0; i < report->rows_count; i++) {
        double load = report->rows[i].load_permille / 1000.0;
        double x = x_at(f, panel, load);
        if (x >= last + LABEL_WIDTH) {
            buf_printf(out,
                       "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">"
                       "x%g</text>\n",
                       x, TOP + PANEL_HEIGHT + 18, load);
            last = x;
        }
    }
}

static void
draw_line(const struct replay_report *report, const struct axes *f,
          enum panel panel, enum replay_policy policy, struct buf *out)
{
    buf_printf(out,
               "<polyline fill=\"none\" stroke=\"%s\" stroke-width=\"%d\"%s "
               "points=\"",
               colours[policy], policy == REPLAY_KVASIR ? 3 : 2,
               policy == REPLAY_SOONEST ? " stroke-dasharray=\"5 4\"" : "");
    for (uint32_t i = 0; i < report->rows_count; i++) {
        const struct replay_row *row = &report->rows[i];
        if (row->policy == policy) {
            buf_printf(out, "%.1f,%.1f ",
                       x_at(f, panel, row->load_permille / 1000.0),
                       y_at(f, value_of(panel, row)));
        }
    }
    buf_add_text(out, "\"/>\n");
    for (uint32_t i = 0; i < report->rows_count; i++) {
        const struct replay_row *row = &report->rows[i];
        if (row->policy == policy) {
            buf_printf(
                out, "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                x_at(f, panel, row->load_permille / 1000.0),
                y_at(f, value_of(panel, row)), colours[policy]);
        }
    }
}

static bool
has_policy(const struct replay_report *report, enum replay_policy policy)
{
    for (uint32_t i = 0; i < report->rows_count; i++) {
        if (report->rows[i].policy == policy) {
            return true;
        }
    }
    return false;
}

static void
draw_legend(const struct replay_report *report, struct buf *out)
{
    int x = LEFT;
    int y = TOP + PANEL_HEIGHT + LEGEND;

    for (unsigned p = 0; p < REPLAY_POLICIES; p++) {
        if (!has_policy(report, (enum replay_policy)p)) {
            continue;
        }
        buf_printf(out,
                   "<rect x=\"%d\" y=\"%d\" width=\"12\" height=\"12\" "
                   "fill=\"%s\"/><text x=\"%d\" y=\"%d\">%s</text>\n",
                   x, y, colours[p], x + 17, y + 10,
                   replay_policy_name((enum replay_policy)p));
        x += LEGEND_STEP;
        if (x + LEGEND_STEP > LEFT + PLOT_WIDTH) {
            x = LEFT;
            y += LEGEND_ROW;
        }
    }
}

/* A trace's is the name of a file: whatever that is. */
static void
draw_name(const char *name, struct buf *out)
{
    for (; *name != '\0'; name++) {
        bool plain = *name >= ' ' && *name != '<' && *name != '&';
        buf_add(out, plain ? name : "_", 1);
    }
}

void
replay_report_svg(const struct replay_report *report, struct buf *out)
{
    int width = LEFT + PLOT_WIDTH + 30;
    int height = TOP + PANEL_HEIGHT + LEGEND + LEGEND_ROW + 30;

    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
               "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n",
               width, height);
    buf_printf(out, "<text x=\"%d\" y=\"18\" font-size=\"13\">", LEFT);
    draw_name(report->load, out);
    buf_printf(out,
               ": %" PRIu64 " requests, %" PRIu32 " nodes, %" PRIu32
               " engines (%s)</text>\n",
               report->requests, report->nodes, report->engines,
               report->timing);
    for (int p = 0; p < PANELS; p++) {
        struct axes f = axes_of(report, (enum panel)p);
        draw_grid(&f, (enum panel)p, out);
        draw_loads(report, &f, (enum panel)p, out);
        for (unsigned i = REPLAY_POLICIES; i-- > 0;) { /* kvasir on top */
            if (has_policy(report, (enum replay_policy)i)) {
                draw_line(report, &f, (enum panel)p, (enum replay_policy)i,
                          out);
            }
        }
    }
    draw_legend(report, out);
    buf_add_text(out, "</svg>\n");
}
