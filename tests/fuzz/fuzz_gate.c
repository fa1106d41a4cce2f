/* SPDX-License-Identifier: MIT */
/*
 * Any headers of a request: the web server's gate admits only requests that name this host, come from its own page and
 * contain the token.
 *
 * Input: Host, Origin, Sec-Fetch-Site, Authorization and Range, a line each.
 */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "fuzz.h"
#include "view/web/web_gate.h"
#include "view/web/web_range.h"

#define TOKEN "0123456789abcdef0123456789abcdef"

/* An independent implementation of the rules: a name, a dot after it unless in brackets, a colon and digits. */
static int names_us(const char *host)
{
	static const char *const names[] = {"localhost", "127.0.0.1", "[::1]", "box.example"};
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++) {
		size_t n = strlen(names[i]);
		if (strncasecmp(host, names[i], n) != 0)
			continue;
		const char *rest = host + n;
		if (*rest == '.' && *host != '[')
			rest++;
		if (*rest == ':')
			rest += 1 + strspn(rest + 1, "0123456789");
		if (!*rest)
			return 1;
	}
	return 0;
}

static int is_own_page(const char *origin, const char *host)
{
	size_t n = strlen(origin), length = strlen(host);
	return n > length && strcasecmp(origin + n - length, host) == 0 &&
	       ((n - length == 7 && !memcmp(origin, "http://", 7)) ||
		       (n - length == 8 && !memcmp(origin, "https://", 8)));
}

static void check_range(const char *header)
{
	uint64_t from, to;
	if (web_range_parse(header, 1000, 100, &from, &to) == 0)
		FUZZ_CHECK(from <= to && to <= 1000 && to - from <= 100);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char *const names[] = {"box.example"};
	char *text = malloc(size + 1), *rest = text;
	FUZZ_CHECK(text);
	memcpy(text, data, size);
	text[size] = '\0';
	const char *header[5];
	for (int i = 0; i < 5; i++)
		header[i] = rest ? strsep(&rest, "\n") : NULL;

	const char *host = header[0], *origin = header[1], *site = header[2], *authorization = header[3];
	FUZZ_CHECK(web_host_allowed(host, names, 1) == (names_us(host) != 0));
	FUZZ_CHECK(web_origin_allowed(origin, host) == (!origin || is_own_page(origin, host)));
	FUZZ_CHECK(web_site_allowed(site) == (!site || !strcmp(site, "none") || !strcmp(site, "same-origin")));
	int given = authorization && !strncasecmp(authorization, "Bearer ", 7) && !strcmp(authorization + 7, TOKEN);
	FUZZ_CHECK(web_token_given(authorization, TOKEN) == (given != 0));
	if (authorization && web_token_usable(authorization))
		FUZZ_CHECK(strlen(authorization) >= 16 && !strpbrk(authorization, " /?#&%"));
	if (header[4])
		check_range(header[4]);
	free(text);
	return 0;
}
