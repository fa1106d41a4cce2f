/* SPDX-License-Identifier: MIT */
/*
 * A private HTML file that leads to the page of `gpuq web`.
 *
 * Terminals and desktops open a link by executing a browser with it, and all users see the arguments of a process. So
 * the link to the page, which contains the token, must not be clicked. The link to this file may be: only the user can
 * read the file.
 */
#ifndef CLI_WEB_OPENER_H
#define CLI_WEB_OPENER_H

#include <sys/types.h>

/* Start from WEB_OPENER_INIT. */
struct web_opener {
	int dir_fd; /* -1: there is no file */
	char name[32];
	dev_t device;
	ino_t number;
	char *url; /* "file:///run/user/1000/gpuq-web-8765.html" */
};

#define WEB_OPENER_INIT ((struct web_opener){.dir_fd = -1})

/*
 * Creates the file in $XDG_RUNTIME_DIR if that directory belongs to the user and no other user can change it, else in
 * the directory of state_dir_open_host(). Its name contains the port; an earlier file with this name is replaced.
 * Returns 0 or a negative errno value.
 */
int web_opener_create(const char *address, const char *token, struct web_opener *o);

/* Removes the file, unless another server has replaced it. */
void web_opener_remove(struct web_opener *o);

#endif
