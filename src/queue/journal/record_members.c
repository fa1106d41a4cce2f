/* SPDX-License-Identifier: MIT */
#include "queue/journal/record_members.h"

#define MEMBER(key, kind, field)                                                                                       \
	{                                                                                                              \
		"\"" key "\":", sizeof(key) - 1, MEMBER_##kind, offsetof(struct record, field)                         \
	}

/* Sorted by length; within one length, the frequent ones first. */
const struct record_member record_members[] = {
	MEMBER("id", ID, id),
	MEMBER("by", STRING, by),
	MEMBER("to", INT, to),
	MEMBER("pid", INT, pid),
	MEMBER("try", INT, try_number),
	MEMBER("cwd", STRING, cwd),
	MEMBER("env", STRING, env),
	MEMBER("log", STRING, log),
	MEMBER("gpu", STRING, gpu),
	MEMBER("time", TIME, time_ms),
	MEMBER("gpus", ARRAY, gpus),
	MEMBER("name", STRING, name),
	MEMBER("file", STRING, file),
	MEMBER("host", STRING, host),
	MEMBER("hook", BOOL, hook),
	MEMBER("boot", STRING, boot),
	MEMBER("held", BOOL, held),
	MEMBER("must", BOOL, must),
	MEMBER("from", INT, from),
	MEMBER("cpus", INT, cpus),
	MEMBER("tags", ARRAY, tags),
	MEMBER("tree", STRING, tree),
	MEMBER("idle", SECONDS, idle_ms),
	MEMBER("node", STRING, node),
	MEMBER("event", EVENT, event),
	MEMBER("after", ARRAY, after),
	MEMBER("queue", STRING, queue),
	MEMBER("group", INT, group),
	MEMBER("begin", TIME, begin_ms),
	MEMBER("pidns", STRING, pidns),
	MEMBER("lines", STRING, lines),
	MEMBER("since", TIME, since_ms),
	MEMBER("pilot", STRING, pilot),
	MEMBER("epoch", INT, epoch),
	MEMBER("lease", SECONDS, lease_ms),
	MEMBER("until", TIME, until_ms),
	MEMBER("status", STRING, status),
	MEMBER("keeper", STRING, keeper),
	MEMBER("mem_mb", MB, mem_mb),
	MEMBER("reason", STRING, reason),
	MEMBER("script", STRING, script),
	MEMBER("commit", STRING, commit),
	MEMBER("signal", INT, signal),
	MEMBER("gpu_id", GPU, gpus),
	MEMBER("paused", BOOL, paused),
	MEMBER("command", STRING, command),
	MEMBER("attempt", SMALL, attempt),
	MEMBER("timeout", SECONDS, timeout_ms),
	MEMBER("retries", INT, retries),
	MEMBER("records", INT, records),
	MEMBER("log_dir", STRING, log_dir),
	MEMBER("version", SMALL, version),
	MEMBER("next_id", ID, next_id),
	MEMBER("cwd_own", BOOL, cwd_own),
	MEMBER("cwd_dev", INT, cwd_dev),
	MEMBER("cwd_ino", INT, cwd_ino),
	MEMBER("cwd_b64", STRING, cwd_b64),
	MEMBER("log_b64", STRING, log_b64),
	MEMBER("on_idle", STRING, on_idle),
	MEMBER("started", TIME, started_ms),
	MEMBER("duration", SECONDS, duration_ms),
	MEMBER("num_gpus", INT, num_gpus),
	MEMBER("priority", INT, priority),
	MEMBER("name_b64", STRING, name_b64),
	MEMBER("tree_b64", STRING, tree_b64),
	MEMBER("file_b64", STRING, file_b64),
	MEMBER("log_file", STRING, log),
	MEMBER("energy_j", INT, energy_j),
	MEMBER("exit_code", INT, exit_code),
	MEMBER("on_finish", STRING, on_finish),
	MEMBER("exclusive", BOOL, exclusive),
	MEMBER("idle_warn", SECONDS, idle_warn_ms),
	MEMBER("after_any", ARRAY, after_any),
	MEMBER("slurm_job", INT, slurm_job),
	MEMBER("generation", INT, generation),
	MEMBER("start_time", ANY, start_time),
	MEMBER("allocation", STRING, allocation),
	MEMBER("requeue_on", INT, requeue_on),
	MEMBER("peak_mem_mb", MB, peak_mem_mb),
	MEMBER("host_mem_mb", MB, host_mem_mb),
	MEMBER("array_index", INT, array_index),
	MEMBER("script_name", STRING, script_name),
	MEMBER("command_b64", STRING, command_b64),
	MEMBER("on_idle_b64", STRING, on_idle_b64),
	MEMBER("log_dir_b64", STRING, log_dir_b64),
	MEMBER("on_finish_b64", STRING, on_finish_b64),
	MEMBER("signal_before", SECONDS, signal_before_ms),
	MEMBER("min_free_mem_mb", MB, min_free_mem_mb),
};

#define MAX_KEY 15

/* Index of the first member of each length. */
static void index_members(unsigned char first[MAX_KEY + 2])
{
	for (size_t i = 0; i < RECORD_NUM_MEMBERS; i++)
		for (size_t size = record_members[i].size + 1; size < MAX_KEY + 2; size++)
			first[size]++;
}

size_t record_member_find(const struct json_value *key)
{
	static unsigned char first[MAX_KEY + 2];
	if (!first[MAX_KEY + 1])
		index_members(first);
	if (key->size > MAX_KEY || key->escaped)
		return RECORD_NUM_MEMBERS;
	for (size_t i = first[key->size]; i < first[key->size + 1]; i++)
		if (json_same_bytes(record_members[i].quoted + 1, key->data, key->size))
			return i;
	return RECORD_NUM_MEMBERS;
}
