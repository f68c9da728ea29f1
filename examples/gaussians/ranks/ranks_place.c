// SPDX-License-Identifier: MIT
// What a launcher tells a process by its environment. MPI is a launcher only: no process calls it.
#include "ranks.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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
static bool read_number(const char *name, int least, int most, int *out, fault *why) {
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
    if (!read_number(names->local_count, 1, place->count, &local_count, why) ||
        !read_number(names->hosts, 1, place->count, &hosts, why) ||
        !read_number("MASTER_PORT", 1, 65535, &place->port, why))
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
        if (!read_number(names->count, 1, RANKS_MAX, &place->count, why)) return RANKS_WRONG;
        if (place->count == 1) continue;
        if (!read_number(names->own, 0, place->count - 1, &place->own, why) ||
            !read_number(names->local, 0, place->count - 1, &place->local, why) ||
            !find_address(names, place, why))
            return RANKS_WRONG;
        return RANKS_FOUND;
    }
    return RANKS_NONE;
}
