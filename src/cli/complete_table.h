/* SPDX-License-Identifier: MIT */
/* The options of a command as --help lists them, from its argp and those of its children. Start from {0}. */
#ifndef CLI_COMPLETE_TABLE_H
#define CLI_COMPLETE_TABLE_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>

struct complete_option {
	const char *name; /* NULL: it has only a letter */
	char letter;      /* 0: it has only a name */
	const char *arg;  /* the value's name in --help: "FILE", "ID[,ID...]", "gpu|none"; NULL: no value */
	const char *doc;  /* may be NULL */
	bool hidden;
};

struct complete_table {
	struct complete_option *options;
	size_t count, capacity;
};

/* 0 or -ENOMEM. */
int complete_table_fill(struct complete_table *t, const struct argp *argp);
void complete_table_finish(struct complete_table *t);

/* Finds an option by its name or a unique prefix, as getopt_long() does; NULL: not found. */
const struct complete_option *complete_table_by_name(const struct complete_table *t, const char *name, size_t size);
const struct complete_option *complete_table_by_letter(const struct complete_table *t, char letter);

/*
 * Whether an argument of the command is called `word` in its usage: "ID", "COMMAND". Values of options in the usage,
 * as in "--input FILE", do not count.
 */
bool complete_table_takes(const struct argp *argp, const char *word);

#endif
