/* SPDX-License-Identifier: MIT */
/* Any bytes as a configuration: refused with a message, or a layer that can be applied over the defaults. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "fuzz.h"
#include "queue/input/config.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct gd_error err = {0};
	struct config file = {0}, all = {0};
	int r = config_parse("f", data, size, &file, &err);
	if (r < 0) {
		FUZZ_CHECK(err.code == r && err.message[0] && !strchr(err.message, '\n'));
		FUZZ_CHECK(file.set == 0 && !file.gpus);
		return 0;
	}
	FUZZ_CHECK(!config_has(&file, CONFIG_GPUS) == !file.gpus);
	FUZZ_CHECK(!config_has(&file, CONFIG_POLL_INTERVAL) || file.poll_interval_ms > 0);
	FUZZ_CHECK(file.retries >= 0 && file.jobs_per_gpu >= 0);
	if (config_defaults(&all) == 0) {
		config_overlay(&all, &file);
		FUZZ_CHECK(all.log_dir && *all.log_dir && all.commands_file);
	}
	config_finish(&file);
	config_finish(&all);
	return 0;
}
