/* SPDX-License-Identifier: MIT */
#include "pool/brief.h"

#include <errno.h>

void brief_write(struct inbox *in, const struct brief *numbers)
{
	struct brief *b = (struct brief *)in->brief;
	*b = *numbers;
	b->size = sizeof(*b);
}

int brief_read(const struct inbox *in, const struct brief **ret)
{
	const struct brief *b = (const struct brief *)in->brief;
	if (b->size != sizeof(*b))
		return -EPROTO;
	*ret = b;
	return 0;
}
