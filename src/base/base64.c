/* SPDX-License-Identifier: MIT */
#include "base/base64.h"

#include <errno.h>
#include <stdint.h>

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

void base64_append(struct text *t, const void *data, size_t size)
{
	const unsigned char *p = data;
	for (size_t i = 0; i < size; i += 3) {
		size_t n = size - i < 3 ? size - i : 3;
		uint32_t w = (uint32_t)p[i] << 16;
		if (n > 1)
			w |= (uint32_t)p[i + 1] << 8;
		if (n > 2)
			w |= p[i + 2];
		char out[4] = {digits[w >> 18], digits[w >> 12 & 63], '=', '='};
		if (n > 1)
			out[2] = digits[w >> 6 & 63];
		if (n > 2)
			out[3] = digits[w & 63];
		text_append(t, out, 4);
	}
}

static int digit_value(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '+' ? 62 : c == '/' ? 63 : -1;
}

ssize_t base64_decode(const char *text, size_t size, void *out)
{
	if (size % 4 != 0)
		return -EBADMSG;
	unsigned char *o = out;
	for (size_t i = 0; i < size; i += 4) {
		size_t pad = 0;
		if (i + 4 == size)
			pad = text[i + 2] == '=' && text[i + 3] == '=' ? 2 : text[i + 3] == '=';
		uint32_t w = 0;
		for (size_t k = 0; k < 4; k++) {
			int v = k >= 4 - pad ? 0 : digit_value(text[i + k]);
			if (v < 0)
				return -EBADMSG;
			w = w << 6 | (uint32_t)v;
		}
		if ((pad == 1 && (w & 0xFF)) || (pad == 2 && (w & 0xFFFF)))
			return -EBADMSG;
		*o++ = (unsigned char)(w >> 16);
		if (pad < 2)
			*o++ = (unsigned char)(w >> 8);
		if (pad < 1)
			*o++ = (unsigned char)w;
	}
	return o - (unsigned char *)out;
}
