// SPDX-License-Identifier: MIT
// dsplat export: a scene as one HTML page that shows it.
#include "commands/command.h"
#include "commands/page_source.h"
#include <stdlib.h>

static bool write_page(const page_options *options, const char *output, fault *why) {
    page_source source = {0};
    page_written written;
    const bool done = output_is_possible(output, why) && page_source_open(&source, options, output, why) &&
                      page_write(output, &source.content, &written, why);
    if (done) page_source_print(&source, output, &written);
    page_source_close(&source);
    return done;
}

int export_command(int argc, char **argv) {
    page_options options = {0};
    const char *output = NULL;
    option_table table = {0};
    const option_spec rows[] = {
        OUTPUT_OPTION(&output, .help = "the page to write, such as page.html; required"), OPTIONS_END};
    option_table_add(&table, rows);
    page_options_list(&options, &table);
    const command_spec command = {
        .name = "dsplat export",
        .arguments = "SCENE.ply -o PAGE.html [options]",
        .summary =
            "Writes a page that shows a scene in a browser with WebGL 2. The page is one file: it needs no\n"
            "network and no other file, and opens with a double click.\n\n"
            "It holds the scene, smaller photographs of some views, and the curves of the training. With\n"
            "300,000 Gaussians it has at most 10 MB, with more in proportion; for that the harmonics\n"
            "become coarser. The page says what is stored how.",
        .examples = "  dsplat export fern.ply -o fern.html --cameras data/fern\n"
                    "  dsplat export fern.ply -o fern.html --cameras data/fern --log fern.log --title Fern\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    if (!(output || fail(&why, "-o is missing: the page")) ||
        !are_two_files("--output", output, "the scene", options.scene, &why) ||
        !are_two_files("--output", output, "--log", options.log, &why))
        return report_misuse(&command, &why);
    return write_page(&options, output, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
