/* SPDX-License-Identifier: MIT */
/* gpuq slurm check: evaluates the node's report, or explains why there is none. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/date.h"
#include "base/error.h"
#include "base/lock.h"
#include "base/units.h"
#include "cli/slurm_check.h"

/* A larger difference confuses users who compare logs of different hosts, and programs that compare file times. */
#define MOST_SKEW_MS 2000

bool slurm_check_find(const char *report, const char *key, char *ret, size_t size)
{
	size_t n = strlen(key);
	for (const char *line = report; *line; line += strcspn(line, "\n"), line += *line == '\n')
		if (strncmp(line, key, n) == 0 && line[n] == ' ') {
			snprintf(ret, size, "%.*s", (int)strcspn(line + n + 1, "\n"), line + n + 1);
			return true;
		}
	*ret = '\0';
	return false;
}

static bool find_number(const struct slurm_check *c, const char *key, int64_t *ret)
{
	char text[32], *end;
	if (!slurm_check_find(c->report, key, text, sizeof(text)))
		return false;
	*ret = strtoll(text, &end, 10);
	return end != text && !*end;
}

/* ---- No report -------------------------------------------------------------------------- */

static const char *advice_for_pending(const char *reason)
{
	if (strstr(reason, "TimeLimit"))
		return "ask for less time: --time in --slurm; 'sinfo -o \"%P %l\"' shows what partitions allow";
	if (strncmp(reason, "Assoc", 5) == 0 || strncmp(reason, "QOS", 3) == 0 || strstr(reason, "Limit"))
		return "a limit of your account or QOS: ask for less (--gres, --time), or ask the administrator for more";
	if (strstr(reason, "Account") || strstr(reason, "QOS"))
		return "name an account or QOS that you may use: --account, --qos in --slurm";
	if (strstr(reason, "Partition"))
		return "name another partition: --partition in --slurm; 'sinfo' lists them";
	if (strstr(reason, "Node") || strstr(reason, "Reserv"))
		return "no node can run such a job now; 'sinfo -R' shows why nodes are down; ask the administrator";
	return "the cluster is busy: try again later, or with a longer --wait";
}

static void explain_silence(struct slurm_check *c)
{
	struct doctor *d = &c->doctor;
	char waited[UNITS_ROOM];
	units_format_duration(c->wait_ms, waited);
	if (strcmp(c->job.state, "PENDING") == 0)
		doctor_add(d, DOCTOR_PROBLEM, "start", advice_for_pending(c->job.reason),
			"job %" PRIu64 " did not start within %s; Slurm gives the reason %s", c->job.id, waited,
			c->job.reason);
	else if (strcmp(c->job.state, "RUNNING") == 0 || strcmp(c->job.state, "COMPLETING") == 0 || !*c->job.state)
		doctor_add(d, DOCTOR_PROBLEM, "report", "see the log of slurmd on that node",
			"job %" PRIu64 " runs, but sent no report for %s", c->job.id, waited);
	else if (c->job.exit_code == 126 || c->job.exit_code == 127)
		doctor_add(d, DOCTOR_PROBLEM, "program",
			"install gpuq on a file system that all nodes share, or in the same place on every node",
			"gpuq-slurm cannot be executed on the node");
	else if (c->job.exit_code == NODE_CHECK_SILENT)
		doctor_add(d, DOCTOR_PROBLEM, "network and files",
			"ask for TCP connections from compute nodes to this host, and put the queue on a file system that the nodes share",
			"the node can neither connect to %s port %u nor see '%s'", c->address.host, c->address.port,
			c->dir);
	else
		doctor_add(d, DOCTOR_PROBLEM, "report", "see the log of slurmd on that node",
			"job %" PRIu64 " ended without a report: %s, exit code %d", c->job.id, c->job.state,
			c->job.exit_code);
}

/* ---- The report ------------------------------------------------------------------------- */

static void check_network(struct slurm_check *c)
{
	int64_t code = 0;
	if (c->by_tcp)
		doctor_add(&c->doctor, DOCTOR_OK, "TCP", NULL, "the node has connected to %s", c->address.host);
	else
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "TCP",
			"ask for TCP connections from compute nodes to ports above 1024 of this host, or name another of its addresses with --slurm-address",
			"the node cannot connect to %s port %u: %s", c->address.host, c->address.port,
			find_number(c, "tcp", &code) && code < 0 ? error_words((int)code)
								 : "its report did not arrive");
}

static void check_clock(struct slurm_check *c)
{
	int64_t time;
	if (!find_number(c, "time", &time))
		return;
	/* A report through a file takes some time to arrive: allow for this delay. */
	int64_t late = c->received_ms - time, slack = c->by_tcp ? 0 : 2000, off = late < 0 ? -late : late - slack;
	char words[UNITS_ROOM];
	units_format_duration(off > 0 ? (uint64_t)off : 0, words);
	if (off > MOST_SKEW_MS)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "clock",
			"ask for time synchronization (NTP, chrony) on all hosts", "the clock of the node is %s %s",
			words, late < 0 ? "ahead" : "behind");
	else
		doctor_add(&c->doctor, DOCTOR_OK, "clock", NULL, "differs by less than %d s", MOST_SKEW_MS / 1000);
}

const char *slurm_check_lock_advice(void)
{
	return "ask for a file system whose POSIX locks work between hosts (NFS: without nolock or local_lock; Lustre: mount option flock), "
	       "or put the queue on such a file system";
}

/* Returns whether they work. */
static bool check_locks(struct slurm_check *c)
{
	int64_t seen = 0, own = 0;
	pid_t holder = 0;
	char host[80], here[65] = "";
	gethostname(here, sizeof(here) - 1);
	(void)slurm_check_find(c->report, "host", host, sizeof(host));
	bool told = find_number(c, "lock", &seen) && find_number(c, "own_lock", &own);
	int r = own == 0 ? lock_holder_at(c->dir_fd, NODE_CHECK_NODE_LOCK, &holder) : 0;
	const char *wrong = !told         ? "the node has not tested them"
			    : seen < 0    ? error_words((int)seen)
			    : own < 0     ? error_words((int)own)
			    : r < 0       ? error_words(r)
			    : seen == 0   ? "the node does not see a lock of this host"
			    : holder == 0 ? "this host does not see a lock of the node"
					  : NULL;
	if (wrong)
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "locks", slurm_check_lock_advice(),
			"do not work between hosts: %s", wrong);
	else if (strcmp(host, here) == 0)
		doctor_add(&c->doctor, DOCTOR_NOTE, "locks",
			"exclude this host with --slurm '--exclude=NODE' to test two hosts",
			"work, but the job ran on this host");
	else
		doctor_add(&c->doctor, DOCTOR_OK, "locks", NULL, "are seen from both hosts");
	return !wrong;
}

static bool check_files(struct slurm_check *c)
{
	int64_t code = -EIO;
	(void)find_number(c, "folder", &code);
	if (code < 0) {
		doctor_add(&c->doctor, DOCTOR_PROBLEM, "shared",
			"put the queue on a file system that login node and compute nodes share, under the same path: --jobs-file",
			"the node does not see '%s': %s", c->dir, error_words((int)code));
		return false;
	}
	doctor_add(&c->doctor, DOCTOR_OK, "shared", NULL, "the node sees the directory of the queue");
	return check_locks(c);
}

static void check_gpus(struct slurm_check *c)
{
	int64_t granted = -1, usable = 0, sized = 0;
	struct doctor *d = &c->doctor;
	(void)find_number(c, "granted", &granted);
	(void)find_number(c, "usable", &usable);
	(void)find_number(c, "sized", &sized);
	if (usable < 0)
		doctor_add(d, DOCTOR_PROBLEM, "GPUs", "ask the administrator to look at the driver of that node",
			"cannot be listed on the node: %s", error_words((int)usable));
	else if (granted <= 0)
		doctor_add(d, DOCTOR_NOTE, "GPUs", "ask for them: --slurm '--gres=gpu:1'", "Slurm has granted none");
	else if (usable != granted)
		doctor_add(d, DOCTOR_PROBLEM, "GPUs",
			"ask the administrator to compare gres.conf with nvidia-smi on that node (File=, AutoDetect=nvml, ConstrainDevices)",
			"Slurm has granted %" PRId64 ", but the driver shows %" PRId64 " of them", granted, usable);
	else if (sized < usable)
		doctor_add(d, DOCTOR_NOTE, "GPUs",
			"ask for NVIDIA's management library (libnvidia-ml.so.1) on the nodes: without it, the memory of GPUs is unknown, and each GPU runs one job at a time",
			"%" PRId64 " granted; no driver can be queried about them", granted);
	else
		doctor_add(d, DOCTOR_OK, "GPUs", NULL, "%" PRId64 " granted, and the driver shows the same", granted);
}

static void check_time(struct slurm_check *c)
{
	int64_t left = -1;
	char words[UNITS_ROOM];
	(void)find_number(c, "left", &left);
	if (left < 0) {
		doctor_add(&c->doctor, DOCTOR_OK, "time limit", NULL, "none");
		return;
	}
	doctor_add(&c->doctor, DOCTOR_OK, "time limit", NULL, "a pilot has %s",
		units_format_duration((uint64_t)left, words));
	slurm_check_longest(c, left);
}

bool slurm_check_report(struct slurm_check *c)
{
	struct doctor *d = &c->doctor;
	char node[80], version[32];
	if (!*c->report) {
		explain_silence(c);
		return false;
	}
	(void)slurm_check_find(c->report, "node", node, sizeof(node));
	(void)slurm_check_find(c->report, "version", version, sizeof(version));
	doctor_add(d, DOCTOR_OK, "start", NULL, "job %" PRIu64 " ran on node %s", c->job.id, node);
	if (strcmp(version, GD_VERSION) != 0)
		doctor_add(d, DOCTOR_PROBLEM, "version", "install the same version of gpuq everywhere",
			"gpuq is %s there and " GD_VERSION " here", version);
	d->section = "Node";
	check_network(c);
	check_clock(c);
	bool locks = check_files(c);
	check_gpus(c);
	check_time(c);
	return locks;
}
