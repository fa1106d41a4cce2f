/* SPDX-License-Identifier: MIT */
#include "outbox.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

struct outbox *outbox_find(void)
{
	FILE *f = fopen("/proc/self/maps", "re");
	if (!f)
		_exit(90);
	char line[512];
	void *found = NULL;
	while (fgets(line, sizeof(line), f)) {
		unsigned long from;
		char mode[8];
		if (strstr(line, "gd-") == NULL || sscanf(line, "%lx-%*x %7s", &from, mode) != 2)
			continue;
		if (strstr(line, "gd-outbox") && mode[1] == 'w' && !found)
			found = (void *)from;
		else if (mode[1] == 'w')
			_exit(91); /* another worker's, or its inbox */
	}
	fclose(f);
	if (!found)
		_exit(92);
	return found;
}

void outbox_publish(struct outbox *out, struct ring_desc desc)
{
	uint64_t head = atomic_load(&out->head);
	*ring_at(outbox_descs(out), head) = desc;
	atomic_store(&out->head, head + 1);
}
