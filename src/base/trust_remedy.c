/* SPDX-License-Identifier: MIT */
/* Advice on a path that does not pass the checks: trust_remedy(). */
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <limits.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/error.h"
#include "base/shell_words.h"
#include "base/text.h"
#include "base/trust.h"
#include "base/trust_private.h"

/* Callers may put words before the message, such as "cannot start a runner: ". */
#define CALLER_ROOM 48

/* What the path needs. */
struct remedy {
	struct text modes;  /* the user's files and directories whose modes let others write */
	struct text lists;  /* the same with access lists */
	struct text shares; /* the user's directory at the end of the path, if its default access list is all that is
			       wrong */
	struct text sticky; /* directories of root that need the sticky bit */
	struct text shared; /* a directory for many users, in which the user needs a directory */
	bool everybody;     /* one of `modes` can be written by everybody */
	gid_t group;        /* of the first of `modes` */
	bool is_foreign;    /* something belongs to `owner`, or cannot be examined */
	uid_t owner;        /* TRUST_SEVERAL_USERS: unknown */
	bool is_hopeless;   /* none of these helps */
};

static void remedy_finish(struct remedy *m)
{
	text_finish(&m->modes);
	text_finish(&m->lists);
	text_finish(&m->shares);
	text_finish(&m->sticky);
	text_finish(&m->shared);
}

static void add_word(struct text *t, const char *path)
{
	text_append_char(t, ' ');
	shell_quote(t, path, strlen(path));
}

/* A file or directory of the user. */
static void note_own(struct remedy *m, int fd, const struct stat *st, const char *path)
{
	bool by_list = !(st->st_mode & S_IWOTH) && trust_has_access_list(fd);
	if (!by_list && !m->modes.length)
		m->group = st->st_gid;
	m->everybody = m->everybody || st->st_mode & S_IWOTH;
	add_word(by_list ? &m->lists : &m->modes, path);
}

/* How near a component is to the end of the path. */
enum nearness {
	NEAR_END,    /* the file or directory itself */
	NEAR_PARENT, /* the directory of a file that is used because of its name */
	NEAR_ABOVE,
};

/*
 * A sticky directory, or one of root above the path: many users are meant to write to it, so the advice is not to
 * exclude them. The sticky bit helps for what is below it, but not for its own entries.
 */
static void note_shared(struct remedy *m, const struct stat *st, const char *path, enum nearness near)
{
	if (!S_ISDIR(st->st_mode)) {
		m->is_hopeless = true;
		return;
	}
	if (!(st->st_mode & S_ISVTX))
		add_word(&m->sticky, path);
	if (near != NEAR_ABOVE)
		add_word(&m->shared, path);
}

static void note(struct remedy *m, const char *path, enum nearness near)
{
	struct stat st;
	cleanup_(closep) int fd = open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0) {
		m->is_hopeless = true;
		return;
	}
	bool is_own = trust_is_user(st.st_uid), is_sticky = S_ISDIR(st.st_mode) && st.st_mode & S_ISVTX;
	if (!(near == NEAR_ABOVE ? trust_objection_above(fd) : trust_objection(fd))) {
		if (near == NEAR_END && is_own && S_ISDIR(st.st_mode) && trust_objection_to_new_files(fd))
			add_word(&m->shares, path);
		return;
	}
	if (is_own && !is_sticky && (st.st_uid != 0 || near != NEAR_ABOVE)) {
		note_own(m, fd, &st, path);
	} else if (is_own || st.st_uid == 0) {
		note_shared(m, &st, path, near);
	} else {
		m->owner = m->is_foreign && m->owner != st.st_uid ? TRUST_SEVERAL_USERS : st.st_uid;
		m->is_foreign = true;
	}
}

/* Shortens the path to its directory; false: it is the root. */
static bool go_up(char *path)
{
	char *slash = strrchr(path, '/');
	if (!slash || !path[1])
		return false;
	slash[slash == path] = '\0';
	return true;
}

/* The path without links and "..". If the file is missing, the path of the nearest directory above that exists. */
static char *find_real(const char *path, bool *ret_missing)
{
	char *real = realpath(path, NULL);
	*ret_missing = !real && errno == ENOENT;
	if (!*ret_missing)
		return real;
	cleanup_(freep) char *above = NULL;
	if (asprintf(&above, "%s%s", path[0] == '/' ? "" : "./", path) < 0) {
		above = NULL;
		return NULL;
	}
	while (!real && errno == ENOENT && go_up(above))
		real = realpath(above, NULL);
	return real;
}

static void examine(struct remedy *m, char *path, bool by_name, bool missing)
{
	enum nearness near = !missing ? NEAR_END : by_name ? NEAR_PARENT : NEAR_ABOVE;
	do {
		note(m, path, near);
		near = near == NEAR_END && by_name ? NEAR_PARENT : NEAR_ABOVE;
	} while (go_up(path));
}

static void put_own(struct text *t, const struct remedy *m)
{
	char room[4096];
	struct group gr, *group = NULL;
	if (m->lists.length || m->shares.length || m->modes.length)
		text_append_string(t, "check its content, then run ");
	if (m->lists.length)
		text_appendf(t, "setfacl -b%s", text_string(&m->lists));
	if (m->shares.length)
		text_appendf(t, "%ssetfacl -k%s", m->lists.length ? ", run " : "", text_string(&m->shares));
	if (!m->modes.length)
		return;
	text_appendf(t, "%schmod %s%s", m->lists.length || m->shares.length ? ", run " : "",
		m->everybody ? "go-w" : "g-w", text_string(&m->modes));
	if (!m->everybody && getgrgid_r(m->group, &gr, room, sizeof(room), &group) == 0 && group)
		text_appendf(t, " to exclude group '%s'", group->gr_name);
}

static void put(struct text *t, const struct remedy *m)
{
	char room[4096];
	struct passwd pw, *user = NULL;
	if (m->is_hopeless)
		return;
	if (m->is_foreign) {
		/* Typical of a container, in which root uses the directory of a user. */
		bool is_known = geteuid() == 0 && m->owner != TRUST_SEVERAL_USERS &&
				getpwuid_r(m->owner, &pw, room, sizeof(room), &user) == 0;
		if (is_known && user)
			text_appendf(t, "run this as user '%s'", user->pw_name);
		else if (is_known)
			text_appendf(t, "run this as the user with the id %u", (unsigned)m->owner);
		return;
	}
	put_own(t, m);
	if (m->sticky.length)
		text_appendf(t, "%s%s chmod +t%s", t->length ? ", " : "",
			geteuid() == 0 ? "run" : "ask the administrator to run", text_string(&m->sticky));
	if (m->shared.length)
		text_appendf(
			t, "%suse a directory of your own in%s", t->length ? " and " : "", text_string(&m->shared));
}

const char *trust_remedy(const char *path, bool by_name, char ret[TRUST_REMEDY_SIZE])
{
	cleanup_(remedy_finish) struct remedy m = {0};
	cleanup_(text_finish) struct text t = {0};
	bool missing;
	cleanup_(freep) char *real = find_real(path, &missing);
	*ret = '\0';
	if (!real)
		return ret;
	examine(&m, real, by_name, missing);
	put(&t, &m);
	/* An incomplete command would be dangerous. */
	if (t.length && !text_error(&t) && t.length + sizeof(", or ") <= TRUST_REMEDY_SIZE)
		snprintf(ret, TRUST_REMEDY_SIZE, "%s, or ", text_string(&t));
	return ret;
}

int trust_refuse_path(
	const char *path, bool by_name, const char *alternatives, struct gd_error *err, const char *reason, ...)
{
	char remedy[TRUST_REMEDY_SIZE];
	struct gd_error why;
	va_list args;
	va_start(args, reason);
	error_vset(&why, -EPERM, reason, args);
	va_end(args);
	size_t before = strlen(why.message) + strlen("; ");
	bool fits = before + strlen(trust_remedy(path, by_name, remedy)) + CALLER_ROOM < sizeof(why.message);
	return error_set(err, -EPERM, "%s; %s%s", why.message, fits ? remedy : "", alternatives);
}
