/* SPDX-License-Identifier: MIT */
/*
 * For LD_PRELOAD: what the program creates belongs to the user $FOREIGN_FILES, as on NFS with all_squash, or on CIFS
 * with uid=. The program must run as root.
 */
#include <stdlib.h>
#include <sys/fsuid.h>

__attribute__((constructor)) static void begin(void)
{
	const char *user = getenv("FOREIGN_FILES");
	if (user)
		setfsuid((uid_t)atoi(user));
}
