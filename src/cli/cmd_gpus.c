/* SPDX-License-Identifier: MIT */
/* gpuq gpus: lists the GPUs and their memory usage. */
#include <argp.h>
#include <errno.h>
#include <pwd.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file.h"
#include "base/json_put.h"
#include "base/table.h"
#include "base/terminal.h"
#include "base/units.h"
#include "cli/arguments.h"
#include "cli/command.h"
#include "cli/exit_code.h"
#include "cli/say.h"

/* /proc/self/ns/pid of the PID namespace that the driver uses. */
#define INITIAL_PID_NAMESPACE 0xEFFFFFFCu

enum {
	OPTION_GPUS = 256,
	OPTION_JSON,
};

struct arguments {
	const char *spec;
	bool json;
};

static error_t parse_option(int key, char *value, struct argp_state *state)
{
	struct arguments *a = state->input;
	switch (key) {
	case OPTION_GPUS:
		a->spec = value;
		return 0;
	case OPTION_JSON:
		a->json = true;
		return 0;
	case ARGP_KEY_ARG:
		arguments_error(state, "unexpected argument '%s'; select GPUs with --gpus", value);
		return EINVAL;
	default:
		return ARGP_ERR_UNKNOWN;
	}
}

static const struct argp_option options[] = {
	{"gpus", OPTION_GPUS, "SPEC", 0,
		"Show only these: auto, 0,1,2, 0-3, GPU-uuid, MIG-uuid, or simulated ones: sim:4, sim:4x16G. "
		"Default: $GPUQ_GPUS, else all GPUs, even unusable ones",
		0},
	{"json", OPTION_JSON, NULL, 0,
		"Print a JSON array with an object per GPU, in the order of their index or of --gpus", 0},
	{0},
};

static const struct argp_child children[] = {{&command_help_argp, 0, NULL, 0}, {0}};
static const struct argp argp = {
	.children = children,
	.options = options,
	.parser = parse_option,
	.doc = "List the GPUs, the one with the most free memory first, and the processes on them."
	       "\vAn inherited CUDA_VISIBLE_DEVICES limits what is listed.",
};

/* ---- JSON --------------------------------------------------------------- */

static void put_string(struct text *t, const struct gd_gpu *gpu, unsigned bit, const char *key, const char *value)
{
	if (gpu->known & bit)
		json_put_string(t, key, value);
	else
		json_put_null(t, key);
}

static void put_number(struct text *t, const struct gd_gpu *gpu, unsigned bit, const char *key, uint64_t value)
{
	if (gpu->known & bit)
		json_put_int(t, key, (int64_t)value);
	else
		json_put_null(t, key);
}

static void put_processes(struct text *t, const struct gd_gpu *gpu)
{
	if (!(gpu->known & GD_GPU_KNOWN_PROCESSES)) {
		json_put_null(t, "processes");
		return;
	}
	json_open(t, "processes", '[');
	for (size_t i = 0; i < gpu->num_processes; i++) {
		const struct gd_gpu_process *p = gpu->processes[i];
		json_open(t, NULL, '{');
		json_put_int(t, "pid", p->pid);
		if (p->memory_known)
			json_put_int(t, "memory", (int64_t)p->memory_bytes);
		else
			json_put_null(t, "memory");
		json_close(t, '}');
	}
	json_close(t, ']');
}

/* The card at the other end of a link; NULL if it is not listed. */
static const struct gd_gpu *linked_card(const struct gd_gpu_list *list, const struct gd_gpu *gpu, int number)
{
	if (!(gpu->known & GD_GPU_KNOWN_LINKS) || !(gpu->links >> number & 1))
		return NULL;
	for (size_t i = 0; i < list->count; i++)
		if (list->gpus[i]->vendor == gpu->vendor && list->gpus[i]->vendor_index == number &&
			list->gpus[i]->mig_index < 0)
			return list->gpus[i];
	return NULL;
}

static void put_links(struct text *t, const struct gd_gpu_list *list, const struct gd_gpu *gpu)
{
	if (!(gpu->known & GD_GPU_KNOWN_LINKS)) {
		json_put_null(t, "links");
		return;
	}
	json_open(t, "links", '[');
	for (int i = 0; i < 64; i++) {
		const struct gd_gpu *other = linked_card(list, gpu, i);
		if (other)
			json_put_int(t, NULL, other->index);
	}
	json_close(t, ']');
}

static void append_json(const struct gd_gpu_list *list, struct text *t)
{
	json_open(t, NULL, '[');
	for (size_t i = 0; i < list->count; i++) {
		const struct gd_gpu *gpu = list->gpus[i];
		json_open(t, NULL, '{');
		json_put_int(t, "index", gpu->index);
		put_string(t, gpu, GD_GPU_KNOWN_UUID, "uuid", gpu->uuid);
		put_string(t, gpu, GD_GPU_KNOWN_NAME, "name", gpu->name);
		json_put_string(t, "vendor", gd_vendor_name(gpu->vendor));
		put_string(t, gpu, GD_GPU_KNOWN_PCI_ID, "pci_id", gpu->pci_id);
		put_number(t, gpu, GD_GPU_KNOWN_MEMORY_TOTAL, "memory_total", gpu->memory_total_bytes);
		put_number(t, gpu, GD_GPU_KNOWN_MEMORY_FREE, "memory_free", gpu->memory_free_bytes);
		put_number(t, gpu, GD_GPU_KNOWN_MEMORY_USED, "memory_used", gpu->memory_used_bytes);
		put_number(t, gpu, GD_GPU_KNOWN_UTILIZATION, "utilization", gpu->utilization_percent);
		put_processes(t, gpu);
		put_number(t, gpu, GD_GPU_KNOWN_NUMA_NODE, "numa_node", (uint64_t)gpu->numa_node);
		put_links(t, list, gpu);
		json_close(t, '}');
	}
	json_close(t, ']');
	text_append_char(t, '\n');
}

/* ---- The table ---------------------------------------------------------- */

/* The most free memory first; GPUs that are unusable or whose free memory is unknown last. */
static int by_free_memory(const void *x, const void *y)
{
	const struct gd_gpu *a = *(const struct gd_gpu *const *)x, *b = *(const struct gd_gpu *const *)y;
	bool a_tells = gd_gpu_usable(a) && (a->known & GD_GPU_KNOWN_MEMORY_FREE);
	bool b_tells = gd_gpu_usable(b) && (b->known & GD_GPU_KNOWN_MEMORY_FREE);
	if (a_tells != b_tells)
		return a_tells ? -1 : 1;
	if (a_tells && a->memory_free_bytes != b->memory_free_bytes)
		return a->memory_free_bytes > b->memory_free_bytes ? -1 : 1;
	if (a->index != b->index)
		return a->index < b->index ? -1 : 1;
	return (a->mig_index > b->mig_index) - (a->mig_index < b->mig_index);
}

/* "0", or "0:1" for a MIG instance. */
static void put_index(struct table *t, const struct gd_gpu *gpu)
{
	if (gpu->mig_index < 0)
		table_cellf(t, TERMINAL_BOLD, "%d", gpu->index);
	else
		table_cellf(t, TERMINAL_BOLD, "%d:%d", gpu->index, gpu->mig_index);
}

static void put_bytes(struct table *t, enum terminal_color color, bool known, uint64_t bytes)
{
	char size[UNITS_ROOM];
	table_cell(t, known ? color : TERMINAL_DIM, known ? units_format_size(bytes, size) : "-");
}

static enum terminal_color color_of_free(const struct gd_gpu *gpu)
{
	unsigned both = GD_GPU_KNOWN_MEMORY_FREE | GD_GPU_KNOWN_MEMORY_TOTAL;
	if ((gpu->known & both) != both)
		return TERMINAL_NONE;
	if (gpu->memory_free_bytes >= gpu->memory_total_bytes / 2)
		return TERMINAL_GREEN;
	return gpu->memory_free_bytes >= gpu->memory_total_bytes / 10 ? TERMINAL_YELLOW : TERMINAL_RED;
}

static const char *state_words(const struct gd_gpu *gpu)
{
	switch (gpu->health) {
	case GD_GPU_HEALTH_OK:
		break;
	case GD_GPU_HEALTH_LOST:
		return "lost";
	case GD_GPU_HEALTH_NOT_ANSWERING:
		return "no answer";
	case GD_GPU_HEALTH_UNREADABLE:
		return "unreadable";
	}
	if (gpu->mig_enabled && gpu->mig_index < 0)
		return "split";
	return gpu->prohibited ? "prohibited" : gpu->exclusive ? "exclusive" : "";
}

static void put_measure(struct table *t, bool known, unsigned value, const char *unit)
{
	if (known)
		table_cellf(t, TERMINAL_NONE, "%u%s", value, unit);
	else
		table_cell(t, TERMINAL_DIM, "-");
}

/* For a MIG instance, its size instead of the card's name. */
static const char *name_of(const struct gd_gpu *gpu)
{
	if (!(gpu->known & GD_GPU_KNOWN_NAME))
		return gd_vendor_name(gpu->vendor);
	const char *profile = gpu->mig_index >= 0 ? strstr(gpu->name, "MIG ") : NULL;
	return profile ? profile : gpu->name;
}

/* "0,1": the cards that have a direct link to this one. */
static void put_linked(struct table *t, const struct gd_gpu_list *list, const struct gd_gpu *gpu)
{
	cleanup_(text_finish) struct text words = {0};
	for (int i = 0; i < 64; i++) {
		const struct gd_gpu *other = linked_card(list, gpu, i);
		if (other)
			text_appendf(&words, "%s%d", words.length ? "," : "", other->index);
	}
	table_cell(t, words.length ? TERMINAL_NONE : TERMINAL_DIM, words.length ? text_string(&words) : "-");
}

static void put_gpu(struct table *t, const struct gd_gpu_list *list, const struct gd_gpu *gpu)
{
	put_index(t, gpu);
	table_cell(t, TERMINAL_NONE, name_of(gpu));
	put_bytes(t, color_of_free(gpu), gpu->known & GD_GPU_KNOWN_MEMORY_FREE, gpu->memory_free_bytes);
	put_bytes(t, TERMINAL_NONE, gpu->known & GD_GPU_KNOWN_MEMORY_TOTAL, gpu->memory_total_bytes);
	put_measure(t, gpu->known & GD_GPU_KNOWN_UTILIZATION, gpu->utilization_percent, "%");
	put_measure(t, gpu->known & GD_GPU_KNOWN_TEMPERATURE, (unsigned)gpu->temperature_celsius, "C");
	put_measure(t, gpu->known & GD_GPU_KNOWN_POWER, (gpu->power_milliwatts + 500) / 1000, "W");
	put_measure(t, gpu->known & GD_GPU_KNOWN_PROCESSES, (unsigned)gpu->num_processes, "");
	put_measure(t, gpu->known & GD_GPU_KNOWN_NUMA_NODE, (unsigned)gpu->numa_node, "");
	put_linked(t, list, gpu);
	table_cell(t, gd_gpu_usable(gpu) ? TERMINAL_YELLOW : TERMINAL_RED, state_words(gpu));
}

static int append_gpus(const struct gd_gpu_list *list, const struct gd_gpu **gpus, bool colored, struct text *out)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"NAME", false, true},
		{"FREE", true, false}, {"TOTAL", true, false}, {"UTIL", true, false}, {"TEMP", true, false},
		{"PWR", true, false}, {"PROCS", true, false}, {"NUMA", true, false}, {"LINKS", false, false},
		{"STATE", false, false}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	for (size_t i = 0; i < list->count; i++)
		put_gpu(&t, list, gpus[i]);
	return table_print(&t, terminal_width(), colored, out);
}

/* ---- Processes ---------------------------------------------------------- */

/* The driver reports PIDs of the host; in a container these are other processes, or do not exist. */
static bool pids_are_ours(void)
{
	struct stat st;
	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino == INITIAL_PID_NAMESPACE;
}

/* The command line, its arguments joined by spaces; "" if the process has ended or is in another namespace. */
static void read_command(int64_t pid, struct text *ret)
{
	char path[64], words[4096];
	snprintf(path, sizeof(path), "/proc/%lld/cmdline", (long long)pid);
	cleanup_(fclosep) FILE *f = fopen(path, "re");
	size_t n = f ? fread(words, 1, sizeof(words), f) : 0;
	while (n > 0 && words[n - 1] == '\0')
		n--;
	for (size_t i = 0; i < n; i++)
		text_append_char(ret, words[i] ? words[i] : ' ');
}

static void put_owner(struct table *t, int64_t pid)
{
	char path[64];
	struct stat st;
	snprintf(path, sizeof(path), "/proc/%lld", (long long)pid);
	if (stat(path, &st) < 0) {
		table_cell(t, TERMINAL_NONE, "");
		return;
	}
	const struct passwd *user = getpwuid(st.st_uid);
	if (user)
		table_cell(t, TERMINAL_NONE, user->pw_name);
	else
		table_cellf(t, TERMINAL_NONE, "%u", (unsigned)st.st_uid);
}

static void put_process(struct table *t, const struct gd_gpu *gpu, const struct gd_gpu_process *p, bool ours)
{
	cleanup_(text_finish) struct text command = {0};
	put_index(t, gpu);
	table_cellf(t, TERMINAL_NONE, "%lld", (long long)p->pid);
	put_bytes(t, TERMINAL_NONE, p->memory_known, p->memory_bytes);
	if (ours) {
		put_owner(t, p->pid);
		read_command(p->pid, &command);
	} else {
		table_cell(t, TERMINAL_NONE, "");
	}
	table_cell(t, TERMINAL_NONE, text_string(&command));
}

static int append_processes(const struct gd_gpu **gpus, size_t count, bool colored, struct text *out)
{
	static const struct table_column columns[] = {{"GPU", true, false}, {"PID", true, false},
		{"MEMORY", true, false}, {"USER", false, false}, {"COMMAND", false, true}};
	cleanup_(table_finish) struct table t = {.columns = columns, .num_columns = sizeof(columns) / sizeof(*columns)};
	bool ours = pids_are_ours();
	for (size_t i = 0; i < count; i++)
		for (size_t k = 0; k < gpus[i]->num_processes; k++)
			put_process(&t, gpus[i], gpus[i]->processes[k], ours);
	if (t.num_cells == 0)
		return t.error;
	text_append_char(out, '\n');
	return table_print(&t, terminal_width(), colored, out);
}

static int append_tables(const struct gd_gpu_list *list, struct text *out)
{
	if (list->count == 0) {
		text_append_string(
			out, "No GPU found. To simulate some, use --gpus sim:4, or sim:4x24G for more memory.\n");
		return 0;
	}
	cleanup_(freep) const struct gd_gpu **sorted = calloc(list->count, sizeof(*sorted));
	if (!sorted)
		return -ENOMEM;
	for (size_t i = 0; i < list->count; i++)
		sorted[i] = list->gpus[i];
	qsort(sorted, list->count, sizeof(*sorted), by_free_memory);
	bool colored = terminal_has_color();
	int r = append_gpus(list, sorted, colored, out);
	return r < 0 ? r : append_processes(sorted, list->count, colored, out);
}

/* ---- The command -------------------------------------------------------- */

static int get_list(const char *spec, struct gd_gpu_list **ret, struct gd_error *err)
{
	const char *usual = getenv("GPUQ_GPUS");
	return spec || (usual && *usual) ? gd_gpu_list(spec, ret, err) : gd_gpu_survey(ret, err);
}

static int run(int argc, char **argv)
{
	struct arguments a = {0};
	command_parse(&argp, argc, argv, &a);
	struct gd_gpu_list *list;
	struct gd_error err = {0};
	if (get_list(a.spec, &list, &err) < 0)
		return say_error(&err);

	cleanup_(text_finish) struct text out = {0};
	int r = 0;
	if (a.json)
		append_json(list, &out);
	else
		r = append_tables(list, &out);
	say_warnings(list);
	gd_gpu_list_free(list);
	if (r < 0 || text_error(&out)) {
		say("cannot list GPUs: out of memory");
		return EXIT_WORK_FAILED;
	}
	fputs(text_string(&out), stdout);
	return EXIT_DONE;
}

const struct command cmd_gpus = {"gpus", "Show the GPUs, their memory and their processes", run};
