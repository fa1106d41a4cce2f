/* SPDX-License-Identifier: MIT */
/*
 * Bytes from a worker that outlive their callback and their pool: a copy, or the
 * mapping of a parcel without its descriptor. References are counted, by any thread;
 * the bytes never change.
 */
#ifndef POOL_RESULT_H
#define POOL_RESULT_H

#include "gpu_dispatch.h"
#include "pool/parcel.h"

/* A new result with one reference, which gd_result_free() drops. */
int result_copy(struct gd_bytes bytes, struct gd_result **ret);

/* The same; takes the parcel's mapping over and closes its descriptor. The parcel is empty then, even on failure. */
int result_adopt(struct parcel *parcel, struct gd_result **ret);

/* One more reference. */
struct gd_result *result_hold(struct gd_result *result);

#endif
