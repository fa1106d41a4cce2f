/* SPDX-License-Identifier: MIT */
/* Which machine this is. */
#ifndef BASE_MACHINE_H
#define BASE_MACHINE_H

/* A PID is valid on one machine, in one boot and in one PID namespace. PIDs can be compared if all three are equal. */
struct machine {
	char host[65];
	char boot[37];
	char pidns[24]; /* distinguishes machines and boots if there is no boot id */
};

int machine_get(struct machine *ret);

#endif
