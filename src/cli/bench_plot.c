/* bench_plot.c - the roofline as an SVG image: operations per second over operations per byte of
 * weights, both logarithmic; the roof is what this machine measured, each test a point below it. */
#include <math.h>

#include "cli/bench.h"

enum { WIDTH = 760, HEIGHT = 460, LEFT = 70, TOP = 50, PLOT_W = 640, PLOT_H = 330 };

typedef struct axes {
    double x0, x1, y0, y1; /* powers of ten */
} axes;

static double at_x(const axes *a, double v) {
    return LEFT + (log10(v) - a->x0) / (a->x1 - a->x0) * PLOT_W;
}
static double at_y(const axes *a, double v) {
    return TOP + PLOT_H - (log10(v) - a->y0) / (a->y1 - a->y0) * PLOT_H;
}

static axes axes_of(const rf_bench *b, double roof) {
    axes a = {0, 1, floor(log10(roof)) - 1, ceil(log10(roof))};
    for (size_t i = 0; i < b->n_tests; i++) {
        const rf_bench_test *t = &b->tests[i];
        if (t->ops <= 0) continue;
        a.x0 = fmin(a.x0, floor(log10(t->intensity)));
        a.x1 = fmax(a.x1, ceil(log10(t->intensity)));
        a.y0 = fmin(a.y0, floor(log10(t->ops)));
        a.y1 = fmax(a.y1, ceil(log10(t->ops)));
    }
    return a;
}

static void put_grid(const axes *a, rf_buf *out) {
    for (double e = a->x0; e <= a->x1; e++)
        rf_buf_printf(out,
                      "<path class=\"grid\" d=\"M%.1f %dv%d\"/><text class=\"x\" x=\"%.1f\" "
                      "y=\"%d\">%g</text>\n",
                      at_x(a, pow(10, e)), TOP, PLOT_H, at_x(a, pow(10, e)), TOP + PLOT_H + 18,
                      pow(10, e));
    for (double e = a->y0; e <= a->y1; e++)
        rf_buf_printf(out,
                      "<path class=\"grid\" d=\"M%d %.1fh%d\"/><text class=\"y\" x=\"%d\" "
                      "y=\"%.1f\">%g</text>\n",
                      LEFT, at_y(a, pow(10, e)), PLOT_W, LEFT - 6, at_y(a, pow(10, e)) + 4,
                      pow(10, e - 9));
}

void rf_bench_plot(const rf_bench *b, rf_buf *out) {
    const size_t last = b->n_tests - 1;
    const double read = b->peak[last].read_bytes, roof = rf_bench_peak_ops(b, last);
    const axes a = axes_of(b, roof);
    const double ridge = roof / read, right = pow(10, a.x1), left = pow(10, a.x0);
    rf_buf_printf(out,
                  "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 %d %d\" width=\"%d\" "
                  "height=\"%d\" role=\"img\">\n<title>Roofline: what was reached, and what the "
                  "machine allows</title>\n"
                  "<style>text{font:13px sans-serif;fill:#222}.title{font-weight:bold}"
                  ".x{text-anchor:middle}.y{text-anchor:end}.grid{stroke:#ddd}"
                  ".roof{fill:none;stroke:#0b62a8;stroke-width:2}circle{fill:#d1560a}</style>\n"
                  "<rect width=\"100%%\" height=\"100%%\" fill=\"#fff\"/>\n"
                  "<text class=\"title\" x=\"%d\" y=\"24\">%.1f GB/s of reads, %.0f %s, %d "
                  "threads</text>\n",
                  WIDTH, HEIGHT, WIDTH, HEIGHT, LEFT, read * 1e-9, roof * 1e-9,
                  b->model.is_float ? "GFLOPS (f32)" : "GOPS (int8)", b->tests[last].threads);
    put_grid(&a, out);
    rf_buf_printf(out,
                  "<clipPath id=\"frame\"><rect x=\"%d\" y=\"%d\" width=\"%d\" height=\"%d\"/>"
                  "</clipPath>\n<path class=\"roof\" clip-path=\"url(#frame)\" d=\"M%.1f %.1fL%.1f "
                  "%.1fH%.1f\"/>\n",
                  LEFT, TOP, PLOT_W, PLOT_H, at_x(&a, left), at_y(&a, left * read), at_x(&a, ridge),
                  at_y(&a, roof), at_x(&a, fmax(right, ridge)));
    for (size_t i = 0; i < b->n_tests; i++) {
        const rf_bench_test *t = &b->tests[i];
        char name[128];
        if (t->ops <= 0) continue;
        rf_bench_name(b, t, name, sizeof name);
        double x = at_x(&a, t->intensity), y = at_y(&a, t->ops);
        bool flip = x > LEFT + PLOT_W * 0.7;
        rf_buf_printf(out,
                      "<circle cx=\"%.1f\" cy=\"%.1f\" r=\"4\"/><text class=\"%s\" x=\"%.1f\" "
                      "y=\"%.1f\">%s</text>\n",
                      x, y, flip ? "y" : "point", flip ? x - 8 : x + 8, y + 16, name);
    }
    rf_buf_printf(out,
                  "<text class=\"x\" x=\"%d\" y=\"%d\">operations per byte of weights</text>\n"
                  "<text x=\"8\" y=\"%d\">GOPS</text>\n</svg>\n",
                  LEFT + PLOT_W / 2, TOP + PLOT_H + 42, TOP - 8);
}
