// SPDX-License-Identifier: MIT
// dsplat view: the page of dsplat export, from a small HTTP server.
#include "commands/command.h"
#include "files/output_file.h"
#include "commands/page_source.h"
#include "live/server.h"
#include "record/signals.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

// The page in memory, for the caller to free().
static char *make_page(const page_options *options, size_t *bytes, fault *why) {
    page_source source = {0};
    page_written written;
    char *page = NULL;
    bool done = page_source_open(&source, options, NULL, why);
    FILE *const stream = done ? memory_stream_open(&page, bytes) : NULL;
    if (done) done = stream && page_print(stream, &source.content, &written, why);
    if (stream && !memory_stream_close(stream))
        done = fail(why, "no memory for the page: %s", strerror(errno));
    if (done) page_source_print(&source, options->scene, &written);
    page_source_close(&source);
    if (done) return page;
    free(page);
    return NULL;
}

typedef struct made_page {
    char *text;
    size_t bytes;
} made_page;

// For page_site.answer.
static bool answer(void *context, const char *name, bool post, page_answer *out) {
    const made_page *const page = context;
    *out = (page_answer){.bytes = page->text, .count = page->bytes, .type = PAGE_TYPE};
    return *name == '\0' && !post;
}

static bool serve(made_page *page, const char *listen, fault *why) {
    stop_request_begin(); // before the thread of the server, which inherits nothing that ends the program
    page_server *const server = page_server_start(&(page_site){answer, page}, listen, why);
    if (server) {
        page_server_print(server);
        printf("Control-C ends it.\n");
        fflush(stdout);
        const struct timespec while_nothing_happens = {.tv_nsec = 100000000};
        while (*stop_request_flag() == 0) nanosleep(&while_nothing_happens, NULL);
    }
    page_server_stop(server);
    stop_request_end();
    return server != NULL;
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
            "not know it sees nothing. Ends by Control-C.",
        .examples = "  dsplat view fern.ply --cameras data/fern\n"
                    "  dsplat view fern.ply --listen 127.0.0.1:8080\n",
        .options = table.rows,
        .positional = 1};
    int code;
    if (!read_command_line(&command, argc, argv, &options.scene, &code)) return code;
    fault why;
    made_page page;
    page.text = make_page(&options, &page.bytes, &why);
    const bool done = page.text && serve(&page, listen, &why);
    free(page.text);
    return done ? EXIT_SUCCESS : report_failure("dsplat", &why);
}
