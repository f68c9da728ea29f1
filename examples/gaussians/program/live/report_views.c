// SPDX-License-Identifier: MIT
#include "live/report.h"
#include "measure/maps.h"
#include "record/html.h"
#include <stdlib.h>

enum { WIDEST = 420 };

typedef struct ranked {
    size_t index;
    double psnr;
} ranked;

static int compare_ranked(const void *a, const void *b) {
    const ranked *x = a, *y = b;
    return (x->psnr > y->psnr) - (x->psnr < y->psnr);
}

static bool write_picture(FILE *page, const image *small, const char *caption, const char *view, fault *why) {
    fprintf(page, "<figure><img alt=\"%s, ", caption);
    html_text(page, view);
    fprintf(page, "\" width=\"%d\" height=\"%d\" src=\"", small->width, small->height);
    if (!html_data_uri(page, small, why)) return false;
    fprintf(page, "\"/><figcaption>%s</figcaption></figure>\n", caption);
    return true;
}

static int divisor_of(const image *picture) {
    return (picture->width + WIDEST - 1) / WIDEST;
}

static bool write_small(FILE *page, const image *picture, const char *caption, const char *view, fault *why) {
    image small;
    if (!image_downscale(picture, divisor_of(picture), &small, why)) return false;
    const bool done = write_picture(page, &small, caption, view, why);
    image_close(&small);
    return done;
}

static bool write_view(FILE *page, const target_view *view, const image *rendered, const quality *q,
                       const char *rank, fault *why) {
    const char *name = view->name ? view->name : "";
    image errors;
    if (!map_errors(rendered, view->picture, divisor_of(rendered), &errors, why)) return false;
    fputs("<section class=\"view\"><h3>", page);
    html_text(page, name);
    fprintf(page, " <span>%s%.2f dB, SSIM %.4f, %d × %d</span></h3>\n<div class=\"trio\">\n", rank, q->psnr,
            q->ssim, rendered->width, rendered->height);
    const bool done = write_small(page, rendered, "rendered", name, why) &&
                      write_small(page, view->picture, "photograph", name, why) &&
                      write_picture(page, &errors, "error", name, why);
    fputs("</div></section>\n", page);
    image_close(&errors);
    return done;
}

static void write_legend(FILE *page) {
    fputs("<p class=\"legend\">error: 0 <svg class=\"ramp\" viewBox=\"0 0 120 10\" role=\"img\" "
          "aria-label=\"colours of the error map\">",
          page);
    for (int i = 0; i < 30; i++) {
        uint8_t color[3];
        map_color((i + 0.5) / 30, color);
        fprintf(page, "<rect x=\"%d\" width=\"4.2\" height=\"10\" fill=\"#%02x%02x%02x\"/>", 4 * i, color[0],
                color[1], color[2]);
    }
    fprintf(page, "</svg> %d of 255 and more, mean of the channels</p>\n", FULL_ERROR);
}

bool report_views_write(FILE *page, const report_gallery *gallery, const target_view *views, size_t count,
                        fault *why) {
    const size_t last = gallery->shown - 1;
    write_legend(page);
    for (size_t i = 0; i <= last; i++) {
        const char *place = count == 1 ? "" : i == 0 ? "worst: " : i == last ? "best: " : "";
        const size_t index = gallery->index[i];
        if (!write_view(page, &views[index], &gallery->picture[i], &gallery->each[index], place, why))
            return false;
    }
    return true;
}

bool report_gallery_choose(report_gallery *gallery, size_t count, fault *why) {
    ranked *order = calloc(count, sizeof *order);
    if (!order) return fail(why, "no memory for the report's %zu views", count);
    for (size_t i = 0; i < count; i++) order[i] = (ranked){i, gallery->each[i].psnr};
    qsort(order, count, sizeof *order, compare_ranked);
    gallery->shown = count < REPORT_SHOWN ? count : REPORT_SHOWN;
    for (size_t i = 0; i < gallery->shown; i++)
        gallery->index[i] = order[gallery->shown > 1 ? i * (count - 1) / (gallery->shown - 1) : 0].index;
    free(order);
    return true;
}

void report_gallery_close(report_gallery *gallery) {
    for (size_t i = 0; i < REPORT_SHOWN; i++) image_close(&gallery->picture[i]);
    free(gallery->each);
    *gallery = (report_gallery){0};
}
