/* SPDX-License-Identifier: MIT */
#include "cli/slurm_launch.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/exit_code.h"
#include "cli/say.h"
#include "slurm/file_proxy.h"
#include "slurm/file_queue.h"
#include "slurm/file_worker.h"

static int prepare(const char *dir)
{
	struct gd_error err = {0};
	int r = file_queue_prepare(dir, &err);
	if (r == -EBUSY && !err.message[0])
		return SLURM_LAUNCH_BUSY;
	if (r < 0)
		say("%s", err.message);
	return r < 0 ? EXIT_WORK_FAILED : EXIT_DONE;
}

int slurm_launch_main(int argc, char **argv)
{
	if (argc == 3 && strcmp(argv[1], SLURM_LAUNCH_PREPARE) == 0)
		return prepare(argv[2]);
	if (argc == 3 && strcmp(argv[1], SLURM_LAUNCH_PROXY) == 0)
		return file_proxy_main(argv[2]);
	if (argc == 4 && strcmp(argv[1], SLURM_LAUNCH_WORKER) == 0)
		return file_worker_main(argv[2], strtoul(argv[3], NULL, 10));
	say("this program is part of gpuq and is started by it");
	return EXIT_USAGE;
}
