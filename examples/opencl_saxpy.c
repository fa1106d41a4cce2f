/* SPDX-License-Identifier: MIT */
/*
 * Computes y = a·x + y on every OpenCL device, with one worker each.
 *
 *     opencl_saxpy [GPUS]
 *
 * The context, the kernel and the buffers are created once per worker, in setup; each
 * task contains a block of x and y, and its result is the new y. GPUS is a
 * specification as for `gpuq gpus --gpus`. On a machine without GPUs it is "sim:2": two
 * workers on any OpenCL devices, for example those of PoCL:
 *
 *     POCL_DEVICES="pthread pthread" opencl_saxpy
 *
 * Exit code: 0 if all numbers are right, 1 if not, 77 without an OpenCL device.
 */
#define CL_TARGET_OPENCL_VERSION 120
#include <CL/cl.h>
#include <errno.h>
#include <gpu_dispatch.h>
#include <stdio.h>
#include <stdlib.h>

#define BLOCK       65536 /* numbers in a task */
#define BLOCKS      64
#define MAX_DEVICES 64
#define FACTOR      2.5f

static const char kernel_source[] = "__kernel void saxpy(float a, __global const float *x, __global float *y)\n"
				    "{\n"
				    "	size_t i = get_global_id(0);\n"
				    "	y[i] = a * x[i] + y[i];\n"
				    "}\n";

/* ---- In each worker ----------------------------------------------------- */

struct device {
	cl_context context;
	cl_command_queue queue;
	cl_program program;
	cl_kernel kernel;
	cl_mem x, y;
};

static size_t list_devices(cl_device_type type, cl_device_id *devices)
{
	cl_platform_id platforms[16];
	cl_uint num_platforms = 0;
	size_t count = 0;

	if (clGetPlatformIDs(16, platforms, &num_platforms) != CL_SUCCESS)
		return 0;
	for (cl_uint i = 0; i < num_platforms && i < 16 && count < MAX_DEVICES; i++) {
		cl_uint found = 0;
		cl_uint room = (cl_uint)(MAX_DEVICES - count);
		if (clGetDeviceIDs(platforms[i], type, room, devices + count, &found) == CL_SUCCESS)
			count += found < room ? found : room;
	}
	return count;
}

/*
 * A worker that is bound to a GPU sees and uses one device. On simulated GPUs all
 * workers see all devices and use them in turn.
 */
static int choose_device(struct gd_worker *w, cl_device_id *ret)
{
	cl_device_id devices[MAX_DEVICES];
	size_t count = list_devices(CL_DEVICE_TYPE_GPU, devices);
	if (count == 0)
		count = list_devices(CL_DEVICE_TYPE_ALL, devices);
	if (count == 0)
		return gd_worker_fail(
			w, -ENODEV, "no OpenCL device; on Debian, install pocl-opencl-icd to use the CPU as a device");
	*ret = devices[(size_t)gd_worker_slot(w) % count];
	return 0;
}

static int cleanup(struct gd_worker *w, void *state)
{
	struct device *d = state;
	(void)w;
	if (d->y)
		clReleaseMemObject(d->y);
	if (d->x)
		clReleaseMemObject(d->x);
	if (d->kernel)
		clReleaseKernel(d->kernel);
	if (d->program)
		clReleaseProgram(d->program);
	if (d->queue)
		clReleaseCommandQueue(d->queue);
	if (d->context)
		clReleaseContext(d->context);
	free(d);
	return 0;
}

static cl_int open_device(struct device *d, cl_device_id id)
{
	const char *source = kernel_source;
	cl_int r;

	d->context = clCreateContext(NULL, 1, &id, NULL, NULL, &r);
	if (r == CL_SUCCESS)
		d->queue = clCreateCommandQueue(d->context, id, 0, &r);
	if (r == CL_SUCCESS)
		d->program = clCreateProgramWithSource(d->context, 1, &source, NULL, &r);
	if (r == CL_SUCCESS)
		r = clBuildProgram(d->program, 1, &id, "", NULL, NULL);
	if (r == CL_SUCCESS)
		d->kernel = clCreateKernel(d->program, "saxpy", &r);
	if (r == CL_SUCCESS)
		d->x = clCreateBuffer(d->context, CL_MEM_READ_ONLY, BLOCK * sizeof(float), NULL, &r);
	if (r == CL_SUCCESS)
		d->y = clCreateBuffer(d->context, CL_MEM_READ_WRITE, BLOCK * sizeof(float), NULL, &r);
	return r;
}

static int setup(struct gd_worker *w, void **ret_state)
{
	cl_device_id id = NULL;
	int r = choose_device(w, &id);
	if (r < 0)
		return r;

	struct device *d = calloc(1, sizeof(*d));
	if (!d)
		return -ENOMEM;
	cl_int status = open_device(d, id);
	if (status != CL_SUCCESS) {
		cleanup(w, d);
		return gd_worker_fail(w, -EIO, "OpenCL could not be set up: error %d", (int)status);
	}

	char name[128] = "?";
	clGetDeviceInfo(id, CL_DEVICE_NAME, sizeof(name), name, NULL);
	printf("worker %d: GPU %d, OpenCL device '%s'\n", gd_worker_slot(w), gd_worker_gpu(w), name);
	fflush(stdout);
	*ret_state = d;
	return 0;
}

/* The task's bytes are written to the device, and the result is read from it, without intermediate copies. */
static int process(struct gd_worker *w, void *state, const struct gd_bytes *task)
{
	struct device *d = state;
	const float *x = task->data;
	const size_t bytes = BLOCK * sizeof(float);
	const size_t items = BLOCK;
	cl_float a = FACTOR;

	if (task->size != 2 * bytes)
		return gd_worker_fail(w, -EINVAL, "a block of %zu bytes instead of %zu", task->size, 2 * bytes);
	float *result = gd_worker_result_reserve(w, bytes);
	if (!result)
		return -ENOMEM;

	cl_int r = clEnqueueWriteBuffer(d->queue, d->x, CL_FALSE, 0, bytes, x, 0, NULL, NULL);
	if (r == CL_SUCCESS)
		r = clEnqueueWriteBuffer(d->queue, d->y, CL_FALSE, 0, bytes, x + BLOCK, 0, NULL, NULL);
	if (r == CL_SUCCESS)
		r = clSetKernelArg(d->kernel, 0, sizeof(a), &a);
	if (r == CL_SUCCESS)
		r = clSetKernelArg(d->kernel, 1, sizeof(d->x), &d->x);
	if (r == CL_SUCCESS)
		r = clSetKernelArg(d->kernel, 2, sizeof(d->y), &d->y);
	if (r == CL_SUCCESS)
		r = clEnqueueNDRangeKernel(d->queue, d->kernel, 1, NULL, &items, NULL, 0, NULL, NULL);
	if (r == CL_SUCCESS)
		r = clEnqueueReadBuffer(d->queue, d->y, CL_TRUE, 0, bytes, result, 0, NULL, NULL);
	if (r != CL_SUCCESS) {
		clFinish(d->queue);
		return gd_worker_fail(w, -EIO, "OpenCL: error %d", (int)r);
	}
	return 0;
}

/* ---- In this program ---------------------------------------------------- */

struct run {
	int next_block;
	size_t right;
	size_t wrong;
	int failures;
	bool no_device;
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
	struct run *run = context;
	if (run->next_block == BLOCKS)
		return 0;

	float *x = gd_feed_reserve(feed, 2 * BLOCK * sizeof(float), NULL, NULL);
	if (!x)
		return -ENOMEM;
	size_t first = (size_t)run->next_block++ * BLOCK;
	for (size_t i = 0; i < BLOCK; i++) {
		x[i] = x_at(first + i);
		x[BLOCK + i] = y_at(first + i);
	}
	return 1;
}

static int check_block(void *context, const struct gd_event *e)
{
	struct run *run = context;
	const float *y = e->result.data;
	size_t first = (size_t)e->id * BLOCK;

	if (e->result.size != BLOCK * sizeof(float)) {
		run->failures++;
		return 0;
	}
	for (size_t i = 0; i < BLOCK; i++) {
		if (y[i] == FACTOR * x_at(first + i) + y_at(first + i))
			run->right++;
		else
			run->wrong++;
	}
	return 0;
}

static int note_failure(void *context, const struct gd_event *e)
{
	struct run *run = context;
	if (run->failures++ == 0)
		fprintf(stderr, "opencl_saxpy: worker %d: %s\n", e->slot, e->message);
	if (e->code == -ENODEV)
		run->no_device = true;
	return 0;
}

int main(int argc, char **argv)
{
	struct run run = {0};
	struct gd_worker_ops worker = {
		.size = sizeof(struct gd_worker_ops), .setup = setup, .process = process, .cleanup = cleanup};
	struct gd_options options = {
		.size = sizeof(options),
		.worker = &worker,
		.gpus = argc > 1 ? argv[1] : NULL,
	};
	struct gd_run stream = {
		.size = sizeof(stream), .generator = next_block, .generator_context = &run, .total_tasks = BLOCKS};
	struct gd_callbacks callbacks = {
		.size = sizeof(callbacks),
		.context = &run,
		.on_success = check_block,
		.on_error = note_failure,
		.on_setup_fail = note_failure,
	};
	struct gd_dispatcher *d = NULL;
	struct gd_error err;

	if (!options.gpus && gd_gpu_count(NULL, NULL) == 0)
		options.gpus = "sim:2";
	int r = gd_dispatcher_create(&options, &d, &err);
	if (r == 0)
		r = gd_dispatcher_run(d, &stream, &callbacks, &err);
	gd_dispatcher_destroy(d);
	if (r < 0) {
		fprintf(stderr, "opencl_saxpy: %s\n", err.message);
		return run.no_device ? 77 : 1;
	}
	printf("%zu numbers right, %zu wrong, %d failures\n", run.right, run.wrong, run.failures);
	return run.right != (size_t)BLOCKS * BLOCK || run.wrong || run.failures;
}
