/* SPDX-License-Identifier: MIT */
/*
 * What a later runner has seen of a job whose keeper it did not start: it has no socket to it, so it writes that into
 * the keeper's own file, keepers/NAME, and the keeper reads it when it needs it.
 */
#ifndef QUEUE_KEEPER_KEEPER_NEWS_H
#define QUEUE_KEEPER_KEEPER_NEWS_H

#include <stdbool.h>
#include <stdint.h>

struct keeper_news {
	uint64_t id;
	uint32_t attempt;    /* news of another one are none */
	int64_t peak_mem_mb; /* -1: not known */
	bool gpu_full;
	bool gpu_lost;
};

/* -ENOENT where the keeper has left. */
int keeper_news_write(int dir_fd, const char *keeper, const struct keeper_news *news);
/* From the keeper's own descriptor: another one, closed, would give up its lock. -ENOENT: nobody has written any. */
int keeper_news_read(int fd, struct keeper_news *ret);

#endif
