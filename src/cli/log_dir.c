/* SPDX-License-Identifier: MIT */
#include "cli/log_dir.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/file.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"
#include "cli/say.h"

/* Resolves links of the user and root now: keepers follow no link that another user puts there later. */
static char *resolve(const char *path)
{
	char target[PATH_MAX];
	cleanup_(closep) int fd = -1;
	if (trust_open_directory(path, false, &fd, NULL) < 0)
		return NULL;
	/* The path of the descriptor: another user may have replaced a component of the given path. */
	return file_path(fd, target) == 0 ? strdup(target) : NULL;
}

static char *make_absolute(const char *path)
{
	char *joined = resolve(path);
	if (joined)
		return joined;
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

int log_dir_check(const struct queue_choice *q, const char *path, struct gd_error *err)
{
	struct gd_error why = {0};
	cleanup_(closep) int fd = -1;
	if (q->trust || config_has(&q->config, CONFIG_LOG_DIR))
		return 0;
	int r = trust_open_directory(path, false, &fd, &why);
	const char *objection = r == 0 ? trust_objection(fd) : NULL;
	/* A directory that cannot be opened is reported with the first job. */
	if (r != -EPERM && !objection)
		return 0;
	return trust_refuse_path(path, false, "name another directory with --log-dir", err,
		"refusing to write logs to '%s': %s%s", path, objection ? "it " : "",
		objection ? objection : why.message);
}

void log_dir_note_access(const struct config *c, const char *path)
{
	struct stat st;
	cleanup_(closep) int fd = -1;
	cleanup_(text_finish) struct text quoted = {0};
	/*
	 * Prints no advice about a link, which may come from an archive or a git repository and lead elsewhere, nor
	 * about a folder that another user could replace with such a link. Only the x bit is required: with it, others
	 * can open a log whose name they know.
	 */
	mode_t needed = c->log_access == LOG_ACCESS_ALL ? 0011 : 0010;
	bool is_narrow = c->log_access != LOG_ACCESS_OWNER && lstat(path, &st) == 0 && S_ISDIR(st.st_mode) &&
			 trust_is_user(st.st_uid) && (st.st_mode & needed) != needed &&
			 trust_open_directory(path, true, &fd, NULL) == 0;
	if (!is_narrow)
		return;
	shell_quote(&quoted, path, strlen(path));
	say("log_access has no effect, because others cannot open the log folder, which keeps its mode: run chmod %s %s",
		c->log_access == LOG_ACCESS_ALL ? "go+rx" : "g+rx", text_string(&quoted));
}
