/* SPDX-License-Identifier: MIT */
#include "gpu/amd_kfd.h"

#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "base/cleanup.h"
#include "base/file.h"
#include "gpu/sysfs.h"

#define NODES          "class/kfd/kfd/topology/nodes"
#define LINK_TYPE_XGMI 11 /* the kernel's CRAT_IOLINK_TYPE_XGMI; PCIe is 2 */

/* The value of one line "key value" of a properties file; false if there is none. */
static bool read_property(int dir, const char *path, const char *key, int64_t *ret)
{
	char text[8192], *line, *rest = text;
	if (file_read_small(dir, path, text, sizeof(text)) <= 0)
		return false;
	size_t length = strlen(key);
	while ((line = strsep(&rest, "\n"))) {
		char *end;
		if (strncmp(line, key, length) != 0 || line[length] != ' ')
			continue;
		errno = 0;
		*ret = strtoll(line + length + 1, &end, 10);
		return !errno && end != line + length + 1 && !*end;
	}
	return false;
}

/* The render node of a node of kfd's topology; false for CPUs, which have none. */
static bool read_minor(int nodes, const char *node, int64_t *ret)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/properties", node);
	return isdigit((unsigned char)node[0]) && read_property(nodes, path, "drm_render_minor", ret) && *ret > 0;
}

/* ---- Links ---------------------------------------------------------------- */

static int find_card(const int *minors, unsigned count, int64_t minor)
{
	for (unsigned i = 0; i < count; i++)
		if (minors[i] == minor)
			return (int)i;
	return -1;
}

/* The card at the other end of a link; -1 if the link is not xGMI or leads to no card of the list. */
static int linked_card(int nodes, int links, const char *link, const int *minors, unsigned count)
{
	char path[300], other[24];
	int64_t type, node, minor;
	snprintf(path, sizeof(path), "%s/properties", link);
	if (!isdigit((unsigned char)link[0]) || !read_property(links, path, "type", &type) || type != LINK_TYPE_XGMI ||
		!read_property(links, path, "node_to", &node))
		return -1;
	snprintf(other, sizeof(other), "%" PRId64, node);
	return read_minor(nodes, other, &minor) ? find_card(minors, count, minor) : -1;
}

static void read_links_of(int nodes, const char *node, const int *minors, unsigned count, int card, struct kfd_links *l)
{
	char path[300];
	snprintf(path, sizeof(path), "%s/io_links", node);
	int fd = openat(nodes, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	cleanup_(closedirp) DIR *links = fd < 0 ? NULL : fdopendir(fd);
	if (fd >= 0 && !links)
		close(fd);
	struct dirent *entry;
	while (links && (entry = readdir(links))) {
		int other = linked_card(nodes, fd, entry->d_name, minors, count);
		if (other < 0 || other == card)
			continue;
		l->of[card] |= UINT64_C(1) << other;
		l->of[other] |= UINT64_C(1) << card;
	}
}

void kfd_read_links(const char *root, const int *minors, unsigned count, struct kfd_links *ret)
{
	if (count > KFD_MAX_LINKED)
		count = KFD_MAX_LINKED;
	cleanup_(closedirp) DIR *nodes = sysfs_opendir(root, NODES);
	struct dirent *entry;
	while (nodes && (entry = readdir(nodes))) {
		int64_t minor;
		int card = read_minor(dirfd(nodes), entry->d_name, &minor) ? find_card(minors, count, minor) : -1;
		if (card < 0)
			continue;
		ret->known |= UINT64_C(1) << card;
		read_links_of(dirfd(nodes), entry->d_name, minors, count, card, ret);
	}
}

/* ---- Processes ------------------------------------------------------------ */

/* kfd's id of a card, found by its render node. */
static bool find_kfd_id(const char *root, int minor, int64_t *ret)
{
	cleanup_(closedirp) DIR *nodes = sysfs_opendir(root, NODES);
	struct dirent *entry;
	while (nodes && (entry = readdir(nodes))) {
		int64_t found;
		char path[300];
		if (!read_minor(dirfd(nodes), entry->d_name, &found) || found != minor)
			continue;
		snprintf(path, sizeof(path), "%s/gpu_id", entry->d_name);
		return sysfs_read_number(dirfd(nodes), path, ret);
	}
	return false;
}

int kfd_read_processes(const char *root, int minor, struct gd_gpu *gpu, struct gd_gpu_process **ret)
{
	int64_t id;
	if (!find_kfd_id(root, minor, &id))
		return 0;
	cleanup_(closedirp) DIR *all = sysfs_opendir(root, "class/kfd/kfd/proc");
	if (!all)
		return 0;
	size_t capacity = 0;
	struct dirent *entry;
	while ((entry = readdir(all))) {
		char path[300];
		int64_t bytes;
		snprintf(path, sizeof(path), "%s/vram_%" PRId64, entry->d_name, id);
		/* kfd has an entry for every card; a process with no memory there does not use the card. */
		if (!isdigit((unsigned char)entry->d_name[0]) || !sysfs_read_number(dirfd(all), path, &bytes) ||
			bytes <= 0)
			continue;
		if (array_reserve(*ret, &capacity, gpu->num_processes + 1) < 0)
			return -ENOMEM;
		(*ret)[gpu->num_processes++] = (struct gd_gpu_process){
			.pid = atoll(entry->d_name), .memory_bytes = (uint64_t)bytes, .memory_known = true};
	}
	gpu->known |= GD_GPU_KNOWN_PROCESSES;
	return 0;
}
