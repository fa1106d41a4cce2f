/* SPDX-License-Identifier: MIT */
#include "slurm/log_name.h"

#include <endian.h>
#include <string.h>

uint64_t log_name_tag(const uint8_t secret[MAC_KEY_SIZE], struct attempt_id id, uint64_t slurm_job)
{
	uint64_t numbers[3] = {htole64(id.job), htole64(id.attempt), htole64(slurm_job)}, tag;
	struct mac_part parts[] = {{"gpuq-s3 log name", 16}, {numbers, sizeof(numbers)}};
	uint8_t mac[MAC_SIZE];
	mac_compute(secret, parts, 2, mac);
	memcpy(&tag, mac, sizeof(tag));
	return le64toh(tag);
}
