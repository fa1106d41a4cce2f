/* SPDX-License-Identifier: MIT */
/* Whether somebody else could have written what we are about to execute. */
#ifndef QUEUE_JOURNAL_TRUST_H
#define QUEUE_JOURNAL_TRUST_H

#include "gpu_dispatch.h"

/*
 * 0 if the open file belongs to us or root and no other user can write it; else
 * -EPERM with the words, which name `path` and --trust. Being writable for one's
 * own private group (umask 002) is no objection; an access list is.
 */
int trust_check(int fd, const char *path, struct gd_error *err);

#endif
