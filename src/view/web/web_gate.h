/* SPDX-License-Identifier: MIT */
/*
 * Who may ask the page's server for what: pure code, decided from the headers of
 * a request before anything else is done with it.
 *
 * Our users share their boxes, so loopback is not private. Three walls: a name
 * that is not ours in Host is a foreign page that let its own name point here
 * (DNS rebinding); a foreign Origin or Sec-Fetch-Site is a foreign page that asks
 * through the user's browser; and whoever remains needs the token.
 */
#ifndef VIEW_WEB_WEB_GATE_H
#define VIEW_WEB_WEB_GATE_H

#include <stdbool.h>
#include <stddef.h>

/*
 * Whether a Host header ("box:8765", "[::1]:8765") names us: localhost, 127.0.0.1, [::1] or one of `names`. The port
 * is not looked at: behind `ssh -L 9000:…` it is another.
 */
bool web_host_allowed(const char *host, const char *const *names, size_t count);

/*
 * A host name for one start of the server: "gpuq-", 16 random digits and ".localhost". Browsers resolve such names to
 * loopback and ask nobody for them, so no foreign page can have one.
 */
#define WEB_SITE_ROOM 32
int web_site_make(char ret[WEB_SITE_ROOM]);
/* Whether a Host header is such a name, of this start or an earlier one: a page that is still open finds the next
 * server. */
bool web_host_is_site(const char *host);

/* Whether a Host header is localhost, 127.0.0.1 or [::1]. */
bool web_host_is_plain(const char *host);
/* Whether a Host header is one of `names`. */
bool web_host_is_named(const char *host, const char *const *names, size_t count);

/* Whether an Origin header (NULL: there was none) is that of the page that this Host serves. */
bool web_origin_allowed(const char *origin, const char *host);

/* Whether a Sec-Fetch-Site header (NULL: there was none) tells of our own page, or of no page at all. */
bool web_site_allowed(const char *site);

/* Whether an Authorization header (or NULL) brings the token; takes as long for any header of the same length. */
bool web_token_given(const char *authorization, const char *token);

/* 128 random bits as text. 0 or a negative errno value. */
#define WEB_TOKEN_ROOM 33
int web_token_make(char ret[WEB_TOKEN_ROOM]);
/* Whether somebody's own token will do: 16…256 characters that need no escape in an address. */
bool web_token_usable(const char *token);

#endif
