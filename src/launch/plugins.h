/* SPDX-License-Identifier: MIT */
/*
 * The plug-ins that have a name: NAME.so in a folder of $GPUQ_WORKER_PATH, beside
 * the program as it was built, or where it was installed. The first of a name counts.
 *
 * A plug-in beside the program that another user could have put there is refused: it is listed, but never loaded. One
 * of the same name in the installation takes its place. See base/trust.h.
 */
#ifndef LAUNCH_PLUGINS_H
#define LAUNCH_PLUGINS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

/* Where the plug-in whisper searches models, in words. */
#define PLUGINS_WHISPER_FOLDERS                                                                                        \
	"$WHISPER_MODEL_DIR, ~/.cache/whisper, ~/.cache/whisper.cpp, /usr/local/share/whisper.cpp/models and "         \
	"/usr/share/whisper.cpp/models"

struct plugin {
	char *name;
	char *path;
	char *refusal; /* why it is not loaded, and what to do; NULL: it can be */
};

/* By name. Release with plugins_free(). */
int plugins_list(struct plugin **ret, size_t *ret_count);
void plugins_free(struct plugin *plugins, size_t count);

/* One line on it, for people: what it says of itself, or why it cannot be used. False: the latter. */
bool plugins_describe(const struct plugin *plugin, char *ret, size_t size);

/*
 * The path of a plug-in: a name with a slash, or one that ends in ".so", is that file; any other is the name of a
 * plug-in that is installed. NULL: the one for speech, whisper before pocketsphinx. Release with free().
 */
int plugins_find(const char *name, char **ret_path, struct gd_error *err);

#endif
