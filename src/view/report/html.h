/* SPDX-License-Identifier: MIT */
/*
 * Text from elsewhere (commands, names, reasons) in a page: it is shown, never
 * understood. What would end an element or an attribute is an entity, what a terminal
 * must not see (control characters, direction marks, bytes that are not UTF-8) is an escape.
 * The result is good HTML and good XML.
 */
#ifndef VIEW_REPORT_HTML_H
#define VIEW_REPORT_HTML_H

#include <stddef.h>

#include "base/text.h"

/* Between tags or in a quoted attribute; at most max_columns columns (DISPLAY_ALL: all of it). NULL: nothing. */
void html_text(struct text *t, const char *string, size_t max_columns);

#endif
