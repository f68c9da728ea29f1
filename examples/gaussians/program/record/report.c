// SPDX-License-Identifier: MIT
#include "record/report.h"
#include "command_line.h"
#include "device.h"
#include "record/html.h"
#include "output_file.h"
#include "path.h"
#include "record/report_chart.h"
#include "record/report_style.h"
#include "record/report_views.h"
#include <inttypes.h>
#include <stdlib.h>

static void tile(FILE *page, const char *name, const char *unit, double value, const char *format) {
    fprintf(page, "<div><dt>%s</dt><dd>", name);
    if (format)
        fprintf(page, format, value);
    else
        html_number(page, value);
    fprintf(page, " <small>%s</small></dd></div>\n", unit);
}

static void write_tiles(FILE *page, const run_report *report, const quality *mean) {
    const training_report *training = report->training;
    const double steps = (double)(training->iterations - training->first_iteration + 1);
    const char *where = report->held_out ? "held out" : "trained on";
    fputs("<dl class=\"tiles\">\n", page);
    tile(page, "PSNR", "dB", mean->psnr, "%.2f");
    tile(page, "SSIM", where, mean->ssim, "%.4f");
    tile(page, "Gaussians", "", (double)report->gaussians->count, NULL);
    tile(page, "Iterations", "", (double)training->iterations, "%.0f");
    tile(page, "Training", "s", training->seconds, "%.1f");
    tile(page, "Speed", "steps/s", training->seconds > 0 ? steps / training->seconds : 0, NULL);
    fputs("</dl>\n", page);
}

static void write_head(FILE *page, const run_report *report) {
    fputs("<!DOCTYPE html>\n<html lang=\"en\" xmlns=\"http://www.w3.org/1999/xhtml\"><head><meta "
          "charset=\"utf-8\"/>\n"
          "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\"/>\n<title>",
          page);
    html_text(page, report->title);
    fputs(" - splat</title>\n<style>\n", page);
    fputs(report_style, page);
    fputs("</style></head>\n<body>\n<h1>", page);
    html_text(page, report->title);
    fputs("</h1>\n<p>trained on ", page);
    html_text(page, device_name());
    fprintf(page, " by splat %s (%s)</p>\n", gs_version(), gs_backend());
}

static bool write_views(FILE *page, const run_report *report, const quality *each, fault *why) {
    fprintf(page, "<h2>%s</h2>\n",
            report->held_out ? "Held-out views" : "Views trained on (none was held out)");
    fprintf(page, "<p>%zu in all; from the worst to the best by PSNR</p>\n", report->view_count);
    return report_views_write(page, report->gaussians, report->views, each, report->view_count,
                              report->background, why);
}

static bool write_charts(FILE *page, const run_report *report, fault *why) {
    const run_record *record = report->record;
    chart_point *points = calloc(record->point_count + record->evaluation_count + 1, sizeof *points);
    if (!points) return fail(why, "no memory for the report's curves");
    fputs("<h2>Curves</h2>\n<div class=\"charts\">\n", page);
    chart what = {.x_name = "iteration", .points = points, .count = record->point_count};

    for (size_t i = 0; i < record->point_count; i++)
        points[i] = (chart_point){(double)record->points[i].iteration, record->points[i].loss};
    what.title = "Loss", what.y_name = "mean since the point before, logarithmic", what.logarithmic = true;
    chart_write(page, &what);

    what.logarithmic = false;
    for (size_t i = 0; i < record->evaluation_count; i++)
        points[i] = (chart_point){(double)record->evaluations[i].iteration, record->evaluations[i].mean.psnr};
    what.title = "PSNR", what.y_name = "held-out views, dB", what.count = record->evaluation_count;
    what.marks = true;
    chart_write(page, &what);

    what.marks = false, what.count = record->point_count, what.from_zero = true;
    for (size_t i = 0; i < record->point_count; i++)
        points[i] = (chart_point){(double)record->points[i].iteration, (double)record->points[i].gaussians};
    what.title = "Gaussians", what.y_name = "count";
    chart_write(page, &what);

    for (size_t i = 0; i < record->point_count; i++)
        points[i] = (chart_point){(double)record->points[i].iteration, record->points[i].step_milliseconds};
    what.title = "Time", what.y_name = "of a step, ms";
    chart_write(page, &what);

    fputs("</div>\n", page);
    free(points);
    return true;
}

static bool write_lm(FILE *page, const run_record *record, fault *why) {
    const size_t count = record->lm_step_count;
    if (count == 0) return true;
    chart_point *points = calloc(count + 1, sizeof *points);
    if (!points) return fail(why, "no memory for the report's curves");
    fputs("<h2>Levenberg-Marquardt</h2>\n", page);
    points[0] = (chart_point){0, record->lm_steps[0].step.before};
    for (size_t i = 0; i < count; i++) {
        const lm_step *step = &record->lm_steps[i].step;
        points[i + 1] = (chart_point){(double)step->step, step->kept ? step->after : step->before};
    }
    const chart objective = {.title = "Objective",
                             .x_name = "step",
                             .y_name = "mean over values",
                             .points = points,
                             .count = count + 1,
                             .marks = true};
    fputs("<div class=\"charts\">\n", page);
    chart_write(page, &objective);
    fputs("</div>\n<table class=\"wide\"><tr><th class=\"n\">step</th><th class=\"n\">s</th><th "
          "class=\"n\">objective before</th><th class=\"n\">after</th><th class=\"n\">gain ratio</th><th "
          "class=\"n\">gamma</th><th class=\"n\">damping</th><th class=\"n\">PSNR, dB</th><th></th></tr>\n",
          page);
    for (size_t i = 0; i < count; i++) {
        const run_lm_step *entry = &record->lm_steps[i];
        const lm_step *step = &entry->step;
        fprintf(page,
                "<tr><td class=\"n\">%" PRId64 "</td><td class=\"n\">%.2f</td><td class=\"n\">%.6f</td><td "
                "class=\"n\">%.6f</td><td class=\"n\">%.3f</td><td class=\"n\">%.3f</td><td "
                "class=\"n\">%g</td><td class=\"n\">",
                step->step, step->seconds, step->before, step->after, step->gain, step->gamma, step->damping);
        if (entry->evaluated) fprintf(page, "%.2f", entry->mean.psnr);
        fprintf(page, "</td><td>%s</td></tr>\n", step->kept ? "" : "undone");
    }
    fputs("</table>\n", page);
    free(points);
    return true;
}

static void write_stages(FILE *page, const stage_clock *clock) {
    fputs("<h2>Where the time goes</h2>\n", page);
    if (clock->steps == 0) {
        fputs("<p>Stages are timed on a GPU only.</p>\n", page);
        return;
    }
    double all = 0;
    for (int i = 0; i < STAGES; i++) all += clock->milliseconds[i];
    fputs("<table class=\"wide\"><tr><th>stage</th><th class=\"n\">ms a step</th><th "
          "class=\"n\">%</th><th></th></tr>\n",
          page);
    for (int i = 0; i < STAGES; i++) {
        const double part = all > 0 ? 100 * clock->milliseconds[i] / all : 0;
        fprintf(page,
                "<tr><td>%s</td><td class=\"n\">%.4f</td><td class=\"n\">%.1f</td><td class=\"w\"><span "
                "class=\"bar\" "
                "style=\"width:%.1f%%\"></span></td></tr>\n",
                stage_name((stage)i), clock->milliseconds[i] / (double)clock->steps, part, part);
    }
    fprintf(page, "<tr><td>all, on the GPU</td><td class=\"n\">%.4f</td><td></td><td></td></tr></table>\n",
            all / (double)clock->steps);
}

// The iterations at which the best known policy changed.
static void write_policies(FILE *page, const run_record *record, const strategy_report *strategy) {
    enum { MOST = 40 };
    fputs("<h2>How gradients were added</h2>\n", page);
    if (strategy->tuned)
        fprintf(page,
                "<p>Chosen by measuring: %" PRId64 " launches, looked again %" PRId64
                " times, changed %" PRId64 " times; that cost %.1f ms.</p>\n",
                strategy->measured, strategy->examinations, strategy->changes, strategy->cost);
    else
        fputs("<p>As asked for; nothing was tuned.</p>\n", page);
    fputs(
        "<table><tr><th class=\"n\">by iteration</th><th>reduction</th><th class=\"n\">threshold</th></tr>\n",
        page);
    for (size_t i = 0, rows = 0; i < record->point_count && rows < MOST; i++) {
        const run_point *p = &record->points[i];
        if (i > 0 && p->policy.strategy == p[-1].policy.strategy &&
            p->policy.balance_threshold == p[-1].policy.balance_threshold)
            continue;
        fprintf(page, "<tr><td class=\"n\">%" PRId64 "</td><td>%s</td><td class=\"n\">%d</td></tr>\n",
                p->iteration, distwar_strategy_name(p->policy.strategy), p->policy.balance_threshold);
        rows++;
    }
    fputs("</table>\n", page);
}

static void write_settings(FILE *page, const run_record *record) {
    fputs("<h2>Settings</h2>\n<dl class=\"settings\">\n", page);
    for (size_t i = 0; i < record->setting_count; i++) {
        const run_setting *setting = &record->settings[i];
        fputs("<div><dt>", page);
        html_text(page, setting->name);
        fputs("</dt><dd>", page);
        if (setting->text)
            html_text(page, setting->text);
        else
            fprintf(page, "%.10g", setting->number);
        fputs("</dd></div>\n", page);
    }
    fputs("</dl>\n", page);
}

static bool write_page(FILE *page, const run_report *report, const quality *mean, const quality *each,
                       fault *why) {
    write_head(page, report);
    write_tiles(page, report, mean);
    if (!write_views(page, report, each, why) || !write_charts(page, report, why) ||
        !write_lm(page, report->record, why))
        return false;
    write_stages(page, &report->training->clock);
    write_policies(page, report->record, &report->training->strategy);
    write_settings(page, report->record);
    fputs("<footer>PSNR of pictures rounded to 8 bits; SSIM with a Gaussian window of 11 × 11.</footer>\n"
          "</body></html>\n",
          page);
    return true;
}

bool report_is_possible(const char *folder, fault *why) {
    char path[PATH_ROOM];
    return folder_make(folder, why) && path_join(path, folder, "index.html", why) &&
           output_is_possible(path, why);
}

bool report_write(const char *folder, const run_report *report, fault *why) {
    char path[PATH_ROOM];
    output_file file;
    quality mean, *each = calloc(report->view_count, sizeof *each);
    if (!each) return fail(why, "no memory for the report's %zu views", report->view_count);
    bool done = quality_measure(report->gaussians, report->views, report->view_count, report->background,
                                &mean, each, why) &&
                folder_make(folder, why) && path_join(path, folder, "index.html", why) &&
                output_file_open(&file, path, why);
    if (done) {
        done = write_page(file.stream, report, &mean, each, why);
        if (done)
            done = output_file_commit(&file, why);
        else
            output_file_discard(&file);
    }
    free(each);
    return done;
}
