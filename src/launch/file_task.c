/* SPDX-License-Identifier: MIT */
#include "launch/file_task.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/sized.h"
#include "launch/outputs.h"

SIZED_NO_TAIL(gd_file, seconds);

#define MAGIC UINT32_C(0x656c6966) /* "file" */

/* Followed by the three strings, each with its NUL. */
struct file_header {
	uint32_t magic;
	uint32_t path_size; /* with the NUL, like the others */
	uint32_t output_dir_size;
	uint32_t stem_size;
	uint64_t size_bytes;
	double seconds;
};

size_t file_task_size(const struct gd_file *file)
{
	return sizeof(struct file_header) + strlen(file->path) + strlen(file->output_dir) + strlen(file->stem) + 3;
}

static char *put_string(char *to, const char *string, uint32_t size)
{
	memcpy(to, string, size);
	return to + size;
}

void file_task_write(const struct gd_file *file, void *ret)
{
	const struct file_header h = {
		.magic = MAGIC,
		.path_size = (uint32_t)strlen(file->path) + 1,
		.output_dir_size = (uint32_t)strlen(file->output_dir) + 1,
		.stem_size = (uint32_t)strlen(file->stem) + 1,
		.size_bytes = file->size_bytes,
		.seconds = file->known & GD_KNOWN_SECONDS ? file->seconds : -1,
	};
	char *p = ret;
	memcpy(p, &h, sizeof(h));
	p = put_string(p + sizeof(h), file->path, h.path_size);
	p = put_string(p, file->output_dir, h.output_dir_size);
	put_string(p, file->stem, h.stem_size);
}

/* The string at *p, whose only NUL is at its end; or NULL. */
static const char *take_string(const char **p, uint32_t size)
{
	const char *string = *p;
	if (size == 0 || memchr(string, '\0', size) != string + size - 1)
		return NULL;
	*p += size;
	return string;
}

static bool is_seconds(double seconds)
{
	return isfinite(seconds) && seconds >= 0;
}

int file_task_read(const struct gd_bytes *task, struct gd_file *ret)
{
	struct file_header h;
	if (!task->data || task->size < sizeof(h))
		return -EBADMSG;
	memcpy(&h, task->data, sizeof(h));
	uint64_t strings = (uint64_t)h.path_size + h.output_dir_size + h.stem_size;
	if (h.magic != MAGIC || strings != task->size - sizeof(h))
		return -EBADMSG;
	const char *p = (const char *)task->data + sizeof(h);
	bool known = is_seconds(h.seconds);
	struct gd_file file = {
		.size = sizeof(file),
		.size_bytes = h.size_bytes,
		.known = known ? GD_KNOWN_SECONDS : 0,
		.seconds = known ? h.seconds : 0,
	};
	file.path = take_string(&p, h.path_size);
	file.output_dir = file.path ? take_string(&p, h.output_dir_size) : NULL;
	file.stem = file.output_dir ? take_string(&p, h.stem_size) : NULL;
	if (!file.stem || file.path[0] != '/' || file.output_dir[0] != '/')
		return -EBADMSG;
	*ret = file;
	return 0;
}

double file_result_seconds(const struct gd_bytes *result)
{
	double seconds;
	if (!result->data || result->size != sizeof(seconds))
		return -1;
	memcpy(&seconds, result->data, sizeof(seconds));
	return is_seconds(seconds) ? seconds : -1;
}

int gd_file_read(const struct gd_bytes *task, struct gd_file *ret, size_t size)
{
	struct gd_file file;
	int r = file_task_read(task, &file);
	if (r == 0)
		sized_write(ret, size, &file, sizeof(file));
	return r;
}

int64_t gd_file_write(const struct gd_file *given, void *data, size_t room)
{
	struct gd_file file;
	char stem[NAME_MAX + 1];
	int r = sized_read(&file, sizeof(file), given, "gd_file", NULL);
	if (r < 0)
		return r;
	if (!file.path || file.path[0] != '/' || !file.output_dir || file.output_dir[0] != '/')
		return -EINVAL;
	if (!file.stem) {
		size_t length;
		const char *name = outputs_stem(file.path, &length);
		snprintf(stem, sizeof(stem), "%.*s", (int)length, name);
		file.stem = stem;
	}
	size_t size = file_task_size(&file);
	if (size <= room)
		file_task_write(&file, data);
	return (int64_t)size;
}

int gd_worker_file_seconds(struct gd_worker *w, double seconds)
{
	return is_seconds(seconds) ? gd_worker_result(w, &seconds, sizeof(seconds)) : -EINVAL;
}
