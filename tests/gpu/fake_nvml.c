/* SPDX-License-Identifier: MIT */
/*
 * A libnvidia-ml.so.1 for tests. The file $FAKE_NVML defines its cards and faults. It is read at each call, so a test
 * changes the machine by rewriting it. One setting per line; lines before the first "card" are about the library.
 * `crash`, `hang` and `fail` name a function without its "nvmlDevice" or "nvml" and its version: hang=GetMemoryInfo,
 * fail=GetName 15. A hanging call continues when the line is removed. With `stuck` instead of `hang` it never returns,
 * as in a broken driver, but later calls succeed once the line is removed.
 *
 * Compiled with FAKE_OLD it is a library of about 2015: most _v2 functions are missing, and there is no MIG.
 */
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

#define MAX_CARDS     16
#define MAX_INSTANCES 8
#define MAX_PROCESSES 256
#define MAX_FAULTS    8

typedef int nvmlReturn_t;

struct process {
	unsigned pid;
	unsigned long long used;
};

struct fault {
	char function[64];
	int code; /* to return; -1: hang, -2: crash, -3: never return */
};

struct device {
	bool there;
	char name[96], uuid[96];
	unsigned domain, bus, slot;
	unsigned long long total, free, used, reserved;
	int utilization, temperature, power, mode; /* -1: not supported */
	bool has_energy, mig;
	unsigned long long energy, energy_power; /* millijoules at the boot, and milliwatts since then */
	struct process compute[MAX_PROCESSES], graphics[MAX_PROCESSES];
	unsigned num_compute, num_graphics;
	struct fault faults[MAX_FAULTS];
	unsigned num_faults;
	unsigned xids[MAX_FAULTS], num_xids;
	unsigned long long nvlinks; /* bit i: to card i */
};

struct fake_card {
	struct device device;
	struct device instances[MAX_INSTANCES];
};

struct fake_driver {
	int init_result;
	struct device library; /* for its faults */
	unsigned num_cards;
	struct fake_card cards[MAX_CARDS];
};

/* The target of a handle. */
struct nvmlDevice_st {
	int card, instance;
};

static struct nvmlDevice_st handles[MAX_CARDS][MAX_INSTANCES + 1];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct fake_driver driver; /* under the lock */

static void unescape(char *to, size_t room, const char *from)
{
	size_t n = 0;
	while (*from && n + 1 < room) {
		unsigned byte;
		if (from[0] == '\\' && sscanf(from, "\\x%2x", &byte) == 1) {
			to[n++] = (char)byte;
			from += 4;
		} else {
			to[n++] = *from++;
		}
	}
	to[n] = '\0';
}

static void read_fault(struct device *d, const char *value, int code)
{
	if (d->num_faults == MAX_FAULTS)
		return;
	struct fault *f = &d->faults[d->num_faults++];
	f->code = code;
	sscanf(value, "%63s %d", f->function, &f->code);
}

static void read_setting(struct device *d, const char *key, const char *value)
{
	if (strcmp(key, "name") == 0)
		unescape(d->name, sizeof(d->name), value);
	else if (strcmp(key, "uuid") == 0)
		unescape(d->uuid, sizeof(d->uuid), value);
	else if (strcmp(key, "pci") == 0)
		sscanf(value, "%x:%x:%x", &d->domain, &d->bus, &d->slot);
	else if (strcmp(key, "memory") == 0)
		sscanf(value, "%llu %llu %llu %llu", &d->total, &d->free, &d->used, &d->reserved);
	else if (strcmp(key, "utilization") == 0)
		d->utilization = atoi(value);
	else if (strcmp(key, "temperature") == 0)
		d->temperature = atoi(value);
	else if (strcmp(key, "power") == 0)
		d->power = atoi(value);
	else if (strcmp(key, "energy") == 0)
		d->has_energy = sscanf(value, "%llu %llu", &d->energy, &d->energy_power) >= 1;
	else if (strcmp(key, "mode") == 0)
		d->mode = atoi(value);
	else if (strcmp(key, "nvlink") == 0)
		d->nvlinks |= 1ull << atoi(value);
	else if (strcmp(key, "xid") == 0)
		d->xids[d->num_xids++ % MAX_FAULTS] = (unsigned)atoi(value);
	else if (strcmp(key, "compute") == 0 && d->num_compute < MAX_PROCESSES) {
		struct process *p = &d->compute[d->num_compute++];
		if (sscanf(value, "%u %llu", &p->pid, &p->used) == 1)
			p->used = ~0ull;
	} else if (strcmp(key, "graphics") == 0 && d->num_graphics < MAX_PROCESSES) {
		struct process *p = &d->graphics[d->num_graphics++];
		if (sscanf(value, "%u %llu", &p->pid, &p->used) == 1)
			p->used = ~0ull;
	} else if (strcmp(key, "fail") == 0)
		read_fault(d, value, 999);
	else if (strcmp(key, "hang") == 0)
		read_fault(d, value, -1);
	else if (strcmp(key, "stuck") == 0)
		read_fault(d, value, -3);
	else if (strcmp(key, "crash") == 0)
		read_fault(d, value, -2);
}

static struct device fresh_device(void)
{
	return (struct device){.there = true,
		.utilization = -1,
		.temperature = -1,
		.power = -1,
		.mode = -1,
		.name = "Fake",
		.uuid = ""};
}

/* "card" begins a card, "instance N" an instance on it, "mig" enables MIG. */
static void read_machine(void)
{
	memset(&driver, 0, sizeof(driver));
	const char *path = getenv("FAKE_NVML");
	FILE *f = path ? fopen(path, "re") : NULL;
	struct device *d = &driver.library;
	char line[512];
	while (f && fgets(line, sizeof(line), f)) {
		line[strcspn(line, "\n")] = '\0';
		char *key = line + strspn(line, " \t");
		char *value = strchr(key, '=');
		unsigned slot;
		if (value)
			*value++ = '\0';
		if (strcmp(key, "init") == 0 && value)
			driver.init_result = atoi(value);
		else if (strcmp(key, "card") == 0 && driver.num_cards < MAX_CARDS) {
			d = &driver.cards[driver.num_cards++].device;
			*d = fresh_device();
		} else if (strcmp(key, "mig") == 0)
			d->mig = true;
		else if (sscanf(key, "instance %u", &slot) == 1 && slot < MAX_INSTANCES && driver.num_cards > 0) {
			d = &driver.cards[driver.num_cards - 1].instances[slot];
			*d = fresh_device();
		} else if (value)
			read_setting(d, key, value);
	}
	if (f)
		fclose(f);
}

/* Returns 0, or the value that the function must return; does not return from a crash. */
static int meet_fault(const struct device *d, const char *function)
{
	for (;;) {
		int code = 0;
		for (unsigned i = 0; i < d->num_faults; i++)
			if (strcmp(d->faults[i].function, function) == 0)
				code = d->faults[i].code;
		if (code == -2)
			raise(SIGSEGV);
		if (code != -1 && code != -3)
			return code;
		pthread_mutex_unlock(&lock);
		while (code == -3)
			pause();
		usleep(5000);
		pthread_mutex_lock(&lock);
		read_machine();
	}
}

static struct device *device_of(const struct nvmlDevice_st *h)
{
	struct fake_card *c = &driver.cards[h->card];
	return h->instance < 0 ? &c->device : &c->instances[h->instance];
}

static void unlockp(int *unused)
{
	(void)unused;
	pthread_mutex_unlock(&lock);
}

/* Begins a call: reads the file, takes the lock until the function returns, applies its faults. */
#define ENTER(target, function)                                                                                        \
	__attribute__((cleanup(unlockp), unused)) int locked_ = pthread_mutex_lock(&lock);                             \
	read_machine();                                                                                                \
	struct device *d = (target);                                                                                   \
	int fault_ = meet_fault(d, function);                                                                          \
	if (fault_)                                                                                                    \
	return fault_

__attribute__((constructor)) static void tell_who_loaded(void)
{
	const char *path = getenv("FAKE_NVML_LOG");
	FILE *f = path ? fopen(path, "ae") : NULL;
	if (!f)
		return;
	fprintf(f, "%d\n", getpid());
	fclose(f);
}

static nvmlReturn_t init(void)
{
	ENTER(&driver.library, "Init");
	return driver.init_result;
}

static nvmlReturn_t get_count(unsigned *count)
{
	ENTER(&driver.library, "GetCount");
	*count = driver.num_cards;
	return 0;
}

static nvmlReturn_t get_handle(unsigned index, struct nvmlDevice_st **ret)
{
	if (index >= MAX_CARDS)
		return 2;
	ENTER(&driver.cards[index].device, "GetHandleByIndex");
	if (!d->there)
		return 2;
	handles[index][0] = (struct nvmlDevice_st){(int)index, -1};
	*ret = &handles[index][0];
	return 0;
}

static nvmlReturn_t get_text(char *to, unsigned size, const char *text)
{
	if (strlen(text) + 1 > size)
		return 7;
	strcpy(to, text);
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetName(struct nvmlDevice_st *h, char *name, unsigned size)
{
	ENTER(device_of(h), "GetName");
	return get_text(name, size, d->name);
}

EXPORT nvmlReturn_t nvmlDeviceGetUUID(struct nvmlDevice_st *h, char *uuid, unsigned size)
{
	ENTER(device_of(h), "GetUUID");
	return d->uuid[0] ? get_text(uuid, size, d->uuid) : 3;
}

typedef struct {
	unsigned long long total, free, used;
} nvmlMemory_t;

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo(struct nvmlDevice_st *h, nvmlMemory_t *m)
{
	ENTER(device_of(h), "GetMemoryInfo");
	if (d->total == 0)
		return 3;
	*m = (nvmlMemory_t){d->total, d->free, d->used + d->reserved};
	return 0;
}

typedef struct {
	unsigned gpu, memory;
} nvmlUtilization_t;

static nvmlReturn_t get_number(int number, unsigned *ret)
{
	if (number < 0)
		return 3;
	*ret = (unsigned)number;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetUtilizationRates(struct nvmlDevice_st *h, nvmlUtilization_t *u)
{
	ENTER(device_of(h), "GetUtilizationRates");
	u->memory = 0;
	return get_number(d->utilization, &u->gpu);
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperature(struct nvmlDevice_st *h, int sensor, unsigned *ret)
{
	ENTER(device_of(h), "GetTemperature");
	return sensor == 0 ? get_number(d->temperature, ret) : 2;
}

EXPORT nvmlReturn_t nvmlDeviceGetPowerUsage(struct nvmlDevice_st *h, unsigned *ret)
{
	ENTER(device_of(h), "GetPowerUsage");
	return get_number(d->power, ret);
}

#ifndef FAKE_OLD
/* "energy=5000" is constant; "energy=5000 100000" rises by 100 J in a second. */
EXPORT nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(struct nvmlDevice_st *h, unsigned long long *ret)
{
	ENTER(device_of(h), "GetTotalEnergyConsumption");
	struct timespec now;
	if (!d->has_energy)
		return 3;
	clock_gettime(CLOCK_BOOTTIME, &now);
	unsigned long long ms = (unsigned long long)now.tv_sec * 1000 + (unsigned long long)now.tv_nsec / 1000000;
	*ret = d->energy + d->energy_power * ms / 1000;
	return 0;
}
#endif

EXPORT nvmlReturn_t nvmlDeviceGetComputeMode(struct nvmlDevice_st *h, unsigned *ret)
{
	ENTER(device_of(h), "GetComputeMode");
	return get_number(d->mode, ret);
}

EXPORT const char *nvmlErrorString(nvmlReturn_t result)
{
	return result ? "fake error" : "success";
}

EXPORT nvmlReturn_t nvmlShutdown(void)
{
	return 0;
}

#ifdef FAKE_OLD

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
} nvmlProcessInfo_v1_t;

typedef struct {
	char busId[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
} nvmlPciInfo_v1_t;

EXPORT nvmlReturn_t nvmlInit(void)
{
	return init();
}

EXPORT nvmlReturn_t nvmlDeviceGetCount(unsigned *count)
{
	return get_count(count);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, struct nvmlDevice_st **ret)
{
	return get_handle(index, ret);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo(struct nvmlDevice_st *h, nvmlPciInfo_v1_t *pci)
{
	ENTER(device_of(h), "GetPciInfo");
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->busId, sizeof(pci->busId), "%04X:%02X:%02X.0", d->domain & 0xFFFF, d->bus & 0xFF, d->slot & 0xFF);
	pci->domain = d->domain;
	pci->bus = d->bus;
	pci->device = d->slot;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(
	struct nvmlDevice_st *h, unsigned *count, nvmlProcessInfo_v1_t *infos)
{
	ENTER(device_of(h), "GetComputeRunningProcesses");
	unsigned room = *count;
	*count = d->num_compute;
	if (room < d->num_compute)
		return 7;
	for (unsigned i = 0; i < d->num_compute; i++)
		infos[i] = (nvmlProcessInfo_v1_t){d->compute[i].pid, d->compute[i].used};
	return 0;
}

#else

typedef struct {
	unsigned version;
	unsigned long long total, reserved, free, used;
} nvmlMemory_v2_t;

typedef struct {
	char busIdLegacy[16];
	unsigned domain, bus, device, pciDeviceId, pciSubSystemId;
	char busId[32];
} nvmlPciInfo_t;

typedef struct {
	unsigned pid;
	unsigned long long usedGpuMemory;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlProcessInfo_t;

typedef struct {
	unsigned version;
	int sensorType, temperature;
} nvmlTemperature_t;

typedef struct {
	struct nvmlDevice_st *device;
	unsigned long long eventType, eventData;
	unsigned gpuInstanceId, computeInstanceId;
} nvmlEventData_t;

static unsigned xids_told[MAX_CARDS], calls_for_processes;
static bool watched[MAX_CARDS];

EXPORT nvmlReturn_t nvmlInit_v2(void)
{
	return init();
}

EXPORT nvmlReturn_t nvmlInitWithFlags(unsigned flags)
{
	(void)flags;
	return init();
}

EXPORT nvmlReturn_t nvmlDeviceGetCount_v2(unsigned *count)
{
	return get_count(count);
}

EXPORT nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, struct nvmlDevice_st **ret)
{
	return get_handle(index, ret);
}

EXPORT nvmlReturn_t nvmlDeviceGetPciInfo_v3(struct nvmlDevice_st *h, nvmlPciInfo_t *pci)
{
	ENTER(device_of(h), "GetPciInfo");
	memset(pci, 0, sizeof(*pci));
	snprintf(pci->busIdLegacy, 16, "%04X:%02X:%02X.0", d->domain & 0xFFFF, d->bus & 0xFF, d->slot & 0xFF);
	snprintf(pci->busId, 32, "%08X:%02X:%02X.0", d->domain, d->bus, d->slot);
	pci->domain = d->domain;
	pci->bus = d->bus;
	pci->device = d->slot;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(struct nvmlDevice_st *h, nvmlMemory_v2_t *m)
{
	ENTER(device_of(h), "GetMemoryInfo_v2");
	fault_ = meet_fault(d, "GetMemoryInfo");
	if (fault_)
		return fault_;
	if (m->version != 0x2000028)
		return 25;
	if (d->total == 0)
		return 3;
	*m = (nvmlMemory_v2_t){m->version, d->total, d->reserved, d->free, d->used};
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetTemperatureV(struct nvmlDevice_st *h, nvmlTemperature_t *t)
{
	ENTER(device_of(h), "GetTemperatureV");
	if (t->version != 0x100000C)
		return 25;
	if (d->temperature < 0)
		return 3;
	t->temperature = d->temperature;
	return 0;
}

static nvmlReturn_t get_processes(
	const struct process *list, unsigned have, unsigned *count, nvmlProcessInfo_t *infos, const char *growing)
{
	unsigned room = *count;
	/* For a while, the number of processes grows between calls. */
	if (growing && calls_for_processes++ < (unsigned)atoi(growing)) {
		*count = room + 1;
		return 7;
	}
	*count = have;
	if (room < have)
		return 7;
	for (unsigned i = 0; i < have; i++)
		infos[i] = (nvmlProcessInfo_t){list[i].pid, list[i].used, ~0u, ~0u};
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(
	struct nvmlDevice_st *h, unsigned *count, nvmlProcessInfo_t *infos)
{
	ENTER(device_of(h), "GetComputeRunningProcesses");
	return get_processes(d->compute, d->num_compute, count, infos, getenv("FAKE_NVML_GROWING"));
}

EXPORT nvmlReturn_t nvmlDeviceGetGraphicsRunningProcesses_v3(
	struct nvmlDevice_st *h, unsigned *count, nvmlProcessInfo_t *infos)
{
	ENTER(device_of(h), "GetGraphicsRunningProcesses");
	return get_processes(d->graphics, d->num_graphics, count, infos, NULL);
}

EXPORT nvmlReturn_t nvmlDeviceGetMigMode(struct nvmlDevice_st *h, unsigned *current, unsigned *pending)
{
	ENTER(device_of(h), "GetMigMode");
	*current = *pending = d->mig;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(struct nvmlDevice_st *h, unsigned *count)
{
	ENTER(device_of(h), "GetMaxMigDeviceCount");
	*count = d->mig ? MAX_INSTANCES : 0;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(
	struct nvmlDevice_st *h, unsigned index, struct nvmlDevice_st **ret)
{
	ENTER(device_of(h), "GetMigDeviceHandleByIndex");
	if (index >= MAX_INSTANCES)
		return 2;
	if (!driver.cards[h->card].instances[index].there)
		return 6;
	struct nvmlDevice_st *made = &handles[h->card][index + 1];
	*made = (struct nvmlDevice_st){h->card, (int)index};
	*ret = made;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceGetP2PStatus(struct nvmlDevice_st *h, struct nvmlDevice_st *other, int index, int *status)
{
	ENTER(device_of(h), "GetP2PStatus");
	if (index != 2 || h == other || h->instance >= 0 || other->instance >= 0)
		return 2;
	bool linked = d->nvlinks >> other->card & 1 || device_of(other)->nvlinks >> h->card & 1;
	*status = linked ? 0 : 5;
	return 0;
}

EXPORT nvmlReturn_t nvmlEventSetCreate(void **set)
{
	*set = &watched;
	return 0;
}

EXPORT nvmlReturn_t nvmlDeviceRegisterEvents(struct nvmlDevice_st *h, unsigned long long types, void *set)
{
	ENTER(device_of(h), "RegisterEvents");
	if (set != &watched || types != 8)
		return 2;
	watched[h->card] = true;
	return 0;
}

static nvmlReturn_t next_xid(nvmlEventData_t *event)
{
	ENTER(&driver.library, "EventSetWait");
	for (unsigned i = 0; i < driver.num_cards; i++) {
		const struct device *card = &driver.cards[i].device;
		if (!watched[i] || xids_told[i] >= card->num_xids)
			continue;
		*event = (nvmlEventData_t){&handles[i][0], 8, card->xids[xids_told[i]++], ~0u, ~0u};
		return 0;
	}
	return 10;
}

EXPORT nvmlReturn_t nvmlEventSetWait_v2(void *set, nvmlEventData_t *event, unsigned timeout_ms)
{
	if (set != &watched)
		return 2;
	for (unsigned waited = 0; waited < timeout_ms; waited += 5) {
		nvmlReturn_t r = next_xid(event);
		if (r != 10)
			return r;
		usleep(5000);
	}
	return 10;
}

#endif
