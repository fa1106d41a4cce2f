/* SPDX-License-Identifier: MIT */
/*
 * Computes y = a·x + y on every NVIDIA GPU, with one worker each.
 *
 *     cuda_saxpy [GPUS]
 *
 * The main process never calls CUDA, because the driver does not work after a fork. Each
 * worker opens its GPU in setup, keeps the buffers, and gets blocks of x and y.
 * GPUS is a specification as for `gpuq gpus --gpus`.
 *
 * Exit code: 0 if all numbers are right, 1 if not, 77 without an NVIDIA GPU.
 */
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <gpu_dispatch.h>

static const size_t block = 65536; /* numbers in a task */
static const size_t blocks = 64;
static const size_t block_bytes = block * sizeof(float);
static const float factor = 2.5f;

__global__ static void saxpy(size_t n, float a, const float *x, float *y)
{
	size_t i = (size_t)blockIdx.x * blockDim.x + threadIdx.x;
	if (i < n)
		y[i] = a * x[i] + y[i];
}

/* ---- In each worker ----------------------------------------------------- */

struct device {
	float *x;
	float *y;
};

static int fail(struct gd_worker *w, cudaError_t status)
{
	return gd_worker_fail(w, -EIO, "CUDA: %s", cudaGetErrorString(status));
}

static int cleanup(struct gd_worker *, void *state)
{
	struct device *d = (struct device *)state;
	cudaFree(d->y);
	cudaFree(d->x);
	free(d);
	return 0;
}

static int setup(struct gd_worker *w, void **ret_state)
{
	struct device *d = (struct device *)calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;

	struct cudaDeviceProp properties;
	cudaError_t r = cudaSetDevice(gd_worker_device(w));
	if (r == cudaSuccess)
		r = cudaMalloc((void **)&d->x, block_bytes);
	if (r == cudaSuccess)
		r = cudaMalloc((void **)&d->y, block_bytes);
	if (r == cudaSuccess)
		r = cudaGetDeviceProperties(&properties, gd_worker_device(w));
	if (r != cudaSuccess) {
		cleanup(w, d);
		return fail(w, r);
	}
	printf("worker %d: GPU %d, '%s'\n", gd_worker_slot(w), gd_worker_gpu(w), properties.name);
	fflush(stdout);
	*ret_state = d;
	return 0;
}

/* The task's bytes are written to the device, and the result is read from it, without intermediate copies. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct device *d = (struct device *)state;
	const float *x = (const float *)task->data;

	if (task->size != 2 * block_bytes)
		return gd_worker_fail(w, -EINVAL, "a block of %zu bytes instead of %zu", task->size, 2 * block_bytes);
	void *result = gd_worker_result_reserve(w, block_bytes);
	if (!result)
		return -ENOMEM;

	cudaError_t r = cudaMemcpy(d->x, x, block_bytes, cudaMemcpyHostToDevice);
	if (r == cudaSuccess)
		r = cudaMemcpy(d->y, x + block, block_bytes, cudaMemcpyHostToDevice);
	if (r == cudaSuccess) {
		saxpy<<<(unsigned)((block + 255) / 256), 256>>>(block, factor, d->x, d->y);
		r = cudaGetLastError();
	}
	if (r == cudaSuccess)
		r = cudaMemcpy(result, d->y, block_bytes, cudaMemcpyDeviceToHost);
	return r == cudaSuccess ? 0 : fail(w, r);
}

/* ---- In this program ---------------------------------------------------- */

struct run {
	size_t next_block;
	size_t right;
	size_t wrong;
	int failures;
};

/* Numbers that a float holds exactly, so that the result can be compared exactly. */
static float x_at(size_t i)
{
	return (float)(i % 4096);
}

static float y_at(size_t i)
{
	return (float)(i % 1000);
}

static int next_block(void *context, struct gd_feed *feed)
{
	struct run *run = (struct run *)context;
	if (run->next_block == blocks)
		return 0;

	float *x = (float *)gd_feed_reserve(feed, 2 * block_bytes, NULL, NULL);
	if (!x)
		return -ENOMEM;
	size_t first = run->next_block++ * block;
	for (size_t i = 0; i < block; i++) {
		x[i] = x_at(first + i);
		x[block + i] = y_at(first + i);
	}
	return 1;
}

static int check_block(void *context, const struct gd_event *e)
{
	struct run *run = (struct run *)context;
	const float *y = (const float *)e->result.data;
	size_t first = (size_t)e->id * block;

	if (e->result.size != block_bytes) {
		run->failures++;
		return 0;
	}
	for (size_t i = 0; i < block; i++) {
		if (y[i] == factor * x_at(first + i) + y_at(first + i))
			run->right++;
		else
			run->wrong++;
	}
	return 0;
}

static int note_failure(void *context, const struct gd_event *e)
{
	struct run *run = (struct run *)context;
	if (run->failures++ == 0)
		fprintf(stderr, "cuda_saxpy: worker %d: %s\n", e->slot, e->message);
	return 0;
}

int main(int argc, char **argv)
{
	if (!gd_gpu_cuda_available()) {
		puts("cuda_saxpy: there is no NVIDIA GPU here, so nothing was run; examples/opencl_saxpy also runs on a CPU");
		return 77;
	}

	struct run run = {};
	struct gd_worker_ops worker = {
		.size = sizeof(struct gd_worker_ops),
	};
	worker.size = sizeof(worker);
	worker.setup = setup;
	worker.process = process;
	worker.cleanup = cleanup;

	struct gd_options options = {};
	options.size = sizeof(options);
	options.worker = &worker;
	options.gpus = argc > 1 ? argv[1] : NULL;

	struct gd_callbacks callbacks = {};
	callbacks.size = sizeof(callbacks);
	callbacks.context = &run;
	callbacks.on_success = check_block;
	callbacks.on_error = note_failure;
	callbacks.on_setup_fail = note_failure;

	struct gd_run stream = {};
	stream.size = sizeof(stream);
	stream.generator = next_block;
	stream.generator_context = &run;
	stream.total_tasks = blocks;

	struct gd_dispatcher *d = NULL;
	struct gd_error err = {};
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run(d, &stream, &callbacks, &err);
	gd_dispatcher_destroy(d);
	if (r < 0) {
		fprintf(stderr, "cuda_saxpy: %s\n", err.message);
		return 1;
	}
	printf("%zu numbers right, %zu wrong, %d failures\n", run.right, run.wrong, run.failures);
	return run.right != blocks * block || run.wrong || run.failures;
}
