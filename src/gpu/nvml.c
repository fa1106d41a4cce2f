/* SPDX-License-Identifier: MIT */
/* NVIDIA's cards. Runs only in the probe process; any call here may hang. */
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "base/utf8.h"
#include "gpu/backend.h"
#include "gpu/nvml_api.h"

#define EVENT_WAIT_MS 1000
#define MAX_PROCESSES (1u << 20)
#define MAX_LINKED    64

struct nvml {
	struct nvml_api api;
	unsigned num_cards;
	struct nvml_event_set *_Atomic events;
	/* Links between the first MAX_LINKED cards: bit k of [i] for the pair i, k. */
	_Atomic uint64_t links[MAX_LINKED], links_asked[MAX_LINKED];
	_Atomic uint64_t answered; /* cards that were read without an error, so their links may be queried */
	struct nvml_device *_Atomic handles[];
};

/* One query of one card. After the card is lost, nothing more is queried. */
struct reading {
	const struct nvml_api *api;
	struct nvml_device *device;
	struct gd_gpu *gpu;
};

/* True if the call succeeded; remembers a lost card. */
static bool good(struct reading *r, int result)
{
	if (result == NVML_GPU_LOST)
		r->gpu->health = GD_GPU_HEALTH_LOST;
	return result == NVML_OK;
}

#define ask(r, function, ...)                                                                                          \
	((r)->gpu->health == GD_GPU_HEALTH_OK && (r)->api->function &&                                                 \
		good(r, (r)->api->function((r)->device, __VA_ARGS__)))

static void read_identity(struct reading *r)
{
	struct gd_gpu *gpu = r->gpu;
	char buf[NVML_TEXT_SIZE + 1] = "";
	if (ask(r, name, buf, NVML_TEXT_SIZE)) {
		utf8_copy_line(gpu->name, sizeof(gpu->name), buf, strnlen(buf, NVML_TEXT_SIZE));
		gpu->known |= GD_GPU_KNOWN_NAME;
	}
	if (ask(r, uuid, buf, NVML_TEXT_SIZE)) {
		utf8_copy_line(gpu->uuid, sizeof(gpu->uuid), buf, strnlen(buf, NVML_TEXT_SIZE));
		gpu->known |= GD_GPU_KNOWN_UUID;
	}
}

/* The kernel writes four digits for the domain, in lower case; NVML writes eight, in upper case. */
static void read_numa_node(struct gd_gpu *gpu, const struct nvml_pci *pci)
{
	const char *root = getenv("GPUQ_SYSFS_ROOT");
	char path[512], text[32];
	int n = snprintf(path, sizeof(path), "%s/bus/pci/devices/%04x:%02x:%02x.0/numa_node",
		root && *root ? root : "/sys", pci->domain, pci->bus, pci->device);
	if (n < 0 || (size_t)n >= sizeof(path) || file_read_small(AT_FDCWD, path, text, sizeof(text)) <= 0)
		return;
	int node = atoi(text);
	if (node < 0 || !isdigit((unsigned char)*text))
		return;
	gpu->numa_node = node;
	gpu->known |= GD_GPU_KNOWN_NUMA_NODE;
}

static void read_pci(struct reading *r)
{
	/* Larger than needed: the structure has grown before. */
	union {
		struct nvml_pci pci;
		char room[256];
	} u = {.room = ""};
	if (!ask(r, pci, &u.pci))
		return;
	const char *id = r->api->pci_has_long_id ? u.pci.bus_id : u.pci.bus_id_legacy;
	size_t size = r->api->pci_has_long_id ? sizeof(u.pci.bus_id) : sizeof(u.pci.bus_id_legacy);
	utf8_copy_line(r->gpu->pci_id, sizeof(r->gpu->pci_id), id, strnlen(id, size));
	r->gpu->known |= GD_GPU_KNOWN_PCI_ID;
	read_numa_node(r->gpu, &u.pci);
}

static void set_memory(struct gd_gpu *gpu, unsigned long long total, unsigned long long free, unsigned long long used)
{
	gpu->memory_total_bytes = total;
	gpu->memory_free_bytes = free;
	gpu->memory_used_bytes = used;
	gpu->known |= (total != NVML_NOT_AVAILABLE ? GD_GPU_KNOWN_MEMORY_TOTAL : 0) |
		      (free != NVML_NOT_AVAILABLE ? GD_GPU_KNOWN_MEMORY_FREE : 0) |
		      (used != NVML_NOT_AVAILABLE ? GD_GPU_KNOWN_MEMORY_USED : 0);
}

static void read_memory(struct reading *r)
{
	struct nvml_memory_v2 v2 = {.version = NVML_MEMORY_V2};
	struct nvml_memory v1 = {0};
	if (ask(r, memory_v2, &v2)) {
		set_memory(r->gpu, v2.total, v2.free, v2.used);
		if (v2.reserved != NVML_NOT_AVAILABLE) {
			r->gpu->memory_reserved_bytes = v2.reserved;
			r->gpu->known |= GD_GPU_KNOWN_MEMORY_RESERVED;
		}
	} else if (ask(r, memory, &v1)) {
		set_memory(r->gpu, v1.total, v1.free, v1.used);
	}
}

static void read_load(struct reading *r)
{
	struct gd_gpu *gpu = r->gpu;
	struct nvml_utilization utilization;
	unsigned value;
	unsigned long long energy = 0;
	struct nvml_temperature temperature = {.version = NVML_TEMPERATURE_V1, .sensor = NVML_SENSOR_GPU};
	if (ask(r, utilization, &utilization)) {
		gpu->utilization_percent = utilization.gpu;
		gpu->known |= GD_GPU_KNOWN_UTILIZATION;
	}
	if (ask(r, temperature_v, &temperature)) {
		gpu->temperature_celsius = temperature.celsius;
		gpu->known |= GD_GPU_KNOWN_TEMPERATURE;
	} else if (ask(r, temperature, NVML_SENSOR_GPU, &value)) {
		gpu->temperature_celsius = (int)value;
		gpu->known |= GD_GPU_KNOWN_TEMPERATURE;
	}
	if (ask(r, power, &value)) {
		gpu->power_milliwatts = value;
		gpu->known |= GD_GPU_KNOWN_POWER;
	}
	if (ask(r, energy, &energy) && energy != NVML_NOT_AVAILABLE) {
		gpu->energy_millijoules = energy;
		gpu->known |= GD_GPU_KNOWN_ENERGY;
	}
	if (ask(r, compute_mode, &value)) {
		gpu->exclusive = value == NVML_MODE_EXCLUSIVE_THREAD || value == NVML_MODE_EXCLUSIVE_PROCESS;
		gpu->prohibited = value == NVML_MODE_PROHIBITED;
		gpu->known |= GD_GPU_KNOWN_COMPUTE_MODE;
	}
}

/* ---- Processes ---------------------------------------------------------- */

struct processes {
	struct gd_gpu_process *list;
	size_t count, capacity;
};

/* A process that uses compute and graphics is listed twice, with the same memory. */
static int add_process(struct processes *all, unsigned pid, unsigned long long used)
{
	struct gd_gpu_process p = {.pid = pid};
	p.memory_known = used != NVML_NOT_AVAILABLE;
	p.memory_bytes = p.memory_known ? used : 0;
	for (size_t i = 0; i < all->count; i++) {
		struct gd_gpu_process *seen = &all->list[i];
		if (seen->pid != p.pid)
			continue;
		if (p.memory_known && (!seen->memory_known || seen->memory_bytes < p.memory_bytes))
			*seen = p;
		return 0;
	}
	if (array_reserve(all->list, &all->capacity, all->count + 1) < 0)
		return -ENOMEM;
	all->list[all->count++] = p;
	return 0;
}

typedef int process_call(struct nvml_device *d, unsigned *count, void *infos);

/*
 * Processes come and go between two calls, so the buffer grows until it is large enough. 1: read; 0: cannot be read;
 * negative: out of memory.
 */
static int read_processes_of(struct reading *r, process_call *call, bool v1, struct processes *all)
{
	cleanup_(freep) struct nvml_process *infos = NULL; /* v1: of struct nvml_process_v1, which is smaller */
	size_t capacity = 0;
	unsigned count = 0, room = 32;
	int result;
	do {
		if (array_reserve(infos, &capacity, room) < 0)
			return -ENOMEM;
		count = room;
		result = call(r->device, &count, infos);
		room = count > room ? count + 8 : room * 2;
	} while (result == NVML_INSUFFICIENT_SIZE && room <= MAX_PROCESSES);
	if (!good(r, result))
		return 0;
	for (unsigned i = 0; i < count; i++) {
		const struct nvml_process *p = infos + i;
		const struct nvml_process_v1 *old = (const struct nvml_process_v1 *)(const void *)infos + i;
		if (add_process(all, v1 ? old->pid : p->pid, v1 ? old->used : p->used) < 0)
			return -ENOMEM;
	}
	return 1;
}

static int read_processes(struct reading *r, struct processes *all)
{
	const struct nvml_api *api = r->api;
	int got = 0;
	if (api->compute_processes && r->gpu->health == GD_GPU_HEALTH_OK)
		got = read_processes_of(r, api->compute_processes, api->compute_processes_v1, all);
	if (got <= 0)
		return got;
	if (api->graphics_processes && r->gpu->health == GD_GPU_HEALTH_OK) {
		int more = read_processes_of(r, api->graphics_processes, api->graphics_processes_v1, all);
		if (more < 0)
			return more;
	}
	r->gpu->known |= GD_GPU_KNOWN_PROCESSES;
	return 0;
}

/* ---- A card ------------------------------------------------------------- */

static int add_gpu(struct reading *r, struct gpu_set *ret)
{
	struct processes all = {0};
	read_identity(r);
	read_memory(r);
	read_load(r);
	int result = read_processes(r, &all);
	if (result == 0)
		result = gpu_set_add_with(ret, r->gpu, all.list, all.count);
	free(all.list);
	return result;
}

/* Slots without an instance are skipped; numbers are as nvidia-smi gives them. */
static int add_instances(struct reading *card, struct gpu_set *ret)
{
	unsigned max = 0, number = 0;
	if (!ask(card, mig_max, &max))
		return 0;
	for (unsigned i = 0; i < max; i++) {
		struct nvml_device *device;
		if (!ask(card, mig_handle, i, &device))
			continue;
		struct gd_gpu gpu = {
			.known = card->gpu->known & (GD_GPU_KNOWN_PCI_ID | GD_GPU_KNOWN_NUMA_NODE | GD_GPU_KNOWN_MIG),
			.vendor = GD_VENDOR_NVIDIA,
			.vendor_index = card->gpu->vendor_index,
			.mig_index = (int)number++,
			.numa_node = card->gpu->numa_node,
		};
		memcpy(gpu.pci_id, card->gpu->pci_id, sizeof(gpu.pci_id));
		struct reading instance = {card->api, device, &gpu};
		int r = add_gpu(&instance, ret);
		if (r < 0)
			return r;
		if (gpu.health != GD_GPU_HEALTH_OK)
			card->gpu->health = gpu.health;
	}
	return 0;
}

static int add_sick(struct gd_gpu *gpu, int result, struct gpu_set *ret)
{
	gpu->health = result == NVML_GPU_LOST ? GD_GPU_HEALTH_LOST : GD_GPU_HEALTH_UNREADABLE;
	int r = gpu_set_add(ret, gpu);
	if (r < 0)
		return r;
	if (result == NVML_GPU_LOST)
		return gpu_set_warn(ret, "has fallen off the bus");
	return gpu_set_warn(ret, "cannot be read: %s (NVML error %d)", nvml_words(result), result);
}

static int add_card(struct nvml *n, struct gd_gpu *gpu, struct nvml_device *device, struct gpu_set *ret)
{
	struct reading r = {&n->api, device, gpu};
	unsigned current, pending;
	read_pci(&r);
	if (ask(&r, mig_mode, &current, &pending)) {
		gpu->mig_enabled = current != 0;
		gpu->known |= GD_GPU_KNOWN_MIG;
	} else if (gpu->health == GD_GPU_HEALTH_OK) {
		gpu->known |= GD_GPU_KNOWN_MIG; /* the card or the library does not support MIG */
	}
	int result = add_gpu(&r, ret);
	if (result == 0 && gpu->mig_enabled && gpu->health == GD_GPU_HEALTH_OK)
		result = add_instances(&r, ret);
	if (result == 0 && gpu->health == GD_GPU_HEALTH_LOST) {
		for (size_t i = 0; i < ret->count; i++)
			ret->gpus[i].health = GD_GPU_HEALTH_LOST;
		result = gpu_set_warn(ret, "has fallen off the bus");
	}
	return result;
}

/*
 * Links do not change. Each pair is queried once, when the second of its cards is read, so no query involves a card
 * that may hang. A card's own first sample may therefore lack links that the other card reports.
 */
static void add_links(struct nvml *n, unsigned card, struct gpu_set *ret)
{
	struct gd_gpu *gpu = &ret->gpus[0];
	if (!n->api.p2p_status || card >= MAX_LINKED || gpu->health != GD_GPU_HEALTH_OK)
		return;
	n->answered |= UINT64_C(1) << card;
	for (unsigned other = 0; other < n->num_cards && other < MAX_LINKED; other++) {
		uint64_t bit = UINT64_C(1) << other;
		unsigned status;
		if (other == card || !(n->answered & bit) || n->links_asked[card] & bit)
			continue;
		if (n->api.p2p_status(n->handles[card], n->handles[other], NVML_P2P_NVLINK, &status) == NVML_OK &&
			status == NVML_P2P_OK) {
			n->links[card] |= bit;
			n->links[other] |= UINT64_C(1) << card;
		}
		n->links_asked[card] |= bit;
		n->links_asked[other] |= UINT64_C(1) << card;
	}
	gpu->links = n->links[card];
	gpu->known |= GD_GPU_KNOWN_LINKS;
}

static int nvml_sample(void *state, unsigned card, struct gpu_set *ret)
{
	struct nvml *n = state;
	struct gd_gpu gpu = {.vendor = GD_VENDOR_NVIDIA, .vendor_index = (int)card, .mig_index = -1};
	struct nvml_device *device = n->handles[card];
	if (!device) {
		int result = n->api.handle(card, &device);
		if (result != NVML_OK)
			return add_sick(&gpu, result, ret);
		n->handles[card] = device;
	}
	int r = add_card(n, &gpu, device, ret);
	if (r == 0)
		add_links(n, card, ret);
	return r;
}

/* ---- Opening, and events ------------------------------------------------ */

static int nvml_open(const struct gpu_spec *spec, struct gpu_set *warnings, void **ret_state, unsigned *ret_cards)
{
	(void)spec;
	struct nvml_api api;
	const char *reason;
	unsigned num_cards = 0;
	*ret_cards = 0;
	int r = nvml_api_load(&api, &reason);
	if (r < 0) {
		/* Most machines without a GPU have no library; report that only if a GPU is expected. */
		const char *asked = getenv("GPUQ_NVML_LIBRARY");
		bool expected = (asked && *asked) || access("/proc/driver/nvidia/version", F_OK) == 0 || r == -ENOSYS;
		return expected ? gpu_set_warn(warnings, "cannot use NVIDIA's library: %s", reason) : 0;
	}
	int result = api.init();
	if (result == NVML_OK)
		result = api.count(&num_cards);
	if (result != NVML_OK)
		return gpu_set_warn(
			warnings, "cannot use the NVIDIA driver: %s (NVML error %d)", nvml_words(result), result);
	struct nvml *n = calloc(1, sizeof(*n) + num_cards * sizeof(n->handles[0]));
	if (!n)
		return -ENOMEM;
	n->api = api;
	n->num_cards = num_cards;
	*ret_state = n;
	*ret_cards = num_cards;
	return 0;
}

static int nvml_watch(void *state, unsigned card)
{
	struct nvml *n = state;
	if (!n->api.event_set_create || !n->api.event_register || !n->api.event_wait)
		return -ENOTSUP;
	struct nvml_event_set *events = n->events;
	if (!events) {
		struct nvml_event_set *fresh;
		if (n->api.event_set_create(&fresh) != NVML_OK)
			return -ENOTSUP;
		/* Another card's thread may have been faster; use its event set. */
		events = atomic_compare_exchange_strong(&n->events, &events, fresh) ? fresh : events;
	}
	return n->api.event_register(n->handles[card], NVML_EVENT_XID, events) == NVML_OK ? 0 : -ENOTSUP;
}

static int nvml_wait_event(void *state, struct gpu_event *ret)
{
	struct nvml *n = state;
	struct nvml_event event = {0};
	int result = n->api.event_wait(n->events, &event, EVENT_WAIT_MS);
	if (result == NVML_TIMEOUT)
		return 0;
	if (result != NVML_OK) {
		/* This error is returned at once while any card is lost; the samples show which one it is. */
		struct timespec pause = {.tv_sec = 1};
		nanosleep(&pause, NULL);
		return 0;
	}
	for (unsigned i = 0; i < n->num_cards; i++)
		if (n->handles[i] == event.device && (event.type & NVML_EVENT_XID)) {
			*ret = (struct gpu_event){.card = i, .xid = (unsigned)event.data};
			return 1;
		}
	return 0;
}

const struct gpu_backend gpu_nvml = {
	.vendor = GD_VENDOR_NVIDIA,
	.driver = "the NVIDIA driver",
	.open = nvml_open,
	.sample = nvml_sample,
	.watch = nvml_watch,
	.wait_event = nvml_wait_event,
};
