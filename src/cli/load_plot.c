/* load_plot.c - the cumulative distributions of TTFT and inter-token times as an SVG image, written
 * by hand: two panels side by side, a step line per server, milliseconds from 0 to the largest p99. */
#include <math.h>

#include "cli/load.h"

enum {
    PANEL_W = 400, /* of the plotted area */
    PANEL_H = 260,
    LEFT = 60,
    TOP = 50,
    GAP = 90,
    LEGEND = 70, /* height below the axis */
    MAX_POINTS = 200,
};

static const char *const colours[] = {"#0b62a8", "#d1560a"};
static const char *const dashes[] = {"none", "6 3"};

typedef struct panel {
    const char *title;
    const rf_load_samples *samples[2];
    size_t n;
    double max; /* right end of the axis, ms */
    double x;   /* left end of the plotted area */
} panel;

static void put_escaped(rf_buf *out, const char *text) {
    for (; *text; text++) {
        if (*text == '<' || *text == '>' || *text == '&' || *text == '"' || *text < ' ')
            rf_buf_printf(out, "&#%d;", *text < ' ' ? '?' : *text);
        else
            rf_buf_putc(out, *text);
    }
}

/* The step between marks of an axis up to max: 1, 2 or 5 times a power of ten, about five of them. */
static double tick_step(double max) {
    double power = pow(10, floor(log10(max / 5))), x = max / 5 / power;
    return power * (x < 1.5 ? 1 : x < 3.5 ? 2 : x < 7.5 ? 5 : 10);
}

static void put_axes(const panel *p, rf_buf *out) {
    double step = tick_step(p->max);
    rf_buf_printf(out,
                  "<text class=\"title\" x=\"%.1f\" y=\"%d\">%s</text>\n"
                  "<rect class=\"frame\" x=\"%.1f\" y=\"%d\" width=\"%d\" height=\"%d\"/>\n",
                  p->x, TOP - 16, p->title, p->x, TOP, PANEL_W, PANEL_H);
    for (int i = 0; i <= 4; i++) {
        double y = TOP + PANEL_H * (1 - i / 4.0);
        rf_buf_printf(out,
                      "<path class=\"grid\" d=\"M%.1f %.1fh%d\"/><text class=\"y\" x=\"%.1f\" "
                      "y=\"%.1f\">%d%%</text>\n",
                      p->x, y, PANEL_W, p->x - 6, y + 4, i * 25);
    }
    for (int i = 0; i * step <= p->max * 1.0001; i++) {
        double x = p->x + i * step / p->max * PANEL_W;
        rf_buf_printf(out,
                      "<path class=\"grid\" d=\"M%.1f %dv%d\"/><text class=\"x\" x=\"%.1f\" "
                      "y=\"%d\">%g</text>\n",
                      x, TOP, PANEL_H, x, TOP + PANEL_H + 16, i * step);
    }
    rf_buf_printf(out, "<text class=\"x\" x=\"%.1f\" y=\"%d\">ms</text>\n", p->x + PANEL_W + 18.0,
                  TOP + PANEL_H + 16);
}

/* At most MAX_POINTS of the sorted samples; what lies right of the axis is cut off there. */
static void put_line(const panel *p, size_t k, rf_buf *out) {
    const rf_load_samples *s = p->samples[k];
    size_t n = s->n < MAX_POINTS ? s->n : MAX_POINTS;
    if (n == 0) return;
    rf_buf_printf(out, "<path class=\"line\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"M%.1f %d",
                  colours[k], dashes[k], p->x, TOP + PANEL_H);
    for (size_t i = 1; i <= n; i++) {
        size_t rank = i * s->n / n; /* 1 to s->n */
        double ms = s->p[rank - 1];
        if (ms > p->max) {
            rf_buf_printf(out, "H%.1f", p->x + PANEL_W);
            break;
        }
        rf_buf_printf(out, "H%.1fV%.1f", p->x + ms / p->max * PANEL_W,
                      TOP + PANEL_H * (1 - (double)rank / (double)s->n));
        if (i == n) rf_buf_printf(out, "H%.1f", p->x + PANEL_W);
    }
    rf_buf_puts(out, "\"/>\n");
}

static void put_panel(panel *p, rf_buf *out) {
    for (size_t k = 0; k < p->n; k++)
        p->max = fmax(p->max, rf_load_percentile(p->samples[k], 99) * 1.05);
    if (p->max <= 0) p->max = 1;
    put_axes(p, out);
    for (size_t k = 0; k < p->n; k++)
        put_line(p, k, out);
}

void rf_load_plot(const rf_load_result *r, size_t n, rf_buf *out) {
    int width = LEFT + PANEL_W + GAP + PANEL_W + 40, height = TOP + PANEL_H + LEGEND;
    panel ttft = {.title = "Time to first token", .n = n, .x = LEFT};
    panel itl = {.title = "Time between tokens", .n = n, .x = LEFT + PANEL_W + GAP};
    for (size_t k = 0; k < n; k++)
        ttft.samples[k] = &r[k].ttft, itl.samples[k] = &r[k].itl;
    rf_buf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                  "height=\"%d\" role=\"img\">\n"
                  "<title>Cumulative distributions of the time to the first token and between "
                  "tokens</title>\n"
                  "<style>text{font:13px sans-serif;fill:#222}.title{font-weight:bold}"
                  ".x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#ddd}"
                  ".frame{fill:none;stroke:#888}.line{fill:none;stroke-width:2}</style>\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n",
                  width, height, width, height);
    put_panel(&ttft, out);
    put_panel(&itl, out);
    for (size_t k = 0; k < n; k++) {
        int y = TOP + PANEL_H + 38 + 18 * (int)k;
        rf_buf_printf(out,
                      "<path class=\"line\" stroke=\"%s\" stroke-dasharray=\"%s\" d=\"M%d %dh30\"/>"
                      "<text x=\"%d\" y=\"%d\">%c: ",
                      colours[k], dashes[k], LEFT, y - 4, LEFT + 38, y, 'A' + (int)k);
        put_escaped(out, r[k].url);
        rf_buf_puts(out, ", ");
        put_escaped(out, r[k].model);
        rf_buf_puts(out, "</text>\n");
    }
    rf_buf_puts(out, "</svg>\n");
}
