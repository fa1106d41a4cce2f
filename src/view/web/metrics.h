/* SPDX-License-Identifier: MIT */
/*
 * A model in the text format of Prometheus: pure code. Names and units follow its conventions: base units, _total for
 * counters. Unknown values are left out, never 0. Counters come from the journal; a prune lowers them, which Prometheus
 * treats as a counter reset.
 */
#ifndef VIEW_WEB_METRICS_H
#define VIEW_WEB_METRICS_H

#include "base/text.h"
#include "view/model/actions.h"
#include "view/model/model.h"

void metrics_put(struct text *t, const struct view_model *m, const struct view_facts *facts, int64_t now_ms);

#endif
