// SPDX-License-Identifier: MIT
#include "live/server.h"
#include <netinet/in.h>
#include <stdio.h>
#include <time.h>

struct page_server {
    page_site site;
    char address[INET6_ADDRSTRLEN], token[SERVER_TOKEN_ROOM], url[128];
    uint16_t port;
    time_t second; // the current one, and its requests
    int requests;
    struct MHD_Daemon *daemon;
};

const char *page_server_url(const page_server *server) {
    return server->url;
}

uint16_t page_server_port(const page_server *server) {
    return server->port;
}

#ifdef DSPLAT_MICROHTTPD
#include <arpa/inet.h>
#include <dlfcn.h>
#include <microhttpd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

// Loaded at run time, as NCCL is: a program that is taken to another machine starts there without it.
// clang-format off
#define FUNCTIONS(X) \
    X(start_daemon) X(stop_daemon) X(get_daemon_info) X(lookup_connection_value) \
    X(create_response_from_buffer) X(create_response_from_buffer_with_free_callback) \
    X(add_response_header) X(queue_response) X(destroy_response)
// clang-format on

static struct {
#define MEMBER(name) __typeof__(MHD_##name) *name;
    FUNCTIONS(MEMBER)
} mhd;

static bool load_library(fault *why) {
    static const char file[] = "libmicrohttpd.so.12";
    static const struct {
        const char *name;
        void *place;
    } functions[] = {
#define ROW(name) {"MHD_" #name, &mhd.name},
        FUNCTIONS(ROW)};
    void *const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
        return fail(why, "the server needs %s, of the package libmicrohttpd12: %s", file, dlerror());
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
        void *const found = dlsym(library, functions[i].name);
        if (!found) return fail(why, "%s has no %s", file, functions[i].name);
        memcpy(functions[i].place, &found, sizeof found);
    }
    return true;
}

// Whether "HOST" or "HOST:PORT" is localhost or an address in numbers. Requests of a site that leads its visitors here (DNS
// rebinding) have the site's name. Any port will do: ssh may forward from another one.
static bool is_number_or_local(const char *text) {
    char host[INET6_ADDRSTRLEN + 2];
    struct in6_addr address;
    const bool brackets = *text == '[';
    const size_t length = brackets ? strcspn(text + 1, "]") : strcspn(text, ":");
    if (length >= sizeof host) return false;
    memcpy(host, text + brackets, length);
    host[length] = '\0';
    if (brackets) return inet_pton(AF_INET6, host, &address) == 1;
    return strcmp(host, "localhost") == 0 || inet_pton(AF_INET, host, &address) == 1;
}

static bool is_own_request(struct MHD_Connection *client) {
    static const char scheme[] = "http://";
    const char *const host = mhd.lookup_connection_value(client, MHD_HEADER_KIND, "Host");
    const char *const origin = mhd.lookup_connection_value(client, MHD_HEADER_KIND, "Origin");
    if (!host || !is_number_or_local(host)) return false;
    return !origin ||
           (strncmp(origin, scheme, strlen(scheme)) == 0 && strcmp(origin + strlen(scheme), host) == 0);
}

// The name after "/TOKEN/", or NULL. Compares all characters, so that the time does not tell how many are right.
static const char *name_of(const page_server *s, const char *path) {
    char own[SERVER_TOKEN_ROOM + 2];
    const int length = snprintf(own, sizeof own, "/%s/", s->token);
    if (strlen(path) < (size_t)length) return NULL;
    int differences = 0;
    for (int i = 0; i < length; i++) differences |= path[i] ^ own[i];
    return differences == 0 ? path + length : NULL;
}

// MHD_HTTP_OK: the site may answer.
static unsigned refuse(page_server *s, struct MHD_Connection *client, const char *path, const char *method) {
    const time_t now = time(NULL);
    if (now != s->second) s->requests = 0;
    s->second = now;
    if (++s->requests > SERVER_REQUESTS) return MHD_HTTP_SERVICE_UNAVAILABLE;
    if (!is_own_request(client)) return MHD_HTTP_FORBIDDEN;
    if (!name_of(s, path)) return MHD_HTTP_NOT_FOUND;
    const bool known = strcmp(method, MHD_HTTP_METHOD_POST) == 0 ||
                       strcmp(method, MHD_HTTP_METHOD_GET) == 0 || strcmp(method, MHD_HTTP_METHOD_HEAD) == 0;
    return known ? MHD_HTTP_OK : MHD_HTTP_METHOD_NOT_ALLOWED;
}

// Called by libmicrohttpd, from one thread and twice for each request. The first call refuses, which ends the connection.
// A body ends it too: no request needs one.
static enum MHD_Result answer(void *context, struct MHD_Connection *client, const char *path,
                              const char *method, const char *version, const char *body, size_t *body_bytes,
                              void **state) {
    (void)version, (void)body;
    page_server *const s = context;
    unsigned status = *state ? MHD_HTTP_OK : refuse(s, client, path, method);
    const char *const text = status == MHD_HTTP_SERVICE_UNAVAILABLE ? "too many requests\n" : "not here\n";
    page_answer out = {text, strlen(text), "text/plain", NULL};
    if (*body_bytes > 0) return MHD_NO;
    if (!*state && status == MHD_HTTP_OK) {
        *state = s;
        return MHD_YES;
    }
    if (*state &&
        !s->site.answer(s->site.context, name_of(s, path), strcmp(method, MHD_HTTP_METHOD_POST) == 0, &out))
        status = MHD_HTTP_NOT_FOUND;
    const char *const headers[][2] = {{"Content-Type", out.type},
                                      {"Cache-Control", "no-store"},
                                      {"Referrer-Policy", "no-referrer"}, // the token is in the address
                                      {"X-Content-Type-Options", "nosniff"},
                                      {"X-Frame-Options", "DENY"},
                                      {"Cross-Origin-Resource-Policy", "same-origin"}};
    void *const bytes = (void *)(uintptr_t)out.bytes;
    struct MHD_Response *const response =
        out.release ? mhd.create_response_from_buffer_with_free_callback(out.count, bytes, out.release)
                    : mhd.create_response_from_buffer(out.count, bytes, MHD_RESPMEM_PERSISTENT);
    if (!response && out.release) out.release(bytes);
    if (!response) return MHD_NO;
    enum MHD_Result done = MHD_YES;
    for (size_t i = 0; i < sizeof headers / sizeof *headers && done == MHD_YES; i++)
        done = mhd.add_response_header(response, headers[i][0], headers[i][1]);
    if (done == MHD_YES) done = mhd.queue_response(client, status, response);
    mhd.destroy_response(response);
    return done;
}

static bool make_token(char token[SERVER_TOKEN_ROOM], fault *why) {
    uint8_t random[(SERVER_TOKEN_ROOM - 1) / 2];
    if (getrandom(random, sizeof random, 0) != (ssize_t)sizeof random)
        return fail(why, "no random numbers for a token");
    for (size_t i = 0; i < sizeof random; i++) snprintf(token + 2 * i, 3, "%02x", random[i]);
    return true;
}

// listen: "ADDRESS:PORT", "[ADDRESS]:PORT".
static bool listen_on(page_server *s, const char *listen, fault *why) {
    const char *const colon = strrchr(listen, ':');
    char *end = NULL;
    const long number = colon ? strtol(colon + 1, &end, 10) : -1;
    const bool brackets = colon && colon > listen + 1 && *listen == '[' && colon[-1] == ']';
    const size_t length = colon ? (size_t)(colon - listen) - 2 * brackets : sizeof s->address;
    if (length >= sizeof s->address || number < 0 || number > 65535 || end == colon + 1 || *end)
        return fail(why, "--listen %s: must be ADDRESS:PORT, such as 127.0.0.1:8080", listen);
    memcpy(s->address, listen + brackets, length);
    const uint16_t port = (uint16_t)number;
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons(port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons(port)};
    const bool is_four = inet_pton(AF_INET, s->address, &four.sin_addr) == 1;
    if (!is_four && inet_pton(AF_INET6, s->address, &six.sin6_addr) != 1)
        return fail(why, "--listen %s: not an address; write it in numbers, such as 127.0.0.1:0", listen);
    const struct sockaddr *const at = is_four ? (const void *)&four : (const void *)&six;
    const unsigned flags =
        MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_AUTO | (is_four ? 0u : (unsigned)MHD_USE_IPv6);
    s->daemon = mhd.start_daemon(flags, port, NULL, NULL, answer, s, MHD_OPTION_SOCK_ADDR, at,
                                 MHD_OPTION_CONNECTION_LIMIT, (unsigned)SERVER_CLIENTS,
                                 MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)SERVER_SILENCE,
                                 MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
    const union MHD_DaemonInfo *const info =
        s->daemon ? mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_BIND_PORT) : NULL;
    if (!info)
        return fail(why, "cannot listen on %s, port %u: in use, or not an address of this machine",
                    s->address, port);
    s->port = info->port;
    snprintf(s->url, sizeof s->url, is_four ? "http://%s:%u/%s/" : "http://[%s]:%u/%s/", s->address, s->port,
             s->token);
    return true;
}

page_server *page_server_start(const page_site *site, const char *listen, fault *why) {
    page_server *const s = calloc(1, sizeof *s);
    if (!s) {
        fail(why, "no memory for a server");
        return NULL;
    }
    s->site = *site;
    if (load_library(why) && make_token(s->token, why) && listen_on(s, listen, why)) return s;
    page_server_stop(s);
    return NULL;
}

void page_server_stop(page_server *server) {
    if (server && server->daemon) mhd.stop_daemon(server->daemon);
    free(server);
}

#else

page_server *page_server_start(const page_site *site, const char *listen, fault *why) {
    (void)site, (void)listen;
    fail(
        why,
        "this program was built without libmicrohttpd, so it has no server; 'dsplat export' writes the same page");
    return NULL;
}

void page_server_stop(page_server *server) {
    (void)server;
}

#endif

void page_server_print(const page_server *server) {
    const unsigned port = page_server_port(server);
    printf("%s\nFrom another machine: ssh -L %u:127.0.0.1:%u THIS-MACHINE, then the same address.\n",
           page_server_url(server), port, port);
    fflush(stdout);
}
