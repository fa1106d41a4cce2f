/* SPDX-License-Identifier: MIT */
/*
 * simulate_slurm [--seed N] [--seeds COUNT] [--mutant NAME] [--verbose]
 *
 * Drives the cores of coordinator and pilots through random clusters and faults. Asserted: no attempt begins twice, no
 * two attempts of a job overlap, no attempt gets a wrong end, no synced end is lost, every job ends once; and when the
 * faults stop, all jobs end. With --seed it runs that seed alone, which reproduces a failure. With --mutant it runs
 * with a deliberate defect, and succeeds if some seed catches it.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "simulate_slurm.h"

#define FAULTS_NS (900 * NS_PER_S)
#define CALM_NS   (4000 * NS_PER_S)

enum slurm_mutant slurm_mutant;

static const char *const mutant_names[MUTANT_COUNT] = {
	[MUTANT_NONE] = "none",
	[MUTANT_NO_WAIT] = "no-wait",
	[MUTANT_NO_KILL] = "no-kill",
	[MUTANT_NO_SYNC] = "no-sync",
	[MUTANT_NOT_R] = "not-r",
};

/* ---- Tools ----------------------------------------------------------------------------- */

GD_PRINTF(2, 0) static void print_failure(const struct sim_world *w, const char *format, va_list args)
{
	fprintf(stderr, "seed %llu at %.2f s: ", (unsigned long long)w->seed, (double)w->now / 1e9);
	vfprintf(stderr, format, args);
	fprintf(stderr, "\n");
}

void sim_fail(const struct sim_world *w, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	print_failure(w, format, args);
	va_end(args);
	exit(slurm_mutant ? 0 : 1);
}

void sim_wrong(const struct sim_world *w, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	print_failure(w, format, args);
	va_end(args);
	exit(1);
}

void sim_say(const struct sim_world *w, const char *format, ...)
{
	va_list args;
	if (!w->verbose)
		return;
	va_start(args, format);
	printf("%8.2f  ", (double)w->now / 1e9);
	vprintf(format, args);
	printf("\n");
	va_end(args);
}

uint32_t sim_random(struct sim_world *w, uint32_t below)
{
	uint64_t z = w->random += 0x9e3779b97f4a7c15ull;
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
	z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
	z ^= z >> 31;
	return below ? (uint32_t)((z >> 32) % below) : 0;
}

bool sim_chance(struct sim_world *w, uint32_t n)
{
	return sim_random(w, n) == 0;
}

uint64_t sim_seconds(struct sim_world *w, uint32_t min, uint32_t max)
{
	return (uint64_t)(min * 1000 + sim_random(w, (max - min) * 1000)) * NS_PER_MS;
}

/* ---- The world ------------------------------------------------------------------------- */

void sim_init(struct sim_world *w, uint64_t seed)
{
	memset(w, 0, sizeof(*w));
	w->seed = w->random = seed;
	w->now = 1000 * NS_PER_S;
	for (int i = 0; i < SIM_NODES; i++) {
		struct sim_node *n = &w->nodes[i];
		n->up = n->slurmd = true;
		/* The clocks' rates are off by up to 2%, which is less than the margin of a lease. */
		n->rate = 1 + ((int)sim_random(w, 2001) - 1000) * 1e-5;
		n->boot_at = n->slurmd_at = w->now - sim_seconds(w, 100, 900);
		n->wall_ms = (int64_t)sim_random(w, 600000) - 300000;
	}
	w->ctld.boot_ms = 1;
	w->saved = w->ctld;
	sim_coordinator_start(w, 0);
}

void sim_finish(struct sim_world *w)
{
	for (int i = 0; i < SIM_COORDINATORS; i++) {
		sim_coordinator_kill(w, i, false);
		coordinator_core_destroy(w->coordinators[i].core);
	}
	for (int i = 0; i < w->num_pilots; i++) {
		sim_pilot_kill(w, i, false);
		pilot_core_destroy(w->pilots[i].core);
	}
	for (size_t i = 0; i < SIM_LINKS; i++)
		w->links[i].open[0] = w->links[i].open[1] = false;
	sim_network_step(w);
	free(w->journal);
}

void sim_step(struct sim_world *w)
{
	w->now += SIM_STEP_NS;
	if (!w->calm)
		sim_faults(w);
	sim_cluster_step(w);
	sim_pilots_step(w);
	sim_network_step(w);
	sim_coordinators_step(w);
}

bool sim_is_done(struct sim_world *w)
{
	for (uint64_t job = 1; job <= SIM_JOBS; job++) {
		struct sim_fold f;
		sim_fold(w, job, &f);
		if (!f.final && !f.held)
			return false;
	}
	return true;
}

struct figures {
	uint64_t seeds, begins, losses, voids, faults, restarts, pilots, proofs[PROOF_SLURM + 1];
};

static void run_seed(uint64_t seed, bool verbose, struct figures *f)
{
	static struct sim_world w;
	sim_init(&w, seed);
	w.verbose = verbose;
	uint64_t begin = w.now;
	while (w.now < begin + FAULTS_NS && !(w.now > begin + 60 * NS_PER_S && sim_is_done(&w)))
		sim_step(&w);
	w.calm = true;
	while (!sim_is_done(&w)) {
		if (w.now > begin + FAULTS_NS + CALM_NS)
			sim_wrong(&w, "jobs do not end although nothing fails any more");
		sim_step(&w);
	}
	f->seeds++;
	f->begins += w.begins;
	f->losses += w.losses;
	f->voids += w.voids;
	f->faults += w.faults;
	f->restarts += w.restarts - 1;
	f->pilots += (uint64_t)w.num_pilots;
	for (size_t i = 0; i <= PROOF_SLURM; i++)
		f->proofs[i] += w.proofs[i];
	sim_finish(&w);
}

/* ---- The command line ------------------------------------------------------------------ */

static uint64_t number(const char *option, const char *text)
{
	char *end;
	unsigned long long n = text ? strtoull(text, &end, 10) : 0;
	if (!text || !*text || *end) {
		fprintf(stderr, "simulate_slurm: %s needs a number\n", option);
		exit(2);
	}
	return n;
}

static enum slurm_mutant mutant(const char *name)
{
	for (size_t i = 1; name && i < MUTANT_COUNT; i++)
		if (strcmp(name, mutant_names[i]) == 0)
			return (enum slurm_mutant)i;
	fprintf(stderr, "simulate_slurm: --mutant is one of no-wait, no-kill, no-sync, not-r\n");
	exit(2);
}

int main(int argc, char **argv)
{
	uint64_t first = 1, count = 200;
	bool verbose = false;
	struct figures f = {0};
	for (int i = 1; i < argc; i += 2) {
		if (strcmp(argv[i], "--seed") == 0) {
			first = number(argv[i], argv[i + 1]);
			count = 1;
		} else if (strcmp(argv[i], "--seeds") == 0) {
			count = number(argv[i], argv[i + 1]);
		} else if (strcmp(argv[i], "--mutant") == 0) {
			slurm_mutant = mutant(argv[i + 1]);
		} else if (strcmp(argv[i], "--verbose") == 0) {
			verbose = true;
			i--;
		} else {
			fprintf(stderr,
				"usage: simulate_slurm [--seed N] [--seeds COUNT] [--mutant NAME] [--verbose]\n");
			return 2;
		}
	}
	for (uint64_t i = 0; i < count; i++)
		run_seed(first + i, verbose, &f);
	if (slurm_mutant) {
		fprintf(stderr, "simulate_slurm: the mutant %s was not caught\n", mutant_names[slurm_mutant]);
		return 1;
	}
	printf("%llu seeds, %llu faults, %llu coordinators replaced, %llu pilots, %llu begins, %llu voids, %llu losses: "
	       "every invariant held\n",
		(unsigned long long)f.seeds, (unsigned long long)f.faults, (unsigned long long)f.restarts,
		(unsigned long long)f.pilots, (unsigned long long)f.begins, (unsigned long long)f.voids,
		(unsigned long long)f.losses);
	printf("pilots gone: %llu said bye", (unsigned long long)f.proofs[PROOF_NONE]);
	for (int i = 1; i <= PROOF_SLURM; i++)
		printf(", %llu by %s", (unsigned long long)f.proofs[i], death_proof_name((enum death_proof)i));
	printf("\n");
	return 0;
}
