// SPDX-License-Identifier: MIT
#include "rendezvous.h"
#include "transport.h"
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

static struct addrinfo *look_up(const char *address, int port, int flags, const char **reason) {
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char service[16];
    snprintf(service, sizeof service, "%d", port);
    const int code = getaddrinfo(address, service, &hints, &found);
    if (code == 0) return found;
    *reason = code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code);
    return NULL;
}

static int try_to_listen(const struct addrinfo *at) {
    const int one = 1, s = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); // of connections that linger
    if (bind(s, at->ai_addr, at->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0) return s;
    const int code = errno;
    close(s);
    errno = code;
    return -1;
}

static int listen_at(const char *address, int port, int flags, const char **reason) {
    struct addrinfo *const found = look_up(address, port, flags, reason);
    int s = -1;
    for (const struct addrinfo *at = found; at && s < 0; at = at->ai_next) {
        s = try_to_listen(at);
        if (s >= 0) break;
        *reason = strerror(errno);
        if (errno == EADDRINUSE) break; // not at another of the addresses, where no rank would find it
    }
    if (found) freeaddrinfo(found);
    return s;
}

int rendezvous_listen(const char *address, int port, fault *why) {
    const char *reason = "";
    int s = listen_at(address, port, 0, &reason);
    // Behind an address that is translated.
    if (s < 0 && errno == EADDRNOTAVAIL) s = listen_at(NULL, port, AI_PASSIVE, &reason);
    if (s >= 0) return s;
    fail(
        why,
        "cannot listen at %s, port %d: %s; MASTER_ADDR must name the host of rank 0, MASTER_PORT a free port",
        address, port, reason);
    return -1;
}

// Within ms milliseconds. -1: errno says why.
static int try_to_connect(const struct addrinfo *at, int ms) {
    const int one = 1, s = socket(at->ai_family, at->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (s < 0) return -1;
    int code = connect(s, at->ai_addr, at->ai_addrlen) == 0 ? 0 : errno;
    if (code == EINPROGRESS) {
        struct pollfd wanted = {.fd = s, .events = POLLOUT};
        socklen_t size = sizeof code;
        if (poll(&wanted, 1, ms) != 1)
            code = ETIMEDOUT;
        else if (getsockopt(s, SOL_SOCKET, SO_ERROR, &code, &size) != 0)
            code = errno;
    }
    if (code == 0) {
        setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
        return s;
    }
    close(s);
    errno = code;
    return -1;
}

static int connect_once(const char *address, int port, int ms, const char **reason) {
    struct addrinfo *const found = look_up(address, port, 0, reason);
    int s = -1;
    for (const struct addrinfo *at = found; at && s < 0; at = at->ai_next) {
        s = try_to_connect(at, ms);
        if (s < 0) *reason = strerror(errno);
    }
    if (found) freeaddrinfo(found);
    return s;
}

int rendezvous_connect(const char *address, int port, double timeout_s, fault *why) {
    const double until = seconds_now() + timeout_s;
    const struct timespec pause = {0, 100 * 1000 * 1000};
    const char *reason = "";
    for (;;) {
        const double rest = until - seconds_now();
        const int s = connect_once(address, port, rest < 5 ? (int)(1000 * rest) + 1 : 5000, &reason);
        if (s >= 0) return s;
        if (seconds_now() > until) break;
        nanosleep(&pause, NULL);
    }
    fail(why, "cannot reach rank 0 at %s, port %d (MASTER_ADDR, MASTER_PORT) within %g s: %s", address, port,
         timeout_s, reason);
    return -1;
}
