/* SPDX-License-Identifier: MIT */
#include "gpu/nvml_api.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* dlsym() returns functions as object pointers; only memcpy() converts them without a warning. */
static bool find(void *library, const char *symbol, void *ret_function)
{
	void *address = dlsym(library, symbol);
	memcpy(ret_function, &address, sizeof(address));
	return address != NULL;
}

#define FIND(field, symbol) find(library, symbol, &api->field)

/* The newest version first. */
static void find_versioned(void *library, struct nvml_api *api)
{
	if (!FIND(init, "nvmlInit_v2"))
		FIND(init, "nvmlInit");
	if (!FIND(count, "nvmlDeviceGetCount_v2"))
		FIND(count, "nvmlDeviceGetCount");
	if (!FIND(handle, "nvmlDeviceGetHandleByIndex_v2"))
		FIND(handle, "nvmlDeviceGetHandleByIndex");
	api->pci_has_long_id = FIND(pci, "nvmlDeviceGetPciInfo_v3");
	if (!api->pci && !FIND(pci, "nvmlDeviceGetPciInfo_v2"))
		FIND(pci, "nvmlDeviceGetPciInfo");
	if (!FIND(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v3") &&
		!FIND(compute_processes, "nvmlDeviceGetComputeRunningProcesses_v2"))
		api->compute_processes_v1 = FIND(compute_processes, "nvmlDeviceGetComputeRunningProcesses");
	if (!FIND(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v3") &&
		!FIND(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses_v2"))
		api->graphics_processes_v1 = FIND(graphics_processes, "nvmlDeviceGetGraphicsRunningProcesses");
	if (!FIND(event_wait, "nvmlEventSetWait_v2"))
		FIND(event_wait, "nvmlEventSetWait");
	FIND(memory_v2, "nvmlDeviceGetMemoryInfo_v2");
	FIND(memory, "nvmlDeviceGetMemoryInfo");
	FIND(temperature_v, "nvmlDeviceGetTemperatureV");
	FIND(temperature, "nvmlDeviceGetTemperature");
}

static void find_others(void *library, struct nvml_api *api)
{
	FIND(name, "nvmlDeviceGetName");
	FIND(uuid, "nvmlDeviceGetUUID");
	FIND(utilization, "nvmlDeviceGetUtilizationRates");
	FIND(power, "nvmlDeviceGetPowerUsage");
	FIND(energy, "nvmlDeviceGetTotalEnergyConsumption");
	FIND(compute_mode, "nvmlDeviceGetComputeMode");
	FIND(mig_mode, "nvmlDeviceGetMigMode");
	FIND(mig_max, "nvmlDeviceGetMaxMigDeviceCount");
	FIND(mig_handle, "nvmlDeviceGetMigDeviceHandleByIndex");
	FIND(p2p_status, "nvmlDeviceGetP2PStatus");
	FIND(event_set_create, "nvmlEventSetCreate");
	FIND(event_register, "nvmlDeviceRegisterEvents");
}

int nvml_api_load(struct nvml_api *ret, const char **ret_reason)
{
	const char *name = getenv("GPUQ_NVML_LIBRARY");
	void *library = dlopen(name && *name ? name : "libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
	if (!library) {
		*ret_reason = dlerror();
		return -ENOENT;
	}
	struct nvml_api api = {0};
	find_versioned(library, &api);
	find_others(library, &api);
	if (!api.init || !api.count || !api.handle) {
		*ret_reason = "nvmlInit, nvmlDeviceGetCount or nvmlDeviceGetHandleByIndex is missing";
		return -ENOSYS;
	}
	/* Never unloaded, because threads may hang in it; it ends with its process. */
	*ret = api;
	return 0;
}

const char *nvml_words(int result)
{
	switch (result) {
	case NVML_UNINITIALIZED:
		return "not initialized";
	case NVML_NO_PERMISSION:
		return "no permission (is /dev/nvidia* accessible?)";
	case NVML_NOT_SUPPORTED:
		return "not supported";
	case NVML_NOT_FOUND:
		return "not found";
	case NVML_DRIVER_NOT_LOADED:
		return "the kernel driver is not loaded";
	case NVML_TIMEOUT:
		return "timeout";
	case NVML_FUNCTION_NOT_FOUND:
		return "function missing in the library";
	case NVML_GPU_LOST:
		return "it has fallen off the bus";
	case NVML_LIB_RM_VERSION_MISMATCH:
		return "driver and library have different versions; reboot, or load the new driver";
	default:
		return "unknown error";
	}
}
