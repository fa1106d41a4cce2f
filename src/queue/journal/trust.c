/* SPDX-License-Identifier: MIT */
#include "queue/journal/trust.h"

#include <errno.h>
#include <sys/stat.h>

#include "base/error.h"
#include "base/trust.h"

int trust_check(int fd, const char *path, struct gd_error *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0) {
		int code = -errno;
		return error_set(err, code, "cannot look at '%s': %s", path, error_words(code));
	}
	/* /dev/null and terminals: writable for all, but nobody's words stay in them. */
	if (S_ISCHR(st.st_mode))
		return 0;
	const char *objection = trust_objection(fd);
	if (!objection)
		return 0;
	return error_set(err, -EPERM,
		"'%s' %s, who could make this account run anything; use 'chmod go-w' or, if that is meant, --trust",
		path, objection);
}
