// SPDX-License-Identifier: MIT
// Serves one page and what it asks for to browsers, with libmicrohttpd. EXPERIMENTAL.
//
// The page is at http://ADDRESS:PORT/TOKEN/, and what it asks for beside it; nothing is anywhere else. Who does not know
// the token gets nothing. Host must be localhost or an address in numbers, and Origin, if there is one, the same: a page of
// another site cannot ask through its visitor's browser (DNS rebinding). No part of a request becomes a path.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum {
    SERVER_CLIENTS = 16,   // connections at once; others wait
    SERVER_SILENCE = 10,   // seconds without progress after which a connection is closed
    SERVER_REQUESTS = 20,  // per second, of all clients; others get 503
    SERVER_TOKEN_ROOM = 33 // 128 random bits in hexadecimal
};

typedef struct page_server page_server;

typedef struct page_answer {
    const void *bytes;
    size_t count;
    const char *type; // of the contents
    void (*release)(
        void *bytes); // when no client takes the bytes any more; NULL: they stay until page_server_stop
} page_answer;

// The site whose answers the server asks for, from its own thread.
typedef struct page_site {
    // name: "" is the page. post: the request is POST, else GET or HEAD. False: there is nothing of this name. Must not
    // wait for anything long: other clients wait meanwhile.
    bool (*answer)(void *context, const char *name, bool post, page_answer *out);
    void *context;
} page_site;

#define LISTEN_DEFAULT "127.0.0.1:0"
#define LISTEN_OPTION(at)                                                                                    \
    OPTION("listen", at, .free_on_resume = true,                                                             \
           .help =                                                                                           \
               "ADDRESS:PORT of the page's server, in numbers; 0.0.0.0: all addresses; port 0: a free one")

// Answers until page_server_stop, from a thread of its own. listen: "127.0.0.1:0", "[::1]:8080"; port 0: a free one. Fails
// without libmicrohttpd.
page_server *page_server_start(const page_site *site, const char *listen, fault *why);
// The page's URL. Valid until page_server_stop.
const char *page_server_url(const page_server *server);
uint16_t page_server_port(const page_server *server);
// On stdout: the URL, and how to reach it from another machine.
void page_server_print(const page_server *server);
void page_server_stop(page_server *server); // NULL is harmless

C_LINKAGE_END
