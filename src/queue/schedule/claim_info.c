/* SPDX-License-Identifier: MIT */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/units.h"
#include "queue/schedule/claims.h"

/*
 * A claim's file: "gpuq-claim 1", then a line per field, "name value", and finally "sum" with the
 * checksum of everything before it, because the file is rewritten in place and may be read half old,
 * half new. It is padded with newlines, so that an update has the same length. Unknown names are
 * ignored, for later versions; anything else is rejected.
 */
#define HEADER "gpuq-claim 1"
#define BLOCK  512

static uint64_t checksum(const char *data, size_t size)
{
	uint64_t sum = UINT64_C(14695981039346656037);
	for (size_t i = 0; i < size; i++)
		sum = (sum ^ (unsigned char)data[i]) * UINT64_C(1099511628211);
	return sum;
}

/* Whether a string has only characters allowed in a key: keys are separated by spaces, and shown in other users'
 * terminals. */
static bool is_word(const char *s, size_t room)
{
	size_t n = strnlen(s, room);
	if (n == 0 || n == room)
		return false;
	for (size_t i = 0; i < n; i++)
		if (s[i] <= ' ' || s[i] > '~')
			return false;
	return true;
}

bool claim_gpu_key(const struct gd_gpu *gpu, char key[CLAIM_KEY_ROOM])
{
	if (gpu->vendor == GD_VENDOR_SIMULATED)
		return false;
	if ((gpu->known & GD_GPU_KNOWN_UUID) && is_word(gpu->uuid, sizeof(gpu->uuid))) {
		snprintf(key, CLAIM_KEY_ROOM, "%s", gpu->uuid);
		return true;
	}
	if ((gpu->known & GD_GPU_KNOWN_PCI_ID) && gpu->mig_index < 0 && is_word(gpu->pci_id, sizeof(gpu->pci_id))) {
		snprintf(key, CLAIM_KEY_ROOM, "pci-%s", gpu->pci_id);
		return true;
	}
	return false;
}

int claim_info_format(const struct claim_info *info, char *buf, size_t size)
{
	if (!is_word(info->queue, sizeof(info->queue)) || info->num_gpus > CLAIM_MAX_GPUS)
		return -EINVAL;
	for (size_t i = 0; i < info->num_gpus; i++)
		if (!is_word(info->gpus[i], CLAIM_KEY_ROOM))
			return -EINVAL;
	int n = snprintf(buf, size,
		HEADER "\nqueue %s\njob %" PRIu64 "\npid %" PRId64 "\npromised %" PRIu64 "\ndeclared %d\nsettled %d\n",
		info->queue, info->job, info->pid, info->promised_bytes, info->declared, info->settled);
	if (n >= 0 && (size_t)n < size && info->exclusive)
		n += snprintf(buf + n, size - (size_t)n, "exclusive 1\n");
	for (size_t i = 0; n >= 0 && (size_t)n < size && i < info->num_gpus; i++)
		n += snprintf(buf + n, size - (size_t)n, "gpu %s\n", info->gpus[i]);
	if (n >= 0 && (size_t)n < size)
		n += snprintf(buf + n, size - (size_t)n, "sum %016" PRIx64 "\n", checksum(buf, (size_t)n));
	if (n < 0 || size < BLOCK || (size_t)n > size - BLOCK)
		return -ENOBUFS;
	while (n % BLOCK)
		buf[n++] = '\n';
	return n;
}

static int set_number(const char *value, int64_t max, int64_t *ret)
{
	return units_parse_integer(value, 0, max, ret, NULL) < 0 ? -EBADMSG : 0;
}

static int set_word(const char *value, size_t room, char *ret)
{
	if (!is_word(value, room))
		return -EBADMSG;
	memcpy(ret, value, strlen(value) + 1);
	return 0;
}

static int set_field(struct claim_info *info, const char *name, const char *value)
{
	int64_t number = 0;
	int r = 0;
	if (!strcmp(name, "queue"))
		return set_word(value, sizeof(info->queue), info->queue);
	if (!strcmp(name, "gpu")) {
		if (info->num_gpus == CLAIM_MAX_GPUS)
			return -EBADMSG;
		return set_word(value, CLAIM_KEY_ROOM, info->gpus[info->num_gpus++]);
	}
	if (!strcmp(name, "job") && !(r = set_number(value, INT64_MAX, &number)))
		info->job = (uint64_t)number;
	else if (!strcmp(name, "pid") && !(r = set_number(value, INT32_MAX, &number)))
		info->pid = number;
	else if (!strcmp(name, "promised") && !(r = set_number(value, INT64_MAX, &number)))
		info->promised_bytes = (uint64_t)number;
	else if (!strcmp(name, "declared") && !(r = set_number(value, 1, &number)))
		info->declared = number;
	else if (!strcmp(name, "settled") && !(r = set_number(value, 1, &number)))
		info->settled = number;
	else if (!strcmp(name, "exclusive") && !(r = set_number(value, 1, &number)))
		info->exclusive = number;
	return r;
}

/* Takes the next line, which must end with a newline: the last line of a truncated file does not. */
static int take_line(const char **data, size_t *size, char *line, size_t room)
{
	const char *nl = memchr(*data, '\n', *size);
	size_t n = nl ? (size_t)(nl - *data) : 0;
	if (!nl || n >= room || memchr(*data, '\0', n))
		return -EBADMSG;
	memcpy(line, *data, n);
	line[n] = '\0';
	*data += n + 1;
	*size -= n + 1;
	return 0;
}

int claim_info_parse(const char *data, size_t size, struct claim_info *ret)
{
	struct claim_info info = {0};
	const char *begin = data;
	char line[256], sum[32];
	if (take_line(&data, &size, line, sizeof(line)) < 0 || strcmp(line, HEADER) != 0)
		return -EBADMSG;
	for (;;) {
		size_t before = (size_t)(data - begin);
		if (take_line(&data, &size, line, sizeof(line)) < 0)
			return -EBADMSG;
		char *space = strchr(line, ' ');
		if (!space)
			return -EBADMSG;
		*space = '\0';
		if (!strcmp(line, "sum")) {
			snprintf(sum, sizeof(sum), "%016" PRIx64, checksum(begin, before));
			if (strcmp(space + 1, sum) != 0)
				return -EBADMSG;
			break;
		}
		int r = set_field(&info, line, space + 1);
		if (r < 0)
			return r;
	}
	for (; size > 0; size--)
		if (*data++ != '\n')
			return -EBADMSG;
	if (!info.queue[0])
		return -EBADMSG;
	*ret = info;
	return 0;
}
