/* SPDX-License-Identifier: MIT */
/* The files of the page, as they were when this was built (src/view/web/page, by tools/embed). */
#ifndef VIEW_WEB_WEB_PAGE_H
#define VIEW_WEB_WEB_PAGE_H

#include <stddef.h>

struct web_file {
	const char *path; /* "/page.css"; NULL behind the last one */
	const char *type;
	const unsigned char *data;
	size_t size;
};

extern const struct web_file web_page[];

#endif
