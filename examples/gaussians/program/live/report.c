// SPDX-License-Identifier: MIT
#include "live/report.h"
#include "cli/command_line.h"
#include "device.h"
#include "record/html.h"
#include "files/output_file.h"
#include "files/path.h"
#include <inttypes.h>
#include <stdlib.h>

// For light and dark.
static const char report_style[] =
    ":root{color-scheme:light dark;--page:#fbfbfa;--card:#fff;--text:#1d1f23;--quiet:#63676e;--line:#e3e3df;"
    "--bar:#2468c9}\n"
    "@media(prefers-color-scheme:dark){:root{--page:#15171a;--card:#1d2024;--text:#e8e9eb;--quiet:#a0a5ad;"
    "--line:#34383e;--bar:#6ea8ff}}\n"
    "*{box-sizing:border-box}\n"
    "body{margin:0 auto;padding:32px 24px 48px;max-width:1360px;background:var(--page);color:var(--text);"
    "font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
    "h1{margin:0;font-size:26px;line-height:1.2}h2{margin:40px 0 4px;font-size:19px}"
    "h3{margin:20px 0 6px;font-size:15px}h3 span{color:var(--quiet);font-weight:400;margin-left:8px}\n"
    "p{margin:4px 0;color:var(--quiet)}\n"
    ".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(150px,1fr));gap:12px;"
    "margin:22px 0 0;padding:0}\n"
    ".tiles div{background:var(--card);border:1px solid var(--line);border-radius:8px;padding:10px 14px}\n"
    ".tiles dt{color:var(--quiet);font-size:13px}.tiles dd{margin:0;font-size:22px;font-weight:600}\n"
    ".tiles dd small{font-size:14px;font-weight:400;color:var(--quiet)}\n"
    "iframe{display:block;width:100%;height:760px;margin-top:10px;border:1px solid var(--line);border-radius:8px}\n"
    "figure{margin:0}figcaption{color:var(--quiet);font-size:13px}"
    "figcaption b{color:var(--text);font-weight:600}\n"
    ".trio{display:grid;grid-template-columns:repeat(3,1fr);gap:10px}\n"
    ".trio img{display:block;width:100%;height:auto;border-radius:4px;outline:1px solid var(--line)}\n"
    ".legend{display:flex;align-items:center;gap:8px;font-size:13px}.ramp{width:120px;height:10px;border-"
    "radius:2px}\n"
    "table{border-collapse:collapse;margin-top:10px;font-variant-numeric:tabular-nums}\n"
    "th,td{text-align:left;padding:4px 18px 4px 0;border-bottom:1px solid var(--line);"
    "vertical-align:baseline;overflow-wrap:anywhere}\n"
    "th{color:var(--quiet);font-weight:400}td.n,th.n{text-align:right}\n"
    ".bar{display:block;height:10px;border-radius:0 3px 3px "
    "0;background:var(--bar)}.wide{width:100%}td.w{width:45%}\n"
    ".settings{columns:3 320px;column-gap:28px;margin:10px 0 0}\n"
    ".settings div{display:flex;justify-content:space-between;gap:16px;border-bottom:1px solid var(--line);"
    "padding:3px 0;break-inside:avoid}\n"
    ".settings dt{color:var(--quiet)}.settings dd{margin:0;text-align:right;overflow-wrap:anywhere}\n"
    "footer{margin-top:40px;color:var(--quiet);font-size:13px}\n"
    "@media(max-width:760px){.trio{gap:4px}body{padding:20px 12px}}\n";

static void tile(FILE *page, const char *name, const char *unit, double value, const char *format) {
    fprintf(page, "<div><dt>%s</dt><dd>", name);
    if (format)
        fprintf(page, format, value);
    else
        html_number(page, value);
    fprintf(page, " <small>%s</small></dd></div>\n", unit);
}

static void write_tiles(FILE *page, const run_report *report) {
    const quality *mean = &report->gallery->mean;
    const training_report *training = report->training;
    const double steps = (double)(training->iterations - training->first_iteration + 1);
    const char *where = report->held_out ? "held out" : "trained on";
    fputs("<dl class=\"tiles\">\n", page);
    tile(page, "PSNR", "dB", mean->psnr, "%.2f");
    tile(page, "SSIM", where, mean->ssim, "%.4f");
    tile(page, "Gaussians", "", (double)report->gaussians, NULL);
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
    fputs(" - dsplat</title>\n<style>\n", page);
    fputs(report_style, page);
    fputs("</style></head>\n<body>\n<h1>", page);
    html_text(page, report->title);
    fputs("</h1>\n<p>trained on ", page);
    html_text(page, device_name());
    fprintf(page, " by dsplat %s (%s)</p>\n", gs_version(), gs_backend());
}

static bool write_views(FILE *page, const run_report *report, fault *why) {
    fprintf(page, "<h2>%s</h2>\n",
            report->held_out ? "Held-out views" : "Views trained on (none was held out)");
    fprintf(page, "<p>%zu in all; from the worst to the best by PSNR</p>\n", report->view_count);
    return report_views_write(page, report->gallery, report->views, report->view_count, why);
}

static void write_stages(FILE *page, const stage_clock *clock) {
    fputs("<h2>Where the time goes</h2>\n", page);
    if (clock->steps == 0) {
        fputs("<p>Stages are timed on a GPU only.</p>\n", page);
        return;
    }
    double all = 0;
    for (int i = 0; i < STAGES; i++) all += clock->milliseconds[i];
    fputs("<table class=\"wide\"><tr><th>stage</th><th class=\"n\">ms per step</th><th "
          "class=\"n\">%</th><th></th></tr>\n",
          page);
    for (int i = 0; i < STAGES; i++) {
        const double part = all > 0 ? 100 * clock->milliseconds[i] / all : 0;
        fprintf(page,
                "<tr><td>%s</td><td class=\"n\">%.4f</td><td class=\"n\">%.1f</td>"
                "<td class=\"w\"><span class=\"bar\" style=\"width:%.1f%%\"></span></td></tr>\n",
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

static void write_settings(FILE *page, const run_record *record, const char *title, bool changed) {
    fprintf(page, "<h2>%s</h2>\n<dl class=\"settings\">\n", title);
    for (size_t i = 0; i < record->setting_count; i++) {
        const run_setting *setting = &record->settings[i];
        if (setting->changed != changed) continue;
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

// In a frame, whose text is an attribute.
static bool write_scene(FILE *page, const page_content *content, fault *why) {
    char *text = NULL;
    size_t bytes;
    page_written ignored;
    if (!content) return true;
    FILE *const stream = memory_stream_open(&text, &bytes);
    bool done = stream && page_print(stream, content, &ignored, why);
    if (!stream || !memory_stream_close(stream)) done = fail(why, "no memory for the page of the scene");
    if (done) {
        fputs("<h2>Scene</h2>\n<iframe title=\"the scene\" allow=\"fullscreen\" srcdoc=\"", page);
        html_text(page, text);
        fputs("\"></iframe>\n", page);
    }
    free(text);
    return done;
}

static bool write_page(FILE *page, const run_report *report, fault *why) {
    write_head(page, report);
    write_tiles(page, report);
    if (!write_scene(page, report->page, why) || !write_views(page, report, why)) return false;
    write_stages(page, &report->training->clock);
    write_policies(page, report->record, &report->training->strategy);
    write_settings(page, report->record, "Settings that differ from the defaults", true);
    write_settings(page, report->record, "Other settings", false);
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
    if (!folder_make(folder, why) || !path_join(path, folder, "index.html", why) ||
        !output_file_open(&file, path, why))
        return false;
    if (write_page(file.stream, report, why)) return output_file_commit(&file, why);
    output_file_discard(&file);
    return false;
}
