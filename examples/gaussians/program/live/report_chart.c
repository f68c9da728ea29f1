// SPDX-License-Identifier: MIT
#include "live/report_chart.h"
#include "record/html.h"
#include <math.h>

// Sizes of the drawing in its own units.
enum { WIDTH = 560, HEIGHT = 250, LEFT = 58, RIGHT = 18, TOP = 12, BOTTOM = 40, MAX_TICKS = 12 };

typedef struct axis {
    double low, high; // of the data, with a margin
    bool logarithmic;
    double from, to; // in the drawing
    int ticks;
    double tick[MAX_TICKS];
} axis;

static double place(const axis *a, double value) {
    const double part =
        a->logarithmic ? log(value / a->low) / log(a->high / a->low) : (value - a->low) / (a->high - a->low);
    return a->from + part * (a->to - a->from);
}

static void add_tick(axis *a, double value) {
    const double margin = 1e-9 * (a->high - a->low);
    if (a->ticks < MAX_TICKS && value >= a->low - margin && value <= a->high + margin)
        a->tick[a->ticks++] = value;
}

// 1, 2 or 5 times a power of ten that divides the length into about `wanted` steps.
static double round_step(double length, int wanted) {
    const double step = length / wanted, power = pow(10, floor(log10(step))), first = step / power;
    return power * (first < 1.5 ? 1 : first < 3.5 ? 2 : first < 7.5 ? 5 : 10);
}

static void tick_evenly(axis *a, int wanted) {
    const double step = round_step(a->high - a->low, wanted);
    for (double k = ceil(a->low / step - 1e-9); a->ticks < MAX_TICKS && k * step <= a->high + 1e-9 * step;
         k++)
        add_tick(a, k * step + 0.0); // no -0
}

// Also used for ranges of less than a decade, which contain too few powers of ten.
static void tick_by_factors(axis *a) {
    static const double in_decade[] = {1, 2, 5};
    const double decades = log10(a->high / a->low);
    const int each = decades > 3 ? 1 : 3, apart = decades > MAX_TICKS ? (int)ceil(decades / MAX_TICKS) : 1;
    for (double power = floor(log10(a->low)); power <= log10(a->high); power += apart)
        for (int i = 0; i < each; i++) add_tick(a, in_decade[i] * pow(10, power));
    if (a->ticks >= 2) return;
    a->ticks = 0;
    tick_evenly(a, 4);
}

static bool is_drawn(const chart *what, const chart_point *p) {
    return isfinite(p->y) && (!what->logarithmic || p->y > 0);
}

static size_t find_bounds(const chart *what, axis *x, axis *y) {
    size_t drawn = 0;
    for (size_t i = 0; i < what->count + what->other_count; i++) {
        const chart_point p = i < what->count ? what->points[i] : what->other[i - what->count];
        if (!is_drawn(what, &p)) continue;
        x->low = drawn ? fmin(x->low, p.x) : p.x;
        x->high = drawn ? fmax(x->high, p.x) : p.x;
        y->low = drawn ? fmin(y->low, p.y) : p.y;
        y->high = drawn ? fmax(y->high, p.y) : p.y;
        drawn++;
    }
    return drawn;
}

// A margin between the curve and the frame, also for a constant curve.
static void widen(axis *a, bool from_zero) {
    if (from_zero) a->low = fmin(a->low, 0);
    if (a->logarithmic) {
        const double wider = fmax(pow(a->high / a->low, 0.06), 1.02);
        a->low /= wider;
        a->high *= wider;
        return;
    }
    const double least = fmax(1e-3 * fmax(fabs(a->low), fabs(a->high)), 1e-12);
    if (a->high - a->low < least) {
        a->high += least;
        if (!from_zero) a->low -= least;
    }
    const double length = a->high - a->low;
    a->high += 0.06 * length;
    if (!from_zero) a->low -= 0.06 * length;
}

static void write_axes(FILE *page, const chart *what, const axis *x, const axis *y) {
    for (int i = 0; i < y->ticks; i++) {
        const double at = place(y, y->tick[i]);
        fprintf(page, "<line class=\"grid\" x1=\"%d\" x2=\"%d\" y1=\"%.1f\" y2=\"%.1f\"/>", LEFT,
                WIDTH - RIGHT, at, at);
        fprintf(page, "<text class=\"y\" x=\"%d\" y=\"%.1f\">", LEFT - 8, at + 4);
        html_number(page, y->tick[i]);
        fputs("</text>\n", page);
    }
    for (int i = 0; i < x->ticks; i++) {
        const double at = place(x, x->tick[i]);
        fprintf(page, "<line class=\"axis\" x1=\"%.1f\" x2=\"%.1f\" y1=\"%d\" y2=\"%d\"/>", at, at,
                HEIGHT - BOTTOM, HEIGHT - BOTTOM + 4);
        fprintf(page, "<text class=\"x\" x=\"%.1f\" y=\"%d\">", at, HEIGHT - BOTTOM + 18);
        html_number(page, x->tick[i]);
        fputs("</text>\n", page);
    }
    fprintf(page, "<line class=\"axis\" x1=\"%d\" x2=\"%d\" y1=\"%d\" y2=\"%d\"/>", LEFT, WIDTH - RIGHT,
            HEIGHT - BOTTOM, HEIGHT - BOTTOM);
    fprintf(page, "<text class=\"x name\" x=\"%d\" y=\"%d\">", (LEFT + WIDTH - RIGHT) / 2, HEIGHT - 4);
    html_text(page, what->x_name);
    fputs("</text>\n", page);
}

static void write_curve(FILE *page, const chart *what, bool other, const axis *x, const axis *y) {
    const chart_point *const points = other ? what->other : what->points;
    const size_t count = other ? what->other_count : what->count;
    fprintf(page, "<polyline class=\"curve%s\" points=\"", other ? " other" : "");
    for (size_t i = 0; i < count; i++)
        if (is_drawn(what, &points[i]))
            fprintf(page, "%.1f,%.1f ", place(x, points[i].x), place(y, points[i].y));
    fputs("\"/>\n", page);
    for (size_t i = 0; i < count; i++) { // tooltips
        const chart_point p = points[i];
        if (!is_drawn(what, &p)) continue;
        fprintf(page, "<circle class=\"%s\" r=\"%d\" cx=\"%.1f\" cy=\"%.1f\"><title>",
                what->marks ? "mark" : "spot", what->marks ? 4 : 6, place(x, p.x), place(y, p.y));
        html_text(page, what->x_name);
        fprintf(page, " %.10g: %.5g</title></circle>\n", p.x, p.y);
    }
}

void chart_write(FILE *page, const chart *what) {
    axis x = {.from = LEFT, .to = WIDTH - RIGHT};
    axis y = {.from = HEIGHT - BOTTOM, .to = TOP, .logarithmic = what->logarithmic};
    fputs("<figure class=\"chart\"><figcaption><b>", page);
    html_text(page, what->title);
    fputs("</b> ", page);
    html_text(page, what->y_name);
    fputs("</figcaption>\n", page);
    if (find_bounds(what, &x, &y) == 0) {
        fputs("<p>nothing was measured</p></figure>\n", page);
        return;
    }
    if (!(x.high > x.low)) x.low -= 1, x.high += 1;
    widen(&y, what->from_zero && !what->logarithmic);
    tick_evenly(&x, 5);
    if (what->logarithmic)
        tick_by_factors(&y);
    else
        tick_evenly(&y, 4);
    fprintf(page, "<svg viewBox=\"0 0 %d %d\" role=\"img\" aria-label=\"", WIDTH, HEIGHT);
    html_text(page, what->title);
    fputs("\">\n", page);
    write_axes(page, what, &x, &y);
    write_curve(page, what, false, &x, &y);
    if (what->other) write_curve(page, what, true, &x, &y);
    fputs("</svg></figure>\n", page);
}
