/* SPDX-License-Identifier: MIT */
/* A separate file: the tests link it with another number to simulate another build of gpuq. */
#include "queue/keeper/keeper_messages.h"

#ifndef KEEPER_PROTOCOL
#define KEEPER_PROTOCOL 1
#endif

const int32_t keeper_protocol = KEEPER_PROTOCOL;
