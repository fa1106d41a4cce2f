/* SPDX-License-Identifier: MIT */
/* Access to the page's server: hosts, origins, tokens. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <string.h>

#include "view/web/web_gate.h"

static void test_only_names_of_this_machine_are_accepted_as_hosts(void **state)
{
	(void)state;
	const char *names[] = {"gpubox.lan", "10.0.0.7"};
	static const char *const ours[] = {"localhost", "localhost:8765", "LOCALHOST:1", "127.0.0.1:8765", "[::1]",
		"[::1]:8765", "gpubox.lan:8765", "gpubox.lan.", "10.0.0.7:9"};
	static const char *const foreign[] = {"", "evil.example", "evil.example:8765", "localhost.evil.example",
		"127.0.0.1.evil.example", "evil.example:127.0.0.1", "localhost:8765:x", "localhost:80a", "[::1",
		"[::1]x", "[::2]:8765", "127.0.0.2", "xlocalhost", "localhos", "user@localhost", "localhost/",
		" localhost"};
	for (size_t i = 0; i < sizeof(ours) / sizeof(*ours); i++)
		assert_true(web_host_allowed(ours[i], names, 2));
	for (size_t i = 0; i < sizeof(foreign) / sizeof(*foreign); i++)
		assert_false(web_host_allowed(foreign[i], names, 2));
	assert_false(web_host_allowed(NULL, names, 2));
	assert_false(web_host_allowed("gpubox.lan", NULL, 0));
}

static void test_only_our_own_page_is_an_origin(void **state)
{
	(void)state;
	const char *host = "localhost:8765";
	assert_true(web_origin_allowed(NULL, host));
	assert_true(web_origin_allowed("http://localhost:8765", host));
	assert_true(web_origin_allowed("https://localhost:8765", host));
	/* Another server on the same machine is another site. */
	assert_false(web_origin_allowed("http://localhost:9000", host));
	assert_false(web_origin_allowed("http://evil.example", host));
	assert_false(web_origin_allowed("null", host));
	assert_false(web_origin_allowed("", host));
	assert_false(web_origin_allowed("http://localhost:8765.evil.example", host));
	assert_false(web_origin_allowed("http://localhost:8765", NULL));
}

static void test_requests_that_the_browser_marks_as_cross_site_are_refused(void **state)
{
	(void)state;
	assert_true(web_site_allowed(NULL));
	assert_true(web_site_allowed("same-origin"));
	assert_true(web_site_allowed("none"));
	assert_false(web_site_allowed("same-site"));
	assert_false(web_site_allowed("cross-site"));
	assert_false(web_site_allowed("whatever comes next"));
}

static void test_only_the_exact_bearer_token_is_accepted(void **state)
{
	(void)state;
	const char *token = "0123456789abcdef";
	assert_true(web_token_given("Bearer 0123456789abcdef", token));
	assert_true(web_token_given("bearer 0123456789abcdef", token));
	static const char *const wrong[] = {"", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef",
		"Bearer 0123456789abcde", "Bearer 0123456789abcdef0", "Bearer 0123456789abcdef0123456789abcdef",
		"Bearer 0123456789abcdeF", "Bearer  0123456789abcdef"};
	for (size_t i = 0; i < sizeof(wrong) / sizeof(*wrong); i++)
		assert_false(web_token_given(wrong[i], token));
	assert_false(web_token_given(NULL, token));
	assert_false(web_token_given("Bearer ", ""));
}

static void test_tokens_are_long_and_never_the_same(void **state)
{
	(void)state;
	char a[WEB_TOKEN_ROOM], b[WEB_TOKEN_ROOM];
	assert_int_equal(web_token_make(a), 0);
	assert_int_equal(web_token_make(b), 0);
	assert_int_equal(strlen(a), 32); /* 128 bits */
	assert_string_not_equal(a, b);
	assert_true(web_token_usable(a));
	assert_false(web_token_usable("short"));
	assert_false(web_token_usable("with a space in the middle of it"));
	assert_false(web_token_usable("fragment#of&an?address/is/not/one"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_only_names_of_this_machine_are_accepted_as_hosts),
		cmocka_unit_test(test_only_our_own_page_is_an_origin),
		cmocka_unit_test(test_requests_that_the_browser_marks_as_cross_site_are_refused),
		cmocka_unit_test(test_only_the_exact_bearer_token_is_accepted),
		cmocka_unit_test(test_tokens_are_long_and_never_the_same),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
