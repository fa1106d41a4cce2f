/* SPDX-License-Identifier: MIT */
/*
 * Access control of the page's server: pure code, decided from the headers of a request before anything else is done
 * with it.
 *
 * Users share machines, so loopback is not private. There are three checks. A foreign name in Host means a foreign page
 * whose name points here (DNS rebinding): refused. A foreign Origin or Sec-Fetch-Site means a foreign page that sends
 * requests through the user's browser: refused. All other requests need the token.
 */
#ifndef VIEW_WEB_WEB_GATE_H
#define VIEW_WEB_WEB_GATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a Host header ("box:8765", "[::1]:8765") names us: localhost, 127.0.0.1, [::1] or one of `names`. The port is
 * not checked: behind `ssh -L 9000:…` it differs.
 */
bool web_host_allowed(const char *host, const char *const *names, size_t count);

/*
 * A host name for one start of the server: "gpuq-", 16 random digits and ".localhost". Browsers resolve such names to
 * loopback without DNS, so a foreign page cannot use one.
 */
#define WEB_SITE_ROOM 32
int web_site_make(char ret[WEB_SITE_ROOM]);
/* Whether a Host header is such a name, of this start or an earlier one, so that an open page finds the next server. */
bool web_host_is_site(const char *host);

/* Whether a Host header is localhost, 127.0.0.1 or [::1]. */
bool web_host_is_plain(const char *host);
/* Whether a Host header is one of `names`. */
bool web_host_is_named(const char *host, const char *const *names, size_t count);

/* Whether an Origin header (NULL: there was none) matches the page of this Host. */
bool web_origin_allowed(const char *origin, const char *host);

/* Whether a Sec-Fetch-Site header (NULL: there was none) means our own page, or no page. */
bool web_site_allowed(const char *site);

/* Whether an Authorization header (or NULL) contains the token; takes constant time for headers of the same length. */
bool web_token_given(const char *authorization, const char *token);

/* 128 random bits as text. 0 or a negative errno value. */
#define WEB_TOKEN_ROOM 33
int web_token_make(char ret[WEB_TOKEN_ROOM]);
/* Whether a user-supplied token is acceptable: 16…256 characters that need no escape in a URL. */
bool web_token_usable(const char *token);

#endif
