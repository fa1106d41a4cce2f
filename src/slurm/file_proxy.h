/* SPDX-License-Identifier: MIT */
/*
 * The end of a launch on the login node: a worker of the launcher's pool that passes its files on to one worker on a
 * node (file_worker.h), and the answers back. See file_message.h.
 *
 * setup() waits until an attempt of the job has said hello and has loaded its model, which can take hours if Slurm has
 * no free node. From then on the proxy belongs to this attempt. When the attempt is proven dead, the proxy puts its
 * file back into the launcher's queue and exits; its replacement waits for the next attempt. So files do not wait for a
 * node that is gone.
 *
 * A thread serves the connection all the time, also while the pool has no file for the proxy.
 */
#ifndef SLURM_FILE_PROXY_H
#define SLURM_FILE_PROXY_H

/* `gpuq-slurm launch-proxy DIR`, executed by the pool of a launcher. Returns the exit code. */
int file_proxy_main(const char *dir);

#endif
