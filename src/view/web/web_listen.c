/* SPDX-License-Identifier: MIT */
#include "view/web/web_listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/display.h"
#include "base/error.h"
#include "base/trust.h"
#include "base/units.h"

/* Connections that wait to be accepted. All users share these places; the kernel may allow fewer. */
#define WAITING 4096

union address {
	struct sockaddr any;
	struct sockaddr_in v4;
	struct sockaddr_in6 v6;
};

static int wrong(const char *where, struct gd_error *err)
{
	char quoted[DISPLAY_QUOTE_ROOM];
	return error_set(err, -EINVAL,
		"cannot listen on '%s': expected ADDRESS:PORT with a numeric address, like 127.0.0.1:8765 or [::1]:8765, or unix:PATH",
		display_quote(where, quoted));
}

/* Splits at the last colon and removes brackets. */
static int split(const char *where, char host[64], int64_t *ret_port)
{
	const char *colon = strrchr(where, ':');
	if (!colon || units_parse_integer(colon + 1, 0, 65535, ret_port, NULL) < 0)
		return -EINVAL;
	size_t n = (size_t)(colon - where);
	if (n > 1 && where[0] == '[' && where[n - 1] == ']') {
		where++;
		n -= 2;
	} else if (memchr(where, ':', n)) {
		return -EINVAL;
	}
	if (n == 0 || n >= 64)
		return -EINVAL;
	memcpy(host, where, n);
	host[n] = '\0';
	if (strcmp(host, "localhost") == 0)
		strcpy(host, "127.0.0.1");
	return 0;
}

static int parse(const char *where, union address *ret, socklen_t *ret_size)
{
	char host[64];
	int64_t port;
	if (split(where, host, &port) < 0)
		return -EINVAL;
	memset(ret, 0, sizeof(*ret));
	if (inet_pton(AF_INET, host, &ret->v4.sin_addr) == 1) {
		ret->v4.sin_family = AF_INET;
		ret->v4.sin_port = htons((uint16_t)port);
		*ret_size = sizeof(ret->v4);
		return 0;
	}
	if (inet_pton(AF_INET6, host, &ret->v6.sin6_addr) == 1) {
		ret->v6.sin6_family = AF_INET6;
		ret->v6.sin6_port = htons((uint16_t)port);
		*ret_size = sizeof(ret->v6);
		return 0;
	}
	return -EINVAL;
}

static bool is_loopback(const union address *a)
{
	if (a->any.sa_family == AF_INET)
		return ntohl(a->v4.sin_addr.s_addr) >> 24 == 127;
	return IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr);
}

static void describe(const union address *a, struct web_place *ret)
{
	char text[INET6_ADDRSTRLEN] = "";
	bool v4 = a->any.sa_family == AF_INET;
	inet_ntop(a->any.sa_family, v4 ? (const void *)&a->v4.sin_addr : (const void *)&a->v6.sin6_addr, text,
		sizeof(text));
	snprintf(ret->host, sizeof(ret->host), v4 ? "%s" : "[%s]", text);
	snprintf(ret->address, sizeof(ret->address), "http://%s:%u/", ret->host,
		ntohs(v4 ? a->v4.sin_port : a->v6.sin6_port));
	ret->loopback = is_loopback(a);
}

/* Gives the place its own host name. */
static int name_site(struct web_place *place, unsigned port)
{
	int r = web_site_make(place->site);
	if (r < 0)
		return r;
	snprintf(place->address, sizeof(place->address), "http://%s:%u/", place->site, port);
	return 0;
}

/* Whether "localhost" resolves to this address; if so, returns its other address, with the same port. */
static bool other_loopback(const union address *a, union address *ret, socklen_t *ret_size)
{
	memset(ret, 0, sizeof(*ret));
	if (a->any.sa_family == AF_INET && ntohl(a->v4.sin_addr.s_addr) == INADDR_LOOPBACK) {
		ret->v6 = (struct sockaddr_in6){
			.sin6_family = AF_INET6, .sin6_port = a->v4.sin_port, .sin6_addr = in6addr_loopback};
		*ret_size = sizeof(ret->v6);
		return true;
	}
	if (a->any.sa_family == AF_INET6 && IN6_IS_ADDR_LOOPBACK(&a->v6.sin6_addr)) {
		ret->v4 = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = a->v6.sin6_port};
		ret->v4.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		*ret_size = sizeof(ret->v4);
		return true;
	}
	return false;
}

/*
 * Binds the port of the other loopback address without listening: a browser is refused and tries ours next. Without
 * SO_REUSEADDR, so that no other process can share it. *ret_fd is -1 if the machine has no such address.
 */
static int take_guard(const union address *a, socklen_t size, int *ret_fd)
{
	cleanup_(closep) int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd >= 0 && bind(fd, &a->any, size) == 0) {
		*ret_fd = take_fd(&fd);
		return 0;
	}
	if (errno != EAFNOSUPPORT && errno != EADDRNOTAVAIL)
		return -errno;
	*ret_fd = -1;
	return 0;
}

static int bind_tcp(union address *a, socklen_t size, int *ret_fd)
{
	int yes = 1;
	cleanup_(closep) int fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd >= 0 && a->any.sa_family == AF_INET6)
		setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &yes, sizeof(yes));
	if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)) < 0 || bind(fd, &a->any, size) < 0 ||
		listen(fd, WAITING) < 0 || getsockname(fd, &a->any, &size) < 0)
		return -errno;
	*ret_fd = take_fd(&fd);
	return 0;
}

/* One attempt. -EADDRINUSE for a port chosen by the system: its guard port is taken, try another port. */
static int open_place(union address *a, socklen_t size, struct web_place *ret)
{
	union address other;
	socklen_t other_size;
	struct web_place place = {.fd = -1, .guard_fd = -1};
	int r = bind_tcp(a, size, &place.fd);
	if (r < 0)
		return r;
	describe(a, &place);
	if (other_loopback(a, &other, &other_size)) {
		r = take_guard(&other, other_size, &place.guard_fd);
		if (r == 0)
			r = name_site(&place, ntohs(a->any.sa_family == AF_INET ? a->v4.sin_port : a->v6.sin6_port));
	}
	if (r < 0) {
		web_place_close(&place);
		return r;
	}
	*ret = place;
	return 0;
}

static int listen_tcp(const char *where, struct web_place *ret, struct gd_error *err)
{
	enum { TRIES = 16 };
	union address wanted, a;
	socklen_t size;
	if (parse(where, &wanted, &size) < 0)
		return wrong(where, err);
	if (is_loopback(&wanted) && !other_loopback(&wanted, &a, &(socklen_t){0}))
		return error_set(err, -EINVAL,
			"cannot listen on '%s': of the loopback addresses, only 127.0.0.1 and [::1] protect the page from other users; use 127.0.0.1:0 for any free port",
			where);
	bool any_port = (wanted.any.sa_family == AF_INET ? wanted.v4.sin_port : wanted.v6.sin6_port) == 0;
	int r = -EADDRINUSE;
	for (int i = 0; r == -EADDRINUSE && i < (any_port ? TRIES : 1); i++) {
		a = wanted;
		r = open_place(&a, size, ret);
	}
	if (r < 0)
		return error_set(err, r, "cannot listen on '%s': %s%s", where, error_words(r),
			r == -EADDRINUSE ? "; use --listen 127.0.0.1:0 for any free port" : "");
	return 0;
}

/* ---- Unix sockets -------------------------------------------------------------- */

/* Splits off the directory, without symbolic links, and checks it; the caller frees *ret_dir. */
static int find_directory(const char *path, char **ret_dir, const char **ret_name, struct gd_error *err)
{
	const char *slash = strrchr(path, '/');
	const char *name = slash ? slash + 1 : path;
	cleanup_(freep) char *given = slash ? strndup(path, (size_t)(slash - path) + 1) : strdup(".");
	if (!*name || !given)
		return error_set(err, *name ? -ENOMEM : -EINVAL, "cannot listen on 'unix:%s': %s", path,
			*name ? "out of memory" : "the path ends without a file name");
	cleanup_(freep) char *dir = realpath(given, NULL);
	if (!dir)
		return error_set(err, -errno, "cannot listen on 'unix:%s': %s", path, error_words(errno));
	struct gd_error why = {0};
	int r = trust_check_directory(dir, &why);
	if (r < 0)
		return error_set(
			err, r, "cannot listen on 'unix:%s': %s; use a directory of your own", path, why.message);
	*ret_dir = take_ptr(dir);
	*ret_name = name;
	return 0;
}

/* Removes a socket of ours that has no listener. */
static bool remove_stale(const struct sockaddr_un *a)
{
	struct stat st;
	cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (lstat(a->sun_path, &st) < 0 || !S_ISSOCK(st.st_mode) || st.st_uid != geteuid() || fd < 0)
		return false;
	return connect(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 && errno == ECONNREFUSED &&
	       unlink(a->sun_path) == 0;
}

static int bind_unix(int fd, const struct sockaddr_un *a)
{
	mode_t mask = umask(0177);
	int r = bind(fd, (const struct sockaddr *)a, sizeof(*a)) < 0 ? -errno : 0;
	umask(mask);
	return r;
}

static int listen_unix(const char *path, struct web_place *ret, struct gd_error *err)
{
	cleanup_(freep) char *dir = NULL;
	const char *name = NULL;
	struct sockaddr_un a = {.sun_family = AF_UNIX};
	int r = find_directory(path, &dir, &name, err);
	if (r < 0)
		return r;
	if ((size_t)snprintf(a.sun_path, sizeof(a.sun_path), "%s/%s", dir, name) >= sizeof(a.sun_path))
		return error_set(err, -ENAMETOOLONG, "cannot listen on 'unix:%s': the path is too long", path);
	cleanup_(closep) int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	r = fd < 0 ? -errno : bind_unix(fd, &a);
	if (r == -EADDRINUSE && remove_stale(&a))
		r = bind_unix(fd, &a);
	if (r == 0 && listen(fd, 128) < 0) {
		r = -errno;
		unlink(a.sun_path);
	}
	if (r < 0)
		return error_set(err, r, "cannot listen on 'unix:%s': %s", path, error_words(r));
	struct web_place place = {.fd = take_fd(&fd), .guard_fd = -1, .loopback = true, .host = "localhost"};
	memcpy(place.path, a.sun_path, sizeof(place.path));
	r = name_site(&place, WEB_UNIX_PORT);
	if (r < 0) {
		web_place_close(&place);
		return error_set(err, r, "cannot listen on 'unix:%s': %s", path, error_words(r));
	}
	*ret = place;
	return 0;
}

/* ---- Both ---------------------------------------------------------------------- */

int web_listen(const char *where, struct web_place *ret, struct gd_error *err)
{
	const size_t prefix = sizeof(WEB_LISTEN_UNIX) - 1;
	return strncmp(where, WEB_LISTEN_UNIX, prefix) == 0 ? listen_unix(where + prefix, ret, err)
							    : listen_tcp(where, ret, err);
}

void web_place_close(struct web_place *place)
{
	if (place->path[0])
		unlink(place->path);
	place->path[0] = '\0';
	close_fd(&place->fd);
	close_fd(&place->guard_fd);
}

int web_local_name(int fd, char *ret, size_t size)
{
	union address a;
	socklen_t length = sizeof(a);
	if (getsockname(fd, &a.any, &length) < 0)
		return -errno;
	if (a.any.sa_family != AF_INET && a.any.sa_family != AF_INET6)
		return -EAFNOSUPPORT;
	struct web_place place;
	describe(&a, &place);
	snprintf(ret, size, "%s", place.host);
	return 0;
}
