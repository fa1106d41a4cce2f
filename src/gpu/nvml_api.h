/* SPDX-License-Identifier: MIT */
/*
 * The part of NVIDIA's management library that we use, declared by hand so that no SDK is needed at build time. Layouts
 * and numbers are the same from driver 450 on; a function that an older library lacks is NULL here.
 */
#ifndef GPU_NVML_API_H
#define GPU_NVML_API_H

#include <stdbool.h>

struct nvml_device; /* the library's own */

enum nvml_result {
	NVML_OK = 0,
	NVML_UNINITIALIZED = 1,
	NVML_NO_PERMISSION = 4,
	NVML_NOT_SUPPORTED = 3,
	NVML_NOT_FOUND = 6,
	NVML_INSUFFICIENT_SIZE = 7,
	NVML_DRIVER_NOT_LOADED = 9,
	NVML_TIMEOUT = 10,
	NVML_FUNCTION_NOT_FOUND = 13,
	NVML_GPU_LOST = 15,
	NVML_LIB_RM_VERSION_MISMATCH = 18,
	NVML_VERSION_MISMATCH = 25,
};

#define NVML_TEXT_SIZE              96 /* of name and UUID buffers */
#define NVML_EVENT_XID              0x8ull
#define NVML_NOT_AVAILABLE          (~0ull) /* in place of an amount of memory */
#define NVML_MEMORY_V2              0x2000028u
#define NVML_TEMPERATURE_V1         0x100000Cu
#define NVML_SENSOR_GPU             0
#define NVML_MODE_EXCLUSIVE_THREAD  1
#define NVML_MODE_PROHIBITED        2
#define NVML_MODE_EXCLUSIVE_PROCESS 3
#define NVML_P2P_NVLINK             2 /* whether two cards reach each other by NVLink, NVSwitch included */
#define NVML_P2P_OK                 0

struct nvml_memory {
	unsigned long long total, free, used;
};

struct nvml_memory_v2 {
	unsigned version;
	unsigned long long total, reserved, free, used;
};

struct nvml_utilization {
	unsigned gpu, memory;
};

struct nvml_temperature {
	unsigned version, sensor;
	int celsius;
};

/* For versions _v2 and _v3 of the functions; the struct of the first version lacks the last two fields. */
struct nvml_process {
	unsigned pid;
	unsigned long long used;
	unsigned gpu_instance, compute_instance;
};

struct nvml_process_v1 {
	unsigned pid;
	unsigned long long used;
};

/* For version _v3 of the function; earlier versions fill only the first 36 bytes. */
struct nvml_pci {
	char bus_id_legacy[16];
	unsigned domain, bus, device, device_id, subsystem_id;
	char bus_id[32];
};

struct nvml_event {
	struct nvml_device *device;
	unsigned long long type, data;
	unsigned gpu_instance, compute_instance;
};

struct nvml_event_set;

/* The functions of the library, each in the newest version that was found. */
struct nvml_api {
	int (*init)(void);
	int (*count)(unsigned *ret);
	int (*handle)(unsigned index, struct nvml_device **ret);
	int (*name)(struct nvml_device *d, char *buf, unsigned size);
	int (*uuid)(struct nvml_device *d, char *buf, unsigned size);
	int (*pci)(struct nvml_device *d, struct nvml_pci *ret);
	bool pci_has_long_id;
	int (*memory)(struct nvml_device *d, struct nvml_memory *ret);
	int (*memory_v2)(struct nvml_device *d, struct nvml_memory_v2 *ret);
	int (*utilization)(struct nvml_device *d, struct nvml_utilization *ret);
	int (*temperature)(struct nvml_device *d, unsigned sensor, unsigned *ret);
	int (*temperature_v)(struct nvml_device *d, struct nvml_temperature *ret);
	int (*power)(struct nvml_device *d, unsigned *ret_milliwatts);
	int (*energy)(struct nvml_device *d, unsigned long long *ret_millijoules);
	int (*compute_mode)(struct nvml_device *d, unsigned *ret);
	int (*compute_processes)(struct nvml_device *d, unsigned *count, void *infos);
	int (*graphics_processes)(struct nvml_device *d, unsigned *count, void *infos);
	bool compute_processes_v1, graphics_processes_v1; /* struct nvml_process_v1 */
	int (*mig_mode)(struct nvml_device *d, unsigned *ret_current, unsigned *ret_pending);
	int (*mig_max)(struct nvml_device *d, unsigned *ret);
	int (*mig_handle)(struct nvml_device *d, unsigned index, struct nvml_device **ret);
	int (*p2p_status)(struct nvml_device *a, struct nvml_device *b, unsigned index, unsigned *ret);
	int (*event_set_create)(struct nvml_event_set **ret);
	int (*event_register)(struct nvml_device *d, unsigned long long types, struct nvml_event_set *set);
	int (*event_wait)(struct nvml_event_set *set, struct nvml_event *ret, unsigned timeout_ms);
};

/*
 * Loads $GPUQ_NVML_LIBRARY, or libnvidia-ml.so.1. -ENOENT if it cannot be loaded, -ENOSYS if it is another library;
 * *ret_reason is the reason, valid until the next call of the loader.
 */
int nvml_api_load(struct nvml_api *ret, const char **ret_reason);

/* In words: "the driver is not loaded". */
const char *nvml_words(int result);

#endif
