// SPDX-License-Identifier: MIT
// dsplat view: the page of dsplat export, from a small HTTP server; it follows the scene's file.
#include "commands/command.h"
#include "commands/page_source.h"
#include "live/live_page.h"
#include "record/signals.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>

// Whether a file has been written again since *known, which becomes what it is now.
static bool has_changed(const char *path, struct stat *known) {
    const struct stat before = *known;
    if (stat(path, known) != 0) return false; // it is being replaced
    return known->st_mtim.tv_sec != before.st_mtim.tv_sec ||
           known->st_mtim.tv_nsec != before.st_mtim.tv_nsec || known->st_size != before.st_size;
}

static bool show(live_page *page, const page_source *source, const char *name, fault *why) {
    page_written written;
    if (!live_page_show(page, &source->content, &written, why)) return false;
    page_tell(name, &written);
    fflush(stdout);
    return true;
}

// Until a signal comes.
static void follow(live_page *page, page_source *source, const page_options *o, struct stat known) {
    const struct timespec while_nothing_happens = {.tv_nsec = 100000000};
    while (*stop_request_flag() == 0) {
        fault why;
        nanosleep(&while_nothing_happens, NULL);
        if (has_changed(o->scene, &known) &&
            !(page_source_reread(source, o, &why) && show(page, source, o->scene, &why)))
            fprintf(stderr, "dsplat: %s; the page keeps what it had\n", why.text);
    }
}

static bool serve(const page_options *o, const char *listen, fault *why) {
    page_source source = {0};
    live_page *page = NULL;
    struct stat known = {0};
    has_changed(o->scene, &known);
    bool done = page_source_open(&source, o, NULL, why);
    stop_request_begin(); // before the thread of the server, which inherits nothing that ends the program
    if (done) {
        live_page_options options = {.listen = listen, .content = source.content};
        options.content.scene = NULL; // which the page asks for
        page = live_page_start(&options, why);
        done = page && show(page, &source, o->scene, why);
    }
    if (done) {
        page_server_print(live_page_server(page));
        printf("Control-C ends it.\n");
        fflush(stdout);
        follow(page, &source, o, known);
    }
    live_page_stop(page);
    stop_request_end();
    page_source_close(&source);
    return done;
}

int view_command(int argc, char **argv) {
    page_options options = {0};
    const char *listen = LISTEN_DEFAULT;
    option_table table = {0};
    page_options_list(&options, &table);
    const option_spec rows[] = {LISTEN_OPTION(&listen), OPTIONS_END};
    option_table_add(&table, rows);
    const command_spec command = {
        .name = "dsplat view",
        .arguments = "SCENE.ply [options]",
        .summary =
            "Serves the page of 'dsplat export' and prints its address, which holds a random token: who does\n"
            "not know it sees nothing. Open pages follow the scene's file. Ends by Control-C.",
        .examples = "  dsplat view fern.ply --cameras data/fern\n"
                    "  dsplat view fern.ply --listen 127.0.0.1:8080\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    return serve(&options, listen, &why) ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
