/* SPDX-License-Identifier: MIT */
/*
 * A model in the text format of Prometheus: pure code. Names and units follow its
 * conventions: base units, _total for what only grows. What is not known is left out:
 * unknown is never 0. Counters are those of the journal; a prune lowers them, which
 * Prometheus takes as the restart of a counter.
 */
#ifndef VIEW_WEB_METRICS_H
#define VIEW_WEB_METRICS_H

#include "base/text.h"
#include "view/model/actions.h"
#include "view/model/model.h"

void metrics_put(struct text *t, const struct view_model *m, const struct view_facts *facts, int64_t now_ms);

#endif
