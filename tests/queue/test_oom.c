/* SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "queue/keeper/oom.h"

static const char *const exhausted[] = {
	"torch.cuda.OutOfMemoryError: CUDA out of memory. Tried to allocate 20.00 MiB (GPU 0; 23.69 GiB total capacity)",
	"torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
	"RuntimeError: CUDA error: out of memory",
	"RuntimeError: CUDA out of memory. Tried to allocate 512.00 MiB",
	"RuntimeError: cuda runtime error (2) : out of memory at /pytorch/aten/src/THC/THCCachingHostAllocator.cpp:278",
	"torch.cuda.OutOfMemoryError: HIP out of memory. Tried to allocate 256.00 MiB",
	"RuntimeError: cuDNN error: CUDNN_STATUS_ALLOC_FAILED",
	"RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
	("tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[1024,1024] "
	 "and type float on /job:localhost/replica:0/task:0/device:GPU:0 by allocator GPU_0_bfc"),
	("2024-01-01 12:00:00 E tensorflow/stream_executor/cuda/cuda_driver.cc:794] failed to alloc 2147483648 bytes: "
	 "CUDA_ERROR_OUT_OF_MEMORY: out of memory"),
	"jaxlib.xla_extension.XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.",
	"XlaRuntimeError: RESOURCE_EXHAUSTED: Failed to allocate request for 2.00GiB (2147483648B) on device ordinal 0",
	"CUDA error at main.cu:42: cudaErrorMemoryAllocation",
	"CUDA failure 2: out of memory ; GPU=0 ; hostname=box",
	"GPUassert: out of memory kernel.cu 77",
	"ggml_backend_cuda_buffer_type_alloc_buffer: allocating 4096.00 MiB on device 0: cudaMalloc failed: out of memory",
	"cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,000 bytes",
	"numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
	"box:123:140 [0] include/alloc.h:158 NCCL WARN Cuda failure 'out of memory'",
	"hipErrorOutOfMemory: out of memory",
	"clEnqueueNDRangeKernel failed: CL_MEM_OBJECT_ALLOCATION_FAILURE",
	"vkAllocateMemory: VK_ERROR_OUT_OF_DEVICE_MEMORY",
	"terminate called after throwing an instance of 'rmm::out_of_memory' what(): std::bad_alloc: out_of_memory: CUDA error",
	"ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization`",
};

static const char *const something_else[] = {
	"MemoryError",
	"numpy.core._exceptions._ArrayMemoryError: Unable to allocate 8.00 GiB for an array",
	"terminate called after throwing an instance of 'std::bad_alloc'",
	"Out of memory: Killed process 4711 (python) total-vm:1234kB gpu",
	"fork: Cannot allocate memory",
	"slurmstepd: error: Detected 1 oom-kill event(s)",
	"RuntimeError: [enforce fail at alloc_cpu.cpp:75] . DefaultCPUAllocator: not enough memory: you tried to allocate",
	"ResourceExhaustedError: OOM when allocating tensor with shape[9] on /device:CPU:0 by allocator cpu",
	"grpc._channel._InactiveRpcError: RESOURCE_EXHAUSTED: Received message larger than max (5 vs. 4)",
	("W tensorflow/bfc_allocator.cc:290] Allocator (GPU_0_bfc) ran out of memory trying to allocate 2.21GiB with freed_by_"
	 "count=0. The caller indicates that this is not a failure, but may mean that there could be performance gains"),
	"RuntimeError: CUDA error: an illegal memory access was encountered",
	"epoch 12 loss 0.3, gpu memory 20.1 GB",
	"ModuleNotFoundError: No module named 'torch.cuda'",
};

static void test_the_words_of_each_framework_are_known(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(exhausted) / sizeof(exhausted[0]); i++)
		if (!oom_in_log(exhausted[i], strlen(exhausted[i]), NULL))
			fail_msg("not recognized: %s", exhausted[i]);
}

static void test_out_of_main_memory_and_other_errors_are_not_out_of_gpu_memory(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof(something_else) / sizeof(something_else[0]); i++)
		if (oom_in_log(something_else[i], strlen(something_else[i]), NULL))
			fail_msg("recognized: %s", something_else[i]);
}

static void test_the_line_is_found_among_others(void **state)
{
	(void)state;
	const char log[] =
		"step 1\nRuntimeError: CUDA out of memory. First\nagain\r  50%|###  |\rRuntimeError: CUDA out of "
		"memory. Last\n\nprocess exited\n";
	struct gd_bytes line = {0};
	assert_true(oom_in_log(log, sizeof(log) - 1, &line));
	const char *last = "RuntimeError: CUDA out of memory. Last";
	assert_int_equal(line.size, strlen(last));
	assert_memory_equal(line.data, last, line.size);
}

static void test_words_in_two_lines_are_not_combined(void **state)
{
	(void)state;
	const char log[] = "using gpu 0\nhost: out of memory\n";
	assert_false(oom_in_log(log, sizeof(log) - 1, NULL));
	assert_false(oom_in_log("", 0, NULL));
}

static void test_a_line_of_megabytes_is_searched_at_its_end(void **state)
{
	(void)state;
	size_t size = 1 << 20;
	char *log = malloc(size);
	assert_non_null(log);
	memset(log, 'x', size);
	memcpy(log + size - 19, "CUDA out of memory.", 19);
	assert_true(oom_in_log(log, size, NULL));
	free(log);
}

#define GB ((uint64_t)1 << 30)

static void test_a_gpu_is_full_when_next_to_nothing_is_left_and_the_job_has_most_of_it(void **state)
{
	(void)state;
	assert_true(oom_is_full(80 * GB, 0, 79 * GB));
	assert_true(oom_is_full(80 * GB, 1 * GB, 40 * GB));
	assert_true(oom_is_full(8 * GB, 255 << 20, 5 * GB));
	assert_false(oom_is_full(80 * GB, 2 * GB, 78 * GB));
	assert_false(oom_is_full(80 * GB, 0, 39 * GB));
	assert_false(oom_is_full(8 * GB, 300 << 20, 7 * GB));
	/* The memory that TensorFlow leaves free: 5%, at least 300 MB. */
	assert_false(oom_is_full(16 * GB, 16 * GB / 20, 15 * GB));
	assert_false(oom_is_full(0, 0, 0));
}

static bool denied(const char *text)
{
	/* In memory of exactly its size, to detect reads beyond it. */
	char *copy = malloc(strlen(text) + 1);
	memcpy(copy, text, strlen(text));
	bool answer = oom_denied_by_log(copy, strlen(text));
	free(copy);
	return answer;
}

static void test_last_error_about_something_else_excludes_out_of_memory(void **state)
{
	(void)state;
	assert_true(
		denied("x\nTraceback (most recent call last):\n  File \"t.py\", line 1, in <module>\nKeyError: 7\n"));
	assert_true(denied(
		"[rank0]: Traceback (most recent call last):\n[rank0]:   File \"t.py\"\n[rank0]: KeyError: 7\n"));
	assert_true(denied("Traceback (most recent call last):\n  a\nRuntimeError: CUDA error\n\nDuring handling\n\n"
			   "Traceback (most recent call last):\n  b\nFileNotFoundError: [Errno 2]"));
	assert_true(denied("terminate called after throwing an instance of 'std::bad_alloc'\n"));
	assert_false(denied(
		"Traceback (most recent call last):\n  a\nRuntimeError: cuDNN error: CUDNN_STATUS_NOT_INITIALIZED\n"));
	assert_false(denied("Traceback (most recent call last):\n  cut"));
	assert_false(denied("Traceback (most recent call last)"));
	assert_false(denied("Traceback (most recent call last):\n"));
	assert_false(denied("Segmentation fault\n"));
	assert_false(denied(""));
}

static bool happened(int exit_code, int number, bool full, const char *text)
{
	return oom_happened(&(struct oom_evidence){exit_code, number, full, text, strlen(text)});
}

static void test_out_of_memory_is_detected_from_the_log_or_else_from_a_full_gpu(void **state)
{
	(void)state;
	assert_true(happened(1, 0, false, "CUDA out of memory"));
	assert_true(happened(-1, SIGKILL, false, "CUDA out of memory"));
	assert_true(happened(1, 0, true, ""));
	assert_true(happened(-1, SIGABRT, true, "epoch 3\n"));
	assert_true(happened(134, 0, true, ""));
	assert_false(happened(1, 0, false, ""));
	assert_false(happened(-1, SIGKILL, true, ""));
	assert_false(happened(-1, SIGTERM, true, ""));
	assert_false(happened(137, 0, true, ""));
	assert_false(happened(1, 0, true, "Traceback (most recent call last):\n  a\nValueError: b\n"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_the_words_of_each_framework_are_known),
		cmocka_unit_test(test_out_of_main_memory_and_other_errors_are_not_out_of_gpu_memory),
		cmocka_unit_test(test_the_line_is_found_among_others),
		cmocka_unit_test(test_words_in_two_lines_are_not_combined),
		cmocka_unit_test(test_a_line_of_megabytes_is_searched_at_its_end),
		cmocka_unit_test(test_a_gpu_is_full_when_next_to_nothing_is_left_and_the_job_has_most_of_it),
		cmocka_unit_test(test_last_error_about_something_else_excludes_out_of_memory),
		cmocka_unit_test(test_out_of_memory_is_detected_from_the_log_or_else_from_a_full_gpu),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
