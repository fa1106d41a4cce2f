/* SPDX-License-Identifier: MIT */
/* Memory and CPUs of the machine, and how cgroups and affinity limit them. */
#include <sched.h>
#include <unistd.h>

#include "base/host.h"
#include "support/check.h"
#include "support/scratch.h"

#define MB (UINT64_C(1) << 20)

static void put(const char *path, const char *text)
{
	scratch_make_above(path);
	scratch_write_text(path, text);
}

static void put_machine(const char *cgroup)
{
	put("proc/meminfo", "MemTotal:        8388608 kB\nMemFree:          100 kB\nMemAvailable:    6291456 kB\n");
	put("proc/self/cgroup", cgroup);
}

static struct host_limits look(void)
{
	struct host_limits h;
	host_read("proc", "sys", &h);
	return h;
}

static unsigned affinity(void)
{
	cpu_set_t set;
	assert_int_equal(sched_getaffinity(0, sizeof(set), &set), 0);
	return (unsigned)CPU_COUNT(&set);
}

static void test_machine_without_limits(void **state)
{
	(void)state;
	put_machine("0::/user.slice\n");
	struct host_limits h = look();
	assert_true(h.memory_known);
	assert_int_equal(h.memory_total_bytes, 8192 * MB);
	assert_int_equal(h.memory_available_bytes, 6144 * MB);
	assert_int_equal(h.cpus, affinity());
}

static void test_smallest_limit_of_all_groups_above_counts(void **state)
{
	(void)state;
	put_machine("0::/a/b\n");
	put("sys/fs/cgroup/a/memory.max", "1073741824\n");
	put("sys/fs/cgroup/a/memory.current", "734003200\n");
	put("sys/fs/cgroup/a/memory.stat", "anon 5\ninactive_file 209715200\nactive_file 1\n");
	put("sys/fs/cgroup/a/b/memory.max", "max\n");
	put("sys/fs/cgroup/a/b/cpu.max", "max 100000\n");
	put("sys/fs/cgroup/a/cpu.max", "150000 100000\n");
	struct host_limits h = look();
	assert_int_equal(h.memory_total_bytes, 1024 * MB);
	assert_int_equal(h.memory_available_bytes, (1024 - 700 + 200) * MB);
	assert_int_equal(h.cpus, 1);
}

static void test_version_1_of_cgroups(void **state)
{
	(void)state;
	put_machine("5:cpu,cpuacct:/docker/77\n4:memory:/docker/77\n1:name=systemd:/x\n");
	/* The path is the host's; the container sees only the root. */
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n");
	put("sys/fs/cgroup/memory/memory.usage_in_bytes", "104857600\n");
	put("sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 52428800\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "50000\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n");
	struct host_limits h = look();
	assert_int_equal(h.memory_total_bytes, 512 * MB);
	assert_int_equal(h.memory_available_bytes, (512 - 100 + 50) * MB);
	assert_int_equal(h.cpus, 1);
	put("sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("sys/fs/cgroup/cpu/cpu.cfs_quota_us", "-1\n");
	h = look();
	assert_int_equal(h.memory_total_bytes, 8192 * MB);
	assert_int_equal(h.cpus, affinity());
}

static void test_affinity_limits_the_cpus(void **state)
{
	(void)state;
	cpu_set_t before, one;
	put_machine("0::/\n");
	assert_int_equal(sched_getaffinity(0, sizeof(before), &before), 0);
	CPU_ZERO(&one);
	for (int i = 0; i < CPU_SETSIZE && CPU_COUNT(&one) == 0; i++)
		if (CPU_ISSET(i, &before))
			CPU_SET(i, &one);
	assert_int_equal(sched_setaffinity(0, sizeof(one), &one), 0);
	assert_int_equal(look().cpus, 1);
	assert_int_equal(sched_setaffinity(0, sizeof(before), &before), 0);
}

static void test_what_cannot_be_read_is_unknown(void **state)
{
	(void)state;
	struct host_limits h = look();
	assert_false(h.memory_known);
	assert_int_equal(h.cpus, affinity());
	put("proc/meminfo", "rubbish\n");
	put("proc/self/cgroup", "0::relative\n::\n0\n\n");
	assert_false(look().memory_known);
	host_read(NULL, NULL, &h);
	assert_true(h.memory_known && h.memory_total_bytes > 0 && h.memory_available_bytes <= h.memory_total_bytes);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		scratch_test(test_machine_without_limits),
		scratch_test(test_smallest_limit_of_all_groups_above_counts),
		scratch_test(test_version_1_of_cgroups),
		scratch_test(test_affinity_limits_the_cpus),
		scratch_test(test_what_cannot_be_read_is_unknown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
