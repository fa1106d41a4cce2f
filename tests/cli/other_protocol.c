/* SPDX-License-Identifier: MIT */
/* Builds a gpuq whose keepers use another protocol, like a gpuq of another version. */
#define KEEPER_PROTOCOL 2
#include "queue/keeper/keeper_protocol.c"
