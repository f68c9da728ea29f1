// SPDX-License-Identifier: MIT
// Serves one page to browsers, with libmicrohttpd. EXPERIMENTAL.
//
// The page is at http://ADDRESS:PORT/TOKEN/, and nothing is anywhere else. Who does not know the token gets nothing. Host
// must be localhost or an address in numbers, and Origin, if there is one, the same: a page of another site cannot ask
// through its visitor's browser (DNS rebinding). No part of a request becomes a path.
#pragma once

#include "files/fault.h"
#include <stddef.h>
#include <stdint.h>

C_LINKAGE_BEGIN

enum {
    SERVER_CLIENTS = 16,   // connections at once; others wait
    SERVER_SILENCE = 10,   // seconds without progress after which a connection is closed
    SERVER_REQUESTS = 20,  // a second, of all clients; others get 503
    SERVER_TOKEN_ROOM = 33 // 128 random bits in hexadecimal
};

typedef struct page_server page_server;

// Serves `page` until page_server_stop, from a thread of its own. page: [bytes], unchanged meanwhile. address: numeric, IPv4
// or IPv6. port: 0: a free one. Fails without libmicrohttpd.
page_server *page_server_start(const char *page, size_t bytes, const char *address, uint16_t port,
                               fault *why);
// The page's URL. Valid until page_server_stop.
const char *page_server_url(const page_server *server);
uint16_t page_server_port(const page_server *server);
void page_server_stop(page_server *server); // NULL is harmless

C_LINKAGE_END
