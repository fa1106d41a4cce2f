/* SPDX-License-Identifier: MIT */
#include "gpu/set.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/sized.h"
#include "base/text.h"

SIZED_NO_TAIL(gd_gpu, energy_millijoules);
SIZED_NO_TAIL(gd_gpu_process, memory_known);
SIZED_NO_TAIL(gd_gpu_list, warnings);

void gpu_set_finish(struct gpu_set *s)
{
	for (size_t i = 0; i < s->count; i++)
		free((void *)s->gpus[i].processes);
	for (size_t i = 0; i < s->num_warnings; i++)
		free(s->warnings[i]);
	free(s->gpus);
	free(s->warnings);
	*s = (struct gpu_set){0};
}

static void copy_processes(
	const struct gd_gpu *gpu, const struct gd_gpu_process **pointers, struct gd_gpu_process *processes)
{
	for (size_t i = 0; i < gpu->num_processes; i++) {
		processes[i] = *gpu->processes[i];
		processes[i].size = sizeof(processes[i]);
		pointers[i] = &processes[i];
	}
}

int gpu_set_add(struct gpu_set *s, const struct gd_gpu *gpu)
{
	if (array_reserve(s->gpus, &s->capacity, s->count + 1) < 0)
		return -ENOMEM;

	const struct gd_gpu_process **processes = NULL;
	if (gpu->num_processes > 0) {
		processes = calloc(gpu->num_processes, sizeof(*processes) + sizeof(**processes));
		if (!processes)
			return -ENOMEM;
		struct gd_gpu_process *copy = (struct gd_gpu_process *)(processes + gpu->num_processes);
		copy_processes(gpu, processes, copy);
	}
	s->gpus[s->count] = *gpu;
	s->gpus[s->count].size = sizeof(*gpu);
	s->gpus[s->count].processes = processes;
	s->count++;
	return 0;
}

int gpu_set_add_with(struct gpu_set *s, struct gd_gpu *gpu, const struct gd_gpu_process *processes, size_t count)
{
	cleanup_(freep) const struct gd_gpu_process **pointers = calloc(count + 1, sizeof(*pointers));
	if (!pointers)
		return -ENOMEM;
	for (size_t i = 0; i < count; i++)
		pointers[i] = &processes[i];
	gpu->processes = pointers;
	gpu->num_processes = count;
	int r = gpu_set_add(s, gpu);
	gpu->processes = NULL;
	gpu->num_processes = 0;
	return r;
}

int gpu_set_warn(struct gpu_set *s, const char *format, ...)
{
	if (array_reserve(s->warnings, &s->warnings_capacity, s->num_warnings + 1) < 0)
		return -ENOMEM;

	struct text line = {0};
	va_list args;
	va_start(args, format);
	text_vappendf(&line, format, args);
	va_end(args);
	char *words = text_take(&line);
	if (!words)
		return -ENOMEM;
	s->warnings[s->num_warnings++] = words;
	return 0;
}

void gpu_set_swap_warnings(struct gpu_set *a, struct gpu_set *b)
{
	struct gpu_set before = *a;
	a->warnings = b->warnings;
	a->num_warnings = b->num_warnings;
	a->warnings_capacity = b->warnings_capacity;
	b->warnings = before.warnings;
	b->num_warnings = before.num_warnings;
	b->warnings_capacity = before.warnings_capacity;
}

/* Everything after the list itself is in one block, the strictest alignment first. */
struct layout {
	struct gd_gpu_list list;
	struct gd_gpu gpus[];
};

int gpu_set_to_list(const struct gpu_set *s, struct gd_gpu_list **ret)
{
	size_t num_processes = 0, text_size = 0;
	for (size_t i = 0; i < s->count; i++)
		num_processes += s->gpus[i].num_processes;
	for (size_t i = 0; i < s->num_warnings; i++)
		text_size += strlen(s->warnings[i]) + 1;

	size_t size = sizeof(struct layout) + s->count * (sizeof(struct gd_gpu) + sizeof(void *)) +
		      num_processes * (sizeof(struct gd_gpu_process) + sizeof(void *)) +
		      s->num_warnings * sizeof(char *) + text_size;
	struct layout *l = calloc(1, size);
	if (!l)
		return -ENOMEM;
	struct gd_gpu_process *process = (struct gd_gpu_process *)(l->gpus + s->count);
	const struct gd_gpu **gpus = (const struct gd_gpu **)(process + num_processes);
	const struct gd_gpu_process **processes = (const struct gd_gpu_process **)(gpus + s->count);
	const char **warnings = (const char **)(processes + num_processes);
	char *words = (char *)(warnings + s->num_warnings);

	for (size_t i = 0; i < s->count; i++) {
		const struct gd_gpu *gpu = &s->gpus[i];
		l->gpus[i] = *gpu;
		l->gpus[i].processes = processes;
		gpus[i] = &l->gpus[i];
		copy_processes(gpu, processes, process);
		process += gpu->num_processes;
		processes += gpu->num_processes;
	}
	for (size_t i = 0; i < s->num_warnings; i++) {
		size_t length = strlen(s->warnings[i]) + 1;
		memcpy(words, s->warnings[i], length);
		warnings[i] = words;
		words += length;
	}
	l->list = (struct gd_gpu_list){.size = sizeof(l->list),
		.count = s->count,
		.gpus = gpus,
		.num_warnings = s->num_warnings,
		.warnings = warnings};
	*ret = &l->list;
	return 0;
}

void gd_gpu_list_free(struct gd_gpu_list *list)
{
	free(list);
}
