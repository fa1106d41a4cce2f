/* SPDX-License-Identifier: MIT */
#include <stdio.h>

int main(void)
{
	puts("gpuq " GD_VERSION);
	return 0;
}
