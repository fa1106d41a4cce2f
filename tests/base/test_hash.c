/* SPDX-License-Identifier: MIT */
/* Hash tables with keys that an attacker chose to collide. */
#include "base/hash.h"

#include <stdio.h>
#include <string.h>

#include "base/arena.h"
#include "launch/path_map.h"
#include "support/check.h"

#define NAMES 1000
#define ROOM  2048 /* size of a table with this many names */

static char names[NAMES][24];

/* Chooses names that all get the same slot in a table without a seed. */
static int choose_names(void **state)
{
	(void)state;
	unsigned long i = 0;
	for (size_t n = 0; n < NAMES; i++) {
		snprintf(names[n], sizeof(names[n]), "file-%lu.wav", i);
		n += (hash_bytes(names[n], strlen(names[n])).a & (ROOM - 1)) == 0;
	}
	return 0;
}

static void test_seeds_spread_chosen_names(void **state)
{
	(void)state;
	unsigned counts[ROOM] = {0}, most = 0;
	uint64_t seed = hash_seed();
	assert_int_not_equal(seed, 0);
	assert_int_not_equal(seed, hash_seed());
	for (size_t n = 0; n < NAMES; n++) {
		unsigned *count = &counts[hash_seeded(names[n], strlen(names[n]), seed) & (ROOM - 1)];
		most = ++*count > most ? *count : most;
	}
	assert_in_range(most, 1, 20);
	assert_int_equal(hash_seeded("a", 1, seed), hash_seeded("a", 1, seed));
	assert_int_not_equal(hash_seeded("a", 1, seed), hash_seeded("b", 1, seed));
}

/* The longest run of used slots: the worst number of comparisons of a search. */
static unsigned longest_row(const bool *used, size_t room)
{
	unsigned row = 0, longest = 0;
	for (size_t i = 0; i < 2 * room; i++) {
		row = used[i % room] ? row + 1 : 0;
		longest = row > longest ? row : longest;
	}
	return longest;
}

static void test_chosen_file_names_do_not_collide(void **state)
{
	(void)state;
	struct path_map m = {0};
	bool used[ROOM] = {0};
	for (size_t n = 0; n < NAMES; n++)
		assert_non_null(path_map_put(&m, names[n], n));
	assert_int_equal(m.room, ROOM);
	for (size_t i = 0; i < ROOM; i++)
		used[i] = m.slots[i].path;
	assert_in_range(longest_row(used, ROOM), 1, 300);
	for (size_t n = 0; n < NAMES; n++)
		assert_int_equal(*path_map_get(&m, names[n]), n);
	path_map_finish(&m);
}

static void test_chosen_strings_do_not_collide(void **state)
{
	(void)state;
	struct intern in = {0};
	bool used[ROOM] = {0};
	for (size_t n = 0; n < NAMES; n++)
		assert_string_equal(intern(&in, names[n], strlen(names[n])), names[n]);
	assert_int_equal(in.room, ROOM);
	for (size_t i = 0; i < ROOM; i++)
		used[i] = in.table[i];
	assert_in_range(longest_row(used, ROOM), 1, 300);
	const char *first = intern(&in, names[0], strlen(names[0]));
	(void)intern(&in, "other", 5);
	assert_ptr_equal(intern(&in, names[0], strlen(names[0])), first);
	intern_finish(&in);
}

/* Journals contain these hashes. */
static void test_hashes_in_files_stay_what_they_were(void **state)
{
	(void)state;
	char text[HASH_TEXT];
	hash_format(hash_bytes("python train.py", 15), text);
	assert_string_equal(text, "74f12f02692a30304e82a65a593ae2df");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_seeds_spread_chosen_names),
		cmocka_unit_test(test_chosen_file_names_do_not_collide),
		cmocka_unit_test(test_chosen_strings_do_not_collide),
		cmocka_unit_test(test_hashes_in_files_stay_what_they_were),
	};
	return cmocka_run_group_tests(tests, choose_names, NULL);
}
