/* SPDX-License-Identifier: MIT */
/*
 * The command line of gpuq-worker, which the library writes and the helper reads:
 *
 *     gpuq-worker --command [--key KEY]… -- WORD…
 *     gpuq-worker --program [--key KEY]… [--ready-ms N] -- WORD…
 *     gpuq-worker --items [--key KEY]… [--ready-ms N] --in-flight N -- WORD…
 *     gpuq-worker --plugin FILE
 *     gpuq-worker --own-plugin FILE
 *     gpuq-worker --inspect FILE
 *
 * Keys are the names of the settings: a worker can look up a setting by its key, but
 * cannot list the keys. Values do not appear on the command line.
 *
 * --own-plugin: no other user could replace FILE when the launch began. It is loaded only if this is still so, because
 * if its folder was renamed since then, another user may have taken the old path.
 */
#ifndef LAUNCH_WORKER_ARGUMENTS_H
#define LAUNCH_WORKER_ARGUMENTS_H

#define WORKER_HELPER      "gpuq-worker"
#define WORKER_HELPER_PATH "GPUQ_WORKER" /* environment variable: its absolute path */

#define WORKER_COMMAND   "--command"
#define WORKER_PROGRAM   "--program"
#define WORKER_ITEMS     "--items"
#define WORKER_PLUGIN    "--plugin"
#define WORKER_OWN       "--own-plugin"
#define WORKER_INSPECT   "--inspect"
#define WORKER_KEY       "--key"
#define WORKER_READY_MS  "--ready-ms"
#define WORKER_IN_FLIGHT "--in-flight"

#endif
