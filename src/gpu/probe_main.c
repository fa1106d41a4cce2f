/* SPDX-License-Identifier: MIT */
/* gpuq-probe: calls the drivers for its parent process. */
#include <stdio.h>
#include <string.h>

#include "gpu/prober.h"

int main(int argc, char **argv)
{
	struct prober_settings settings;
	if (argc == 2 && strcmp(argv[1], "--version") == 0) {
		puts("gpuq-probe " GD_VERSION);
		return 0;
	}
	if (prober_read_arguments(argc, argv, &settings) < 0) {
		fputs("gpuq-probe is started by gpuq and libgpu_dispatch of the same version; see 'gpuq gpus'\n",
			stderr);
		return 2;
	}
	prober_main(&settings);
}
