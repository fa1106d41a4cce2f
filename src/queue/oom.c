/* SPDX-License-Identifier: MIT */
#include "queue/oom.h"

#include <string.h>

/* Enough by themselves, whoever writes them. Lower case: lines are compared without regard to it. */
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

/* …and these say that it is a GPU's. */
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

/* The host's memory, or a warning that the program gets over. */
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

/* A log can be one line of megabytes; what matters stands at its end. */
#define LONGEST_LINE 4096

static bool line_tells(const char *line, size_t size)
{
	char folded[LONGEST_LINE];
	if (size > sizeof(folded)) {
		line += size - sizeof(folded);
		size = sizeof(folded);
	}
	for (size_t i = 0; i < size; i++)
		folded[i] = (char)(line[i] >= 'A' && line[i] <= 'Z' ? line[i] - 'A' + 'a' : line[i]);
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
