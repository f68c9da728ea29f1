// SPDX-License-Identifier: MIT
// TCP between ranks of several hosts. Internal to this folder.
#pragma once

#include "files/fault.h"

// A socket that listens where rank 0 is awaited: at the address, if it is one of this host, else at all of them.
// Connections are accepted without a wait. -1: *why is set.
int rendezvous_listen(const char *address, int port, fault *why);
// Tries until it succeeds or the time is over. -1: *why is set.
int rendezvous_connect(const char *address, int port, double timeout_s, fault *why);
