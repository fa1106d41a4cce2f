/* SPDX-License-Identifier: MIT */
/*
 * Queries the Slurm of SLURM_CONF as the coordinator does, and prints the answers:
 *
 *     ask_slurm submit NAME OPTIONS SCRIPT → RESULT ID WORDS
 *     ask_slurm cancel ID
 *     ask_slurm list PREFIX → a line for each job and node
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/loop.h"
#include "slurm/slurm_client.h"

static bool answered;

static void on_submitted(void *context, const char *name, int result, uint64_t slurm_job, const char *words)
{
	(void)context;
	(void)name;
	printf("%d %llu %s\n", result, (unsigned long long)slurm_job, words);
	answered = true;
}

static void on_listed(void *context, uint64_t begun_ns, const struct slurm_listing *l, const char *words)
{
	(void)context;
	(void)begun_ns;
	printf("listing %d %d %d %s\n", l->ok, l->boot_before_ms == l->boot_after_ms && l->boot_after_ms > 0, l->cgroup,
		words);
	for (size_t i = 0; i < l->num_jobs; i++)
		printf("job %llu %s %d %s\n", (unsigned long long)l->jobs[i].slurm_job, l->jobs[i].name,
			(int)l->jobs[i].state, l->jobs[i].node);
	for (size_t i = 0; i < l->num_nodes; i++)
		printf("node %s %d %lld\n", l->nodes[i].name, l->nodes[i].responding, (long long)l->nodes[i].boot_ms);
	answered = true;
}

int main(int argc, char **argv)
{
	static const struct slurm_client_ops ops = {.submitted = on_submitted, .listed = on_listed};
	struct loop *loop;
	struct slurm_client *client;
	if (argc < 3 || loop_create(&loop) < 0)
		return 2;
	struct slurm_client_options options = {.loop = loop, .prefix = argv[2], .ops = &ops};
	if (slurm_client_create(&options, &client) < 0)
		return 2;
	int r = -EINVAL;
	if (strcmp(argv[1], "submit") == 0 && argc == 5)
		r = slurm_client_submit(client, argv[2], argv[3], "/dev/null", argv[4]);
	else if (strcmp(argv[1], "list") == 0)
		r = slurm_client_list(client);
	else if (strcmp(argv[1], "cancel") == 0) {
		/* The next listing is queued. */
		r = slurm_client_cancel(client, strtoull(argv[2], NULL, 10));
		if (r == 0)
			r = slurm_client_list(client);
	}
	while (r >= 0 && !answered)
		r = loop_round(loop, -1);
	slurm_client_destroy(client);
	loop_destroy(loop);
	return r < 0;
}
