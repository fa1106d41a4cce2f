/* SPDX-License-Identifier: MIT */
/* Runs a fuzz target over the files of a folder: inputs found by fuzzers remain tests, with any compiler. */
#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include "fuzz.h"

static int replay(int folder, const char *name)
{
	int fd = openat(folder, name, O_RDONLY | O_CLOEXEC);
	struct stat st;
	if (fd < 0 || fstat(fd, &st) < 0)
		return -1;
	/* Exactly its size, so that sanitizers detect a read beyond it. */
	uint8_t *data = malloc((size_t)st.st_size + !st.st_size);
	if (!data || read(fd, data, (size_t)st.st_size) != st.st_size)
		return -1;
	LLVMFuzzerTestOneInput(data, (size_t)st.st_size);
	free(data);
	return close(fd);
}

int main(int argc, char **argv)
{
	DIR *dir = argc == 2 ? opendir(argv[1]) : NULL;
	if (!dir) {
		fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
		return 2;
	}
	int files = 0;
	for (const struct dirent *entry; (entry = readdir(dir));) {
		if (entry->d_name[0] == '.')
			continue;
		if (replay(dirfd(dir), entry->d_name) < 0) {
			perror(entry->d_name);
			return 1;
		}
		files++;
	}
	closedir(dir);
	return files ? 0 : 1;
}
