// SPDX-License-Identifier: MIT
// How ranks that a launcher has started find each other: one exchange over TCP at MASTER_ADDR. Each tells rank 0 who it is;
// when all have come, rank 0 answers all of them: with NCCL's id, or with why there is none. Then the connections are
// closed: NCCL has its own, and tells when a rank has died. There is no password, as NCCL has none: the port is for the
// cluster alone. MPI is a launcher only: no process calls it.
#include "cli/progress.h"
#include "transport.h"
#include <errno.h>
#include <math.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

// ---- what a launcher tells a process by its environment

enum { DEFAULT_PORT = 29500 }; // torchrun's

// The names of the variables; local_count: ranks of this host; hosts: their number; either may be NULL.
static const struct launcher {
    const char *own, *count, *local, *local_count, *hosts;
} launchers[] = {
    {"RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE", NULL},
    {"OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK",
     "OMPI_COMM_WORLD_LOCAL_SIZE", NULL},
    {"PMI_RANK", "PMI_SIZE", "MPI_LOCALRANKID", "MPI_LOCALNRANKS", NULL},
    // The variables of a step: a batch script has SLURM_PROCID and SLURM_NTASKS, too, and is one process.
    {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_LOCALID", NULL, "SLURM_STEP_NUM_NODES"},
};

static const char *value_of(const char *name) {
    const char *const value = name ? getenv(name) : NULL;
    return value && *value ? value : NULL;
}

// A variable that is not there leaves *out as it is.
static bool read_variable(const char *name, int least, int most, int *out, fault *why) {
    const char *const text = value_of(name);
    if (!text) return true;
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    if (*end || errno || value < least || value > most)
        return fail(why, "%s=%s in the environment: must be a number from %d to %d", name, text, least, most);
    *out = (int)value;
    return true;
}

// Finds the address of rank 0.
static bool find_address(const struct launcher *names, ranks_place *place, fault *why) {
    int local_count = 0, hosts = 0;
    place->port = DEFAULT_PORT;
    if (!read_variable(names->local_count, 1, place->count, &local_count, why) ||
        !read_variable(names->hosts, 1, place->count, &hosts, why) ||
        !read_variable("MASTER_PORT", 1, 65535, &place->port, why))
        return false;
    const bool one_host = local_count == place->count || hosts == 1;
    const char *address = value_of("MASTER_ADDR");
    if (!address && !one_host)
        return fail(
            why,
            "%d ranks (%s) need MASTER_ADDR and MASTER_PORT in the environment: the host of rank 0 and a "
            "free port there",
            place->count, names->count);
    if (!address) address = "localhost";
    if (strlen(address) >= sizeof place->address)
        return fail(why, "MASTER_ADDR in the environment: too long for the name of a host");
    strcpy(place->address, address);
    // torchrun's own store listens at MASTER_PORT then.
    const char *const store = value_of("TORCHELASTIC_USE_AGENT_STORE");
    if (store && strcmp(store, "True") == 0) place->port += place->port < 65535 ? 1 : -1;
    return true;
}

ranks_found ranks_find_place(ranks_place *place, fault *why) {
    for (size_t k = 0; k < sizeof launchers / sizeof *launchers; k++) {
        const struct launcher *const names = &launchers[k];
        if (!value_of(names->own) || !value_of(names->count)) continue;
        *place = (ranks_place){.local = -1};
        if (!read_variable(names->count, 1, RANKS_MAX, &place->count, why)) return RANKS_WRONG;
        if (place->count == 1) continue;
        if (!read_variable(names->own, 0, place->count - 1, &place->own, why) ||
            !read_variable(names->local, 0, place->count - 1, &place->local, why) ||
            !find_address(names, place, why))
            return RANKS_WRONG;
        return RANKS_FOUND;
    }
    return RANKS_NONE;
}

// ---- the exchange

// What a rank tells rank 0, and the answer: there, `rank` is one that cannot be, and why; -1: none.
typedef struct message {
    uint64_t magic; // other programs, versions of the exchange and orders of bytes are refused by it
    uint64_t arguments;
    int32_t rank, count;
    char text[RANKS_TEXT_BYTES];
    char id[RANKS_ID_BYTES];
} message;
static const uint64_t magic = 0x4457522d72616e31;

static void limit(int s, int option, double seconds) {
    const struct timeval most = {(time_t)ceil(seconds), 0};
    setsockopt(s, SOL_SOCKET, option, &most, sizeof most);
}

static int socket_at(const struct addrinfo *at, bool listens) {
    const int one = 1, s = socket(at->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (s < 0) return -1;
    setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one); // of connections that linger
    limit(s, SO_SNDTIMEO, 5);                                  // of connect
    if (listens ? bind(s, at->ai_addr, at->ai_addrlen) == 0 && listen(s, SOMAXCONN) == 0
                : connect(s, at->ai_addr, at->ai_addrlen) == 0)
        return s;
    const int code = errno == EINPROGRESS ? ETIMEDOUT : errno;
    close(s);
    errno = code;
    return -1;
}

// At the first address of the host that has one. address: NULL: all of this host. -1: *reason and errno say why.
static int socket_of(const char *address, int port, bool listens, const char **reason) {
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
        s = socket_at(at, listens);
        if (s < 0) *reason = strerror(errno);
        if (s < 0 && errno == EADDRINUSE) break; // not at another address, where no rank would look
    }
    if (found) freeaddrinfo(found);
    return s;
}

static bool receive(int s, double seconds, message *from) {
    limit(s, SO_RCVTIMEO, seconds);
    return recv(s, from, sizeof *from, MSG_WAITALL) == (ssize_t)sizeof *from && from->magic == magic;
}

// Rank 0: until as many have come as there are, or time is over, which is 5 s after one came that cannot be. Then all are
// answered.
static bool gather(ranks *group, const char id[RANKS_ID_BYTES]) {
    const ranks_plan *const plan = group->plan;
    const ranks_place *const place = plan->place;
    const char *reason = "";
    int sockets[RANKS_MAX], come = 0;
    bool is_here[RANKS_MAX] = {true};
    message to_all = {.magic = magic, .rank = -1}, from;
    memcpy(to_all.id, id, RANKS_ID_BYTES);
    int listening = socket_of(place->address, place->port, true, &reason);
    if (listening < 0 && errno == EADDRNOTAVAIL) // behind an address that is translated
        listening = socket_of(NULL, place->port, true, &reason);
    if (listening < 0)
        return ranks_fail(group,
                          "cannot listen at %s, port %d: %s; MASTER_ADDR must name the host of rank 0, "
                          "MASTER_PORT a free port",
                          place->address, place->port, reason);
    double until = seconds_now() + group->timeout_s, rest;
    while (come + 1 < plan->count && (rest = until - seconds_now()) > 0) {
        limit(listening, SO_RCVTIMEO, rest);
        const int s = accept(listening, NULL, NULL);
        if (s < 0) continue;
        if (!receive(s, 1, &from) || from.rank < 0 ||
            from.rank >= RANKS_MAX) { // a rank says at once who it is
            close(s);
            continue;
        }
        sockets[come++] = s;
        const bool twice = is_here[from.rank];
        is_here[from.rank] = true;
        if (to_all.rank >= 0) continue;
        if (from.arguments != plan->arguments)
            strcpy(to_all.text, "was started with other arguments than rank 0, or is another version");
        else if (from.count != plan->count)
            snprintf(to_all.text, sizeof to_all.text, "was started as one of %d ranks, rank 0 as one of %d",
                     from.count, plan->count);
        else if (twice)
            strcpy(to_all.text, "two processes have this rank");
        else
            continue;
        to_all.rank = from.rank;
        until = fmin(until, seconds_now() + 5);
    }
    close(listening);
    for (int r = 0; r < plan->count && to_all.rank < 0; r++) {
        if (is_here[r]) continue;
        to_all.rank = r;
        snprintf(to_all.text, sizeof to_all.text, "has not come within %g s", group->timeout_s);
    }
    for (int k = 0; k < come; k++) {
        send(sockets[k], &to_all, sizeof to_all, MSG_NOSIGNAL); // one that has died since is missed by NCCL
        close(sockets[k]);
    }
    return to_all.rank < 0 || ranks_fail_as(group, to_all.rank, to_all.text);
}

static bool report(ranks *group, char id[RANKS_ID_BYTES]) {
    const ranks_plan *const plan = group->plan;
    const ranks_place *const place = plan->place;
    const struct timespec pause = {0, 100 * 1000 * 1000};
    const double until = seconds_now() + group->timeout_s;
    const char *reason = "";
    int s;
    while ((s = socket_of(place->address, place->port, false, &reason)) < 0) {
        if (seconds_now() > until)
            return ranks_fail(group,
                              "cannot reach rank 0 at %s, port %d (MASTER_ADDR, MASTER_PORT) within %g s: %s",
                              place->address, place->port, group->timeout_s, reason);
        nanosleep(&pause, NULL);
    }
    const message own = {
        .magic = magic, .arguments = plan->arguments, .rank = place->own, .count = plan->count};
    message got;
    send(s, &own, sizeof own, MSG_NOSIGNAL); // if it fails, so does what follows
    const bool is_answer =
        receive(s, group->timeout_s + 1, &got); // rank 0 waits as long, from an earlier time
    close(s);
    if (!is_answer)
        return ranks_fail_as(group, 0,
                             "does not answer: it has ended, is stopped, or is another program or version");
    got.text[sizeof got.text - 1] = 0;
    if (got.rank >= 0) return ranks_fail_as(group, got.rank, got.text);
    memcpy(id, got.id, RANKS_ID_BYTES);
    return true;
}

bool ranks_exchange_id(ranks *group, char id[RANKS_ID_BYTES]) {
    return group->own == 0 ? gather(group, id) : report(group, id);
}
