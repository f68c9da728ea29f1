// SPDX-License-Identifier: MIT
// How ranks that a launcher has started find each other: one exchange over TCP at MASTER_ADDR. Each tells rank 0 who it is;
// when all have come, rank 0 answers all of them: with NCCL's id, or with why there is none.
#include "cli/progress.h"
#include "transport.h"
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// Other programs, versions of the exchange and orders of bytes are refused by the first number.
static const uint64_t magic = 0x4457522d72616e31;

typedef struct hello {
    uint64_t magic, arguments;
    int32_t rank, count;
} hello;

typedef struct answer {
    uint64_t magic;
    int32_t failed; // a rank, for the reason of `text`; -1: none
    char text[RANKS_TEXT_BYTES];
    char id[RANKS_ID_BYTES];
} answer;

static int listening_socket(const struct addrinfo *at) {
    const int one = 1, s = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); // of connections that linger
    if (bind(s, at->ai_addr, at->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0) return s;
    const int code = errno;
    close(s);
    errno = code;
    return -1;
}

static void limit(int s, int option, double seconds) {
    const struct timeval most = {(time_t)seconds, (suseconds_t)(1e6 * (seconds - (double)(time_t)seconds))};
    setsockopt(s, SOL_SOCKET, option, &most, sizeof most);
}

static int connected_socket(const struct addrinfo *at) {
    const int s = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    limit(s, SO_SNDTIMEO, 5);
    if (connect(s, at->ai_addr, at->ai_addrlen) == 0) return s;
    const int code = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(s);
    errno = code;
    return -1;
}

// By the first address of the host that has one. address: NULL: all of this host. -1: *reason and errno say why.
static int socket_of(const char *address, int port, int (*make)(const struct addrinfo *),
                     const char **reason) {
    const struct addrinfo hints = {.ai_family = AF_UNSPEC,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_flags = AI_NUMERICSERV | (address ? 0 : AI_PASSIVE)};
    struct addrinfo *found = NULL;
    char service[16];
    int s = -1;
    snprintf(service, sizeof service, "%d", port);
    const int code = getaddrinfo(address, service, &hints, &found);
    if (code != 0) *reason = code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code), errno = 0;
    for (const struct addrinfo *at = found; at && s < 0; at = at->ai_next) {
        s = make(at);
        if (s < 0) *reason = strerror(errno);
        if (s < 0 && errno == EADDRINUSE) break; // not at another address, where no rank would look
    }
    if (found) freeaddrinfo(found);
    return s;
}

// ---- rank 0 ----

// Why a rank that has come cannot be one of the group; "" if it can.
static void check(const ranks_plan *plan, const hello *from, bool is_here, char text[RANKS_TEXT_BYTES]) {
    *text = 0;
    if (from->arguments != plan->arguments)
        strcpy(text, "was started with other arguments than rank 0, or is another version");
    else if (from->count != plan->count)
        snprintf(text, RANKS_TEXT_BYTES, "was started as one of %d ranks, rank 0 as one of %d", from->count,
                 plan->count);
    else if (is_here)
        strcpy(text, "two processes have this rank");
}

// Until as many have come as there are, or time is over, which is 5 s after one came that cannot be. The number of
// sockets to ranks.
static int await_ranks(const ranks_plan *plan, double timeout_s, int listening, int sockets[RANKS_MAX],
                       answer *to_all) {
    double until = seconds_now() + timeout_s;
    bool is_here[RANKS_MAX] = {true};
    int present = 1;
    while (present < plan->count) {
        const double rest = until - seconds_now();
        if (rest <= 0) {
            if (to_all->failed >= 0) break;
            for (to_all->failed = 1; is_here[to_all->failed];) to_all->failed++;
            snprintf(to_all->text, sizeof to_all->text, "has not come within %g s", timeout_s);
            break;
        }
        hello from;
        limit(listening, SO_RCVTIMEO, rest);
        const int s = accept(listening, NULL, NULL);
        if (s < 0) continue;
        limit(s, SO_RCVTIMEO, 1); // a rank says at once who it is
        if (recv(s, &from, sizeof from, MSG_WAITALL) != (ssize_t)sizeof from || from.magic != magic ||
            from.rank < 0 || from.rank >= RANKS_MAX) {
            close(s);
            continue;
        }
        if (to_all->failed < 0) check(plan, &from, is_here[from.rank], to_all->text);
        if (to_all->failed < 0 && *to_all->text) {
            to_all->failed = from.rank;
            until = fmin(until, seconds_now() + 5);
        }
        is_here[from.rank] = true;
        sockets[present++ - 1] = s;
    }
    return present - 1;
}

static bool gather(ranks *group, const ranks_plan *plan, const char id[RANKS_ID_BYTES]) {
    const ranks_place *const place = plan->place;
    const char *reason = "";
    int sockets[RANKS_MAX];
    answer to_all = {.magic = magic, .failed = -1};
    memcpy(to_all.id, id, RANKS_ID_BYTES);
    int listening = socket_of(place->address, place->port, listening_socket, &reason);
    if (listening < 0 && errno == EADDRNOTAVAIL) // behind an address that is translated
        listening = socket_of(NULL, place->port, listening_socket, &reason);
    if (listening < 0)
        return ranks_fail(group,
                          "cannot listen at %s, port %d: %s; MASTER_ADDR must name the host of rank 0, "
                          "MASTER_PORT a free port",
                          place->address, place->port, reason);
    const int count = await_ranks(plan, group->timeout_s, listening, sockets, &to_all);
    close(listening);
    for (int k = 0; k < count; k++) {
        send(sockets[k], &to_all, sizeof to_all, MSG_NOSIGNAL); // one that has died since is missed by NCCL
        close(sockets[k]);
    }
    return to_all.failed < 0 || ranks_fail_as(group, to_all.failed, to_all.text);
}

// ---- the others ----

static bool report(ranks *group, const ranks_plan *plan, char id[RANKS_ID_BYTES]) {
    const ranks_place *const place = plan->place;
    const struct timespec pause = {0, 100 * 1000 * 1000};
    const double until = seconds_now() + group->timeout_s;
    const char *reason = "";
    int s;
    while ((s = socket_of(place->address, place->port, connected_socket, &reason)) < 0) {
        if (seconds_now() > until)
            return ranks_fail(group,
                              "cannot reach rank 0 at %s, port %d (MASTER_ADDR, MASTER_PORT) within %g s: %s",
                              place->address, place->port, group->timeout_s, reason);
        nanosleep(&pause, NULL);
    }
    const hello own = {magic, plan->arguments, place->own, plan->count};
    answer got = {0};
    limit(s, SO_RCVTIMEO, group->timeout_s + 1); // rank 0 waits as long, from an earlier time
    send(s, &own, sizeof own, MSG_NOSIGNAL);     // if it fails, so does what follows
    const ssize_t bytes = recv(s, &got, sizeof got, MSG_WAITALL);
    close(s);
    if (bytes != (ssize_t)sizeof got || got.magic != magic)
        return ranks_fail_as(group, 0,
                             bytes > 0 ? "what answers at its address is another program, or another version "
                                         "of this one"
                                       : "does not answer: it has ended, is stopped, or is another program");
    got.text[sizeof got.text - 1] = 0;
    if (got.failed >= 0) return ranks_fail_as(group, got.failed, got.text);
    memcpy(id, got.id, RANKS_ID_BYTES);
    return true;
}

bool ranks_exchange_id(ranks *group, const ranks_plan *plan, char id[RANKS_ID_BYTES]) {
    return group->own == 0 ? gather(group, plan, id) : report(group, plan, id);
}
