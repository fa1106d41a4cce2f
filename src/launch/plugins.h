/* SPDX-License-Identifier: MIT */
/*
 * Named plug-ins: NAME.so in a folder of $GPUQ_WORKER_PATH, next to the program in the build tree, or in the
 * installation. The first one with a name counts.
 *
 * A plug-in next to the program that another user could have put there is refused: it is listed, but never loaded. A
 * plug-in with the same name in the installation replaces it. See base/trust.h.
 */
#ifndef LAUNCH_PLUGINS_H
#define LAUNCH_PLUGINS_H

#include <stdbool.h>
#include <stddef.h>

#include "gpu_dispatch_launch.h"

/* Where the plug-in whisper searches for models, for messages. */
#define PLUGINS_WHISPER_FOLDERS                                                                                        \
	"$WHISPER_MODEL_DIR, ~/.cache/whisper, ~/.cache/whisper.cpp, /usr/local/share/whisper.cpp/models and "         \
	"/usr/share/whisper.cpp/models"

struct plugin {
	char *name;
	char *path;
	char *refusal; /* why it is not loaded, and what to do; NULL: it can be loaded */
};

/* By name. Release with plugins_free(). */
int plugins_list(struct plugin **ret, size_t *ret_count);
void plugins_free(struct plugin *plugins, size_t count);

/* A one-line description for users. False: the plug-in cannot be used, and *ret is the reason. */
bool plugins_describe(const struct plugin *plugin, char *ret, size_t size);

/*
 * The path of a plug-in: a name with a slash or ending in ".so" is a file; any other is the name of an installed
 * plug-in. NULL: the speech recognizer, whisper before pocketsphinx. Release with free().
 */
int plugins_find(const char *name, char **ret_path, struct gd_error *err);

#endif
