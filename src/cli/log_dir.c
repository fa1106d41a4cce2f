/* SPDX-License-Identifier: MIT */
#include "cli/log_dir.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

static char *make_absolute(const char *path)
{
	char *joined;
	if (path[0] == '/')
		return strdup(path);
	cleanup_(freep) char *here = getcwd(NULL, 0);
	while (strncmp(path, "./", 2) == 0)
		path += 2;
	if (!here || asprintf(&joined, "%s/%s", strcmp(here, "/") == 0 ? "" : here, path) < 0)
		return NULL;
	return joined;
}

char *log_dir_configured(const struct config *c)
{
	return config_has(c, CONFIG_LOG_DIR) ? make_absolute(c->log_dir) : NULL;
}

char *log_dir_find(const struct config *c, const char *journal_path)
{
	char *path;
	if (config_has(c, CONFIG_LOG_DIR))
		return log_dir_configured(c);
	const char *slash = strrchr(journal_path, '/');
	return asprintf(&path, "%.*s/logs", (int)(slash - journal_path), journal_path) < 0 ? NULL : path;
}
