/* SPDX-License-Identifier: MIT */
/*
 * Foreign text (commands, names, reasons) in a page: it is shown, never interpreted. Characters that would end an
 * element or an attribute become entities; control characters, direction marks and bytes that are not UTF-8 become
 * escapes. The result is valid HTML and XML.
 */
#ifndef VIEW_REPORT_HTML_H
#define VIEW_REPORT_HTML_H

#include <stddef.h>

#include "base/text.h"

/* Between tags or in a quoted attribute; at most max_columns columns (DISPLAY_ALL: all of it). NULL: nothing. */
void html_text(struct text *t, const char *string, size_t max_columns);

#endif
