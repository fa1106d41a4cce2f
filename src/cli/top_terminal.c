/* SPDX-License-Identifier: MIT */
#include "cli/top_terminal.h"

#include <errno.h>
#include <langinfo.h>
#include <locale.h>
#include <ncurses.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "base/cost_limit.h"
#include "base/error.h"
#include "view/top/top.h"

static SCREEN *terminal;
static bool colored;

#define BRIGHT_BLUE 12

/* Colors of ncurses; -1: the terminal's default. */
static const short colors[SCREEN_COLORS] = {
	[SCREEN_PLAIN] = -1,
	[SCREEN_RED] = COLOR_RED,
	[SCREEN_GREEN] = COLOR_GREEN,
	[SCREEN_YELLOW] = COLOR_YELLOW,
	[SCREEN_BLUE] = COLOR_BLUE,
	[SCREEN_MAGENTA] = COLOR_MAGENTA,
	[SCREEN_CYAN] = COLOR_CYAN,
};

int top_terminal_check(struct gd_error *err)
{
	const char *term = getenv("TERM");
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return error_set(err, -EINVAL, "'gpuq top' needs a terminal; use 'gpuq status' instead");
	if (!term || !*term || strcmp(term, "dumb") == 0)
		return error_set(err, -EINVAL,
			"'gpuq top' needs a terminal that can move its cursor, but TERM is '%s'; use 'gpuq status' instead",
			term ? term : "");
	if (!top_terminal_is_known(term))
		return error_set(err, -EINVAL, "unknown terminal type TERM='%s'; try TERM=xterm-256color", term);
	return 0;
}

static void choose_colors(void)
{
	const char *no_color = getenv("NO_COLOR");
	colored = has_colors() && !(no_color && *no_color);
	if (!colored || start_color() != OK)
		return;
	use_default_colors();
	for (short i = 1; i < SCREEN_COLORS; i++)
		init_pair(i, colors[i], -1);
	/* As in the palette: plain blue is unreadable on black. */
	if (COLORS >= 16)
		init_pair(SCREEN_BLUE, BRIGHT_BLUE, -1);
}

int top_terminal_open(struct gd_error *err)
{
	/* The output is UTF-8 even under LANG=C: all current terminals support it. */
	if (strcmp(nl_langinfo(CODESET), "UTF-8") != 0)
		setlocale(LC_CTYPE, "C.UTF-8");
	terminal = newterm(NULL, stdout, stdin);
	if (!terminal)
		return error_set(err, -EIO, "cannot control the terminal");
	cost_limit_set_screen(true);
	set_escdelay(25);
	cbreak();
	noecho();
	nonl();
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	curs_set(0);
	choose_colors();
	return 0;
}

void top_terminal_close(void)
{
	if (!terminal)
		return;
	endwin();
	cost_limit_set_screen(false);
	delscreen(terminal);
	terminal = NULL;
}

void top_terminal_size(bool changed, int *ret_rows, int *ret_columns)
{
	struct winsize size;
	if (changed && ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0) {
		resizeterm(size.ws_row, size.ws_col);
		clearok(curscr, TRUE);
	}
	getmaxyx(stdscr, *ret_rows, *ret_columns);
}

static attr_t attributes(unsigned style)
{
	attr_t a = A_NORMAL;
	if (style & SCREEN_BOLD)
		a |= A_BOLD;
	if (style & SCREEN_DIM)
		a |= A_DIM;
	if (style & SCREEN_REVERSE)
		a |= A_REVERSE;
	if (colored && (style & SCREEN_COLOR))
		a |= (attr_t)COLOR_PAIR(style & SCREEN_COLOR);
	return a;
}

/* ncurses finds out itself what has changed. */
void top_terminal_show(const struct screen *s)
{
	unsigned style = 0x100; /* matches no style */
	erase();
	for (int row = 0; row < s->rows; row++) {
		move(row, 0);
		for (int column = 0; column < s->columns; column++) {
			const struct screen_cell *c = &s->cells[(size_t)row * (size_t)s->columns + (size_t)column];
			if (!c->text[0])
				continue;
			if (c->style != style)
				attrset((int)attributes(style = c->style));
			/* After the last cell of the screen the cursor cannot advance: ignore that error. */
			(void)addstr(c->text);
		}
	}
	if (s->cursor_row >= 0)
		move(s->cursor_row, s->cursor_column);
	curs_set(s->cursor_row >= 0);
	refresh();
}

static int special_key(wint_t key)
{
	switch (key) {
	case KEY_UP:
		return TOP_KEY_UP;
	case KEY_DOWN:
		return TOP_KEY_DOWN;
	case KEY_LEFT:
		return TOP_KEY_LEFT;
	case KEY_RIGHT:
		return TOP_KEY_RIGHT;
	case KEY_PPAGE:
		return TOP_KEY_PAGE_UP;
	case KEY_NPAGE:
		return TOP_KEY_PAGE_DOWN;
	case KEY_HOME:
		return TOP_KEY_HOME;
	case KEY_END:
		return TOP_KEY_END;
	case KEY_BACKSPACE:
		return TOP_KEY_BACKSPACE;
	case KEY_ENTER:
		return TOP_KEY_ENTER;
	default:
		return key >= (wint_t)KEY_F(1) && key <= (wint_t)KEY_F(10) ? TOP_KEY_F1 + (int)key - KEY_F(1) : 0;
	}
}

int top_terminal_key(void)
{
	wint_t key;
	int r = get_wch(&key);
	if (r == ERR)
		return -1;
	return r == KEY_CODE_YES ? special_key(key) : (int)key;
}
