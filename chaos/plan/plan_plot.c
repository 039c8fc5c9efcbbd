/* A plan as a picture: three panels over the threshold. */
#include <math.h>

#include "chaos/plan/plan_report.h"

#define PANELS       3
#define PANEL_WIDTH  260
#define PANEL_HEIGHT 220
#define GAP          70
#define LEFT         60
#define TOP          62
#define LINES        2 /* of a panel */

static const char *const titles[PANELS] = {
    "requests up to the threshold, %",
    "engines of two pools",
    "two pools save, %",
};
static const char *const colours[LINES] = {"#b0651d", "#0b6e4f"};
static const char *const names[LINES] = {"closed form", "corrected form"};

static double
value_of(const struct plan *plan, unsigned panel, unsigned line, uint32_t i)
{
    const struct plan_step *step = &plan->sweep[i];

    if (panel == 0) {
        return step->share * 100;
    }
    if (step->engines[line] == 0) {
        return NAN;
    }
    return panel == 1
               ? step->engines[line]
               : plan_saving(plan->whole.engines[line], step->engines[line]) *
                     100;
}

/* What a panel's vertical axis spans; it has 0. */
static void
span(const struct plan *plan, unsigned panel, double *low, double *high)
{
    *low = 0;
    *high = panel == 0 ? 100 : 1;
    for (uint32_t i = 0; i < plan->sweep_count; i++) {
        for (unsigned line = 0; line < LINES; line++) {
            *low = fmin(*low, value_of(plan, panel, line, i));
            *high = fmax(*high, value_of(plan, panel, line, i));
        }
    }
}

static double
x_at(const struct plan *plan, unsigned panel, uint32_t i)
{
    double steps = plan->sweep_count > 1 ? plan->sweep_count - 1.0 : 1.0;

    return LEFT + (double)panel * (PANEL_WIDTH + GAP) + i / steps * PANEL_WIDTH;
}

static double
y_at(double value, double low, double high)
{
    return TOP + PANEL_HEIGHT - (value - low) / (high - low) * PANEL_HEIGHT;
}

static void
draw_axes(const struct plan *plan, unsigned panel, double low, double high,
          struct buf *out)
{
    double left = x_at(plan, panel, 0);

    buf_printf(out,
               "<text x=\"%.1f\" y=\"%d\" font-weight=\"bold\">%s</text>\n",
               left, TOP - 14, titles[panel]);
    for (int i = 0; i <= 4; i++) {
        double value = low + (high - low) * i / 4;
        buf_printf(out,
                   "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                   "stroke=\"#ddd\"/>\n<text x=\"%.1f\" y=\"%.1f\" "
                   "text-anchor=\"end\">%.4g</text>\n",
                   left, y_at(value, low, high), left + PANEL_WIDTH,
                   y_at(value, low, high), left - 8, y_at(value, low, high) + 4,
                   value);
    }
    for (uint32_t i = 0; i < plan->sweep_count; i++) {
        buf_printf(out,
                   "<text x=\"%.1f\" y=\"%d\" text-anchor=\"middle\">%uK"
                   "</text>\n",
                   x_at(plan, panel, i), TOP + PANEL_HEIGHT + 18,
                   plan->sweep[i].threshold / 1024);
    }
}

static void
draw_line(const struct plan *plan, unsigned panel, unsigned line, double low,
          double high, struct buf *out)
{
    for (uint32_t i = 0; i < plan->sweep_count; i++) {
        double value = value_of(plan, panel, line, i);
        if (isnan(value)) {
            continue;
        }
        double y = y_at(value, low, high);
        buf_printf(out,
                   "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"3\" fill=\"%s\"/>\n",
                   x_at(plan, panel, i), y, colours[line]);
        if (i > 0 && !isnan(value_of(plan, panel, line, i - 1))) {
            buf_printf(out,
                       "<line x1=\"%.1f\" y1=\"%.1f\" x2=\"%.1f\" y2=\"%.1f\" "
                       "stroke=\"%s\" stroke-width=\"2\"/>\n",
                       x_at(plan, panel, i - 1),
                       y_at(value_of(plan, panel, line, i - 1), low, high),
                       x_at(plan, panel, i), y, colours[line]);
        }
    }
}

static void
draw_legend(struct buf *out)
{
    for (unsigned line = 0; line < LINES; line++) {
        unsigned x = LEFT + line * 150;
        unsigned y = TOP + PANEL_HEIGHT + 34;
        buf_printf(out,
                   "<rect x=\"%u\" y=\"%u\" width=\"12\" height=\"12\" "
                   "fill=\"%s\"/><text x=\"%u\" y=\"%u\">%s</text>\n",
                   x, y, colours[line], x + 17, y + 10, names[line]);
    }
}

void
plan_report_svg(const struct plan *plan, const char *name, struct buf *out)
{
    buf_printf(out,
               "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"%d\" "
               "height=\"%d\" font-family=\"sans-serif\" font-size=\"11\">\n"
               "<rect width=\"100%%\" height=\"100%%\" fill=\"white\"/>\n"
               "<text x=\"%d\" y=\"18\" font-size=\"13\">",
               LEFT + PANELS * (PANEL_WIDTH + GAP), TOP + PANEL_HEIGHT + 60,
               LEFT);
    for (; *name != '\0'; name++) { /* of a file: whatever that is */
        bool plain = *name >= ' ' && *name != '<' && *name != '&';
        buf_add(out, plain ? name : "_", 1);
    }
    buf_printf(out, ": %.10g requests/s, %s</text>\n", plan->setup.rate,
               plan->setup.engine.name);
    for (unsigned panel = 0; panel < PANELS; panel++) {
        double low;
        double high;
        span(plan, panel, &low, &high);
        draw_axes(plan, panel, low, high, out);
        for (unsigned line = 0; line < (panel == 0 ? 1 : LINES); line++) {
            draw_line(plan, panel, line, low, high, out);
        }
    }
    draw_legend(out);
    buf_add_text(out, "</svg>\n");
}
