/* SPDX-License-Identifier: MIT */
/* Makes a gpuq whose keepers speak another protocol, as one of another version would. */
#define KEEPER_PROTOCOL 2
#include "queue/keeper/keeper_protocol.c"
