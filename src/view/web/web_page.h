/* SPDX-License-Identifier: MIT */
/* The files of the page, embedded at build time (src/view/web/page, by tools/embed). */
#ifndef VIEW_WEB_WEB_PAGE_H
#define VIEW_WEB_WEB_PAGE_H

#include <stddef.h>

struct web_file {
	const char *path; /* "/page.css"; NULL after the last file */
	const char *type;
	const unsigned char *data;
	size_t size;
};

extern const struct web_file web_page[];

#endif
