/* SPDX-License-Identifier: MIT */
#include "view/web/web_gate.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

/* The name in "name:port" or "[address]:port", including brackets; 0 if it is neither. */
static size_t host_length(const char *host)
{
	size_t n;
	if (host[0] == '[') {
		n = strcspn(host, "]");
		if (!host[n])
			return 0;
		n++;
	} else {
		n = strcspn(host, ":");
	}
	const char *rest = host + n;
	if (*rest == ':' && strspn(rest + 1, "0123456789") != strlen(rest + 1))
		return 0;
	return *rest && *rest != ':' ? 0 : n;
}

static bool is_name(const char *host, size_t size, const char *name)
{
	/* "localhost." is the same name. */
	if (size > 1 && host[size - 1] == '.')
		size--;
	return strlen(name) == size && strncasecmp(host, name, size) == 0;
}

bool web_host_is_named(const char *host, const char *const *names, size_t count)
{
	size_t n = host ? host_length(host) : 0;
	for (size_t i = 0; n > 0 && i < count; i++)
		if (is_name(host, n, names[i]))
			return true;
	return false;
}

static const char site_start[] = "gpuq-", site_end[] = ".localhost";
enum { SITE_DIGITS = 16 };

bool web_host_is_site(const char *host)
{
	size_t n = host ? host_length(host) : 0;
	if (n != sizeof(site_start) - 1 + SITE_DIGITS + sizeof(site_end) - 1)
		return false;
	const char *digits = host + sizeof(site_start) - 1;
	return strncmp(host, site_start, sizeof(site_start) - 1) == 0 &&
	       strspn(digits, "0123456789abcdef") == SITE_DIGITS &&
	       strncmp(digits + SITE_DIGITS, site_end, sizeof(site_end) - 1) == 0;
}

bool web_host_is_plain(const char *host)
{
	static const char *const plain[] = {"localhost", "127.0.0.1", "[::1]"};
	return web_host_is_named(host, plain, sizeof(plain) / sizeof(*plain));
}

bool web_host_allowed(const char *host, const char *const *names, size_t count)
{
	return web_host_is_plain(host) || web_host_is_named(host, names, count);
}

bool web_origin_allowed(const char *origin, const char *host)
{
	if (!origin)
		return true;
	/* https: there is a proxy in front of us. */
	const char *rest = strncmp(origin, "http://", 7) == 0    ? origin + 7
			   : strncmp(origin, "https://", 8) == 0 ? origin + 8
								 : NULL;
	return rest && host && strcasecmp(rest, host) == 0;
}

bool web_site_allowed(const char *site)
{
	return !site || strcmp(site, "same-origin") == 0 || strcmp(site, "none") == 0;
}

bool web_token_given(const char *authorization, const char *token)
{
	if (!authorization || strncasecmp(authorization, "Bearer ", 7) != 0)
		return false;
	const char *given = authorization + 7;
	size_t size = strlen(given), length = strlen(token);
	unsigned char differs = size != length;
	for (size_t i = 0; i < size; i++)
		differs |= (unsigned char)(given[i] ^ token[length ? i % length : 0]);
	return !differs && length > 0;
}

int web_token_make(char ret[WEB_TOKEN_ROOM])
{
	unsigned char bytes[(WEB_TOKEN_ROOM - 1) / 2];
	ssize_t n;
	do
		n = getrandom(bytes, sizeof(bytes), 0);
	while (n < 0 && errno == EINTR);
	if (n != (ssize_t)sizeof(bytes))
		return n < 0 ? -errno : -EIO;
	for (size_t i = 0; i < sizeof(bytes); i++) {
		ret[2 * i] = "0123456789abcdef"[bytes[i] >> 4];
		ret[2 * i + 1] = "0123456789abcdef"[bytes[i] & 15];
	}
	ret[WEB_TOKEN_ROOM - 1] = '\0';
	return 0;
}

int web_site_make(char ret[WEB_SITE_ROOM])
{
	char random[WEB_TOKEN_ROOM];
	int r = web_token_make(random);
	if (r == 0)
		snprintf(ret, WEB_SITE_ROOM, "%s%.*s%s", site_start, SITE_DIGITS, random, site_end);
	return r;
}

bool web_token_usable(const char *token)
{
	size_t n = strlen(token);
	for (size_t i = 0; i < n; i++)
		if (!isalnum((unsigned char)token[i]) && !strchr("-._~", token[i]))
			return false;
	return n >= 16 && n <= 256;
}
