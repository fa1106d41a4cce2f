/* SPDX-License-Identifier: MIT */
#include "queue/keeper/oom.h"

#include <signal.h>
#include <string.h>

/* Sufficient on their own, whichever program writes them. Lower case: lines are compared without regard to case. */
static const char *const certain[] = {
	"cuda out of memory",
	"cuda error: out of memory",
	"cuda error out of memory",
	"cuda runtime error (2)",
	"cuda_error_out_of_memory",
	"cudaerrormemoryallocation",
	"cudamalloc failed",
	"cudnn_status_alloc_failed",
	"cublas_status_alloc_failed",
	"cusparse_status_alloc_failed",
	"cufft_alloc_failed",
	"hip out of memory",
	"hip error: out of memory",
	"hiperroroutofmemory",
	"hiperrormemoryallocation",
	"hipblas_status_alloc_failed",
	"rocblas_status_memory_error",
	"miopenstatusallocfailed",
	"cl_mem_object_allocation_failure",
	"vk_error_out_of_device_memory",
	"mps backend out of memory",
	"xpu out of memory",
	"ur_result_error_out_of_device_memory",
	"no available memory for the cache blocks",
};

/* These are about memory… */
static const char *const memory[] = {
	"out of memory",
	"out_of_memory",
	"outofmemory",
	"oom when allocating",
	"failed to allocate",
	"failed to alloc",
	"memory exhausted",
};

/* …and these show that it is a GPU's memory. */
static const char *const device[] = {
	"resource_exhausted",
	"resourceexhausted",
	"cuda",
	"cudnn",
	"cublas",
	"nccl",
	"cupy",
	"gpu",
	"hip error",
	"hiperror",
	"rocm",
	"opencl",
	"device memory",
	"nvidia",
	"tensorrt",
};

/* About the host's memory, or a warning from which the program recovers. */
static const char *const innocent[] = {
	"killed process",
	"allocator cpu",
	"allocator mklcpu",
	"device:cpu",
	"defaultcpuallocator",
	"caller indicates that this is not a failure",
	"cuda_host",
	"pinned memory",
};

#define COUNT(a) (sizeof(a) / sizeof((a)[0]))

static bool has_any(const char *line, size_t size, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (memmem(line, size, words[i], strlen(words[i])))
			return true;
	return false;
}

/* About the host's memory, unless the line also mentions a GPU. */
static const char *const host[] = {
	"std::bad_alloc",
	"cannot allocate memory",
	"memoryerror",
	"oom-kill",
	"out of memory: killed",
};

/* A log can be one line of megabytes; the relevant part is at its end. */
#define LONGEST_LINE 4096

/* The end of the line in lower case. Returns its size. */
static size_t fold(const char *line, size_t size, char folded[LONGEST_LINE])
{
	if (size > LONGEST_LINE) {
		line += size - LONGEST_LINE;
		size = LONGEST_LINE;
	}
	for (size_t i = 0; i < size; i++)
		folded[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] - 'A' + 'a' : line[i]);
	return size;
}

static bool line_tells(const char *line, size_t size)
{
	char folded[LONGEST_LINE];
	size = fold(line, size, folded);
	if (has_any(folded, size, innocent, COUNT(innocent)))
		return false;
	if (has_any(folded, size, certain, COUNT(certain)))
		return true;
	return has_any(folded, size, memory, COUNT(memory)) && has_any(folded, size, device, COUNT(device));
}

bool oom_in_log(const void *tail, size_t size, struct gd_bytes *ret_line)
{
	const char *begin = tail, *end = begin + size;
	while (end > begin) {
		/* Progress bars end their lines with carriage returns. */
		const char *line = end;
		while (line > begin && line[-1] != '\n' && line[-1] != '\r')
			line--;
		if (line < end && line_tells(line, (size_t)(end - line))) {
			if (ret_line)
				*ret_line = (struct gd_bytes){line, (size_t)(end - line)};
			return true;
		}
		end = line > begin ? line - 1 : begin;
	}
	return false;
}

/* ---- The figures ------------------------------------------------------------------ */

#define LITTLE_BYTES ((uint64_t)256 << 20)

bool oom_is_full(uint64_t total_bytes, uint64_t free_bytes, uint64_t job_bytes)
{
	uint64_t little = total_bytes / 50 > LITTLE_BYTES ? total_bytes / 50 : LITTLE_BYTES;
	/* Otherwise a GPU with only a few hundred MB would count as full from the beginning. */
	if (little > total_bytes / 10)
		little = total_bytes / 10;
	return free_bytes < little && free_bytes <= total_bytes && job_bytes >= (total_bytes - free_bytes) / 2;
}

static const char *line_end(const char *p, const char *end)
{
	const char *newline = memchr(p, '\n', (size_t)(end - p));
	return newline ? newline : end;
}

static const char *find_last(const char *text, size_t size, const char *words)
{
	const char *found = NULL, *end = text + size;
	for (const char *p = text; (p = memmem(p, (size_t)(end - p), words, strlen(words))); p++)
		found = p;
	return found;
}

/* The exception below the last traceback: the first line that is not indented. Launchers add "[rank0]: ". */
static bool find_exception(const char *text, size_t size, const char **ret, size_t *ret_size)
{
	const char *end = text + size, *at = find_last(text, size, "Traceback (most recent call last)");
	if (!at)
		return false;
	const char *begin = at;
	while (begin > text && begin[-1] != '\n')
		begin--;
	size_t prefix = (size_t)(at - begin);
	for (const char *p = line_end(at, end); p < end;) {
		const char *line = p + 1;
		p = line_end(line < end ? line : end, end);
		if ((size_t)(p - line) <= prefix || line >= end)
			continue;
		line += prefix;
		if (*line == ' ' || *line == '\t')
			continue;
		*ret = line;
		*ret_size = (size_t)(p - line);
		return true;
	}
	return false;
}

bool oom_denied_by_log(const void *tail, size_t size)
{
	char folded[LONGEST_LINE];
	const char *line;
	size_t length;
	if (find_exception(tail, size, &line, &length)) {
		length = fold(line, length, folded);
		return !has_any(folded, length, device, COUNT(device));
	}
	length = fold(tail, size, folded);
	return has_any(folded, length, host, COUNT(host));
}

/* Whether no signal of another process ended it. A shell reports a command's signal as exit code 128 + number. */
static bool ended_by_itself(int exit_code, int signal)
{
	static const int others[] = {SIGHUP, SIGINT, SIGQUIT, SIGKILL, SIGTERM, SIGPIPE, SIGUSR1, SIGUSR2};
	int s = exit_code > 128 ? exit_code - 128 : signal;
	for (size_t i = 0; i < COUNT(others); i++)
		if (s == others[i])
			return false;
	return exit_code != 0;
}

bool oom_happened(const struct oom_evidence *e)
{
	if (oom_in_log(e->tail, e->size, NULL))
		return true;
	return e->full && ended_by_itself(e->exit_code, e->signal) && !oom_denied_by_log(e->tail, e->size);
}
