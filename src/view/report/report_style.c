/* SPDX-License-Identifier: MIT */
/* The beginning, end and style sheet of every page. */
#include <stdarg.h>
#include <string.h>
#include <time.h>

#include "base/display.h"
#include "view/model/palette.h"
#include "view/report/html.h"
#include "view/report/report_parts.h"

/* The colors of states come from the palette; of adjacent completed jobs, every other one is paler. */
static const char style[] =
	":root{color-scheme:light dark;--ground:#fff;--ink:#1f2328;--faint:#67707a;--line:#e3e7eb;--card:#f6f8fa;"
	"--completed2:color-mix(in srgb,var(--completed) 72%,var(--ground))}\n"
	"@media screen and (prefers-color-scheme:dark){:root{--ground:#0d1117;--ink:#dde3ea;--faint:#8b949e;--line:#262c34;"
	"--card:#151b23}}\n"
	"*{box-sizing:border-box}\n"
	"body{margin:0 auto;padding:2rem 1.25rem 3rem;max-width:72rem;background:var(--ground);color:var(--ink);"
	"font:15px/1.5 system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif}\n"
	"h1{font-size:1.5rem;margin:0}h2{font-size:1.1rem;margin:2.4rem 0 .2rem}\n"
	".subject,.note,footer{color:var(--faint);overflow-wrap:anywhere}.subject{margin:.2rem 0 1.4rem}.note{margin:.1rem 0 .7rem}dl+.note{margin-top:.7rem}\n"
	"code,.mono{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace;font-size:.92em}\n"
	".tiles{display:grid;grid-template-columns:repeat(auto-fit,minmax(6.5rem,1fr));gap:.6rem;margin:0}@media(min-width:48rem){.tiles{grid-template-columns:repeat(var(--tiles),1fr)}}\n"
	".tiles div{background:var(--card);border-radius:8px;padding:.6rem .8rem;display:flex;flex-direction:column-reverse;justify-content:flex-end}\n"
	".tiles dt{color:var(--faint);font-size:.85rem}.tiles dd{margin:0;font-size:1.35rem;font-variant-numeric:tabular-nums}\n"
	".tiles .bad dd,td.bad,.tiles .failed dd,td.failed{color:var(--failed)}\n"
	".tiles .completed dd,td.completed{color:var(--completed)}.tiles .running dd,td.running{color:var(--running)}\n"
	".tiles .cancelled dd,td.cancelled{color:var(--cancelled)}.tiles .held dd,td.held{color:var(--held)}\n"
	".tiles .pending dd,td.pending{color:var(--pending)}.tiles .unknown dd,td.unknown{color:var(--unknown)}\n"
	"table{border-collapse:collapse;width:100%;font-variant-numeric:tabular-nums}\n"
	"th{text-align:left;font-weight:600;font-size:.85rem;color:var(--faint);white-space:nowrap}\n"
	"th,td{padding:.3rem .9rem .3rem 0;border-bottom:1px solid var(--line);vertical-align:top}\n"
	"th.n,td.n{text-align:right;white-space:nowrap}td.w{overflow-wrap:anywhere;min-width:10rem;width:99%}td.k{white-space:nowrap}\n"
	".scroll{overflow-x:auto}\n"
	".bar{display:inline-block;width:7rem;height:.6rem;background:var(--line);border-radius:3px;margin-right:.6rem;"
	"overflow:hidden;vertical-align:baseline}.bar i{display:block;height:100%;background:var(--running)}\n"
	".chart{margin:.4rem 0}.row{display:grid;grid-template-columns:5.5rem 1fr;align-items:center;margin-bottom:4px}\n"
	".label{font-size:.85rem;color:var(--faint);white-space:nowrap}.label b{color:var(--ink);font-weight:600;display:block}.row.tall{align-items:start}td.part{padding-left:1.2rem}\n"
	".row svg{width:100%;display:block;background:var(--card);border-radius:3px}\n"
	".axis{position:relative;height:1.3rem;margin-left:5.5rem;font-size:.8rem;color:var(--faint)}\n"
	".axis span{position:absolute;transform:translateX(-50%);white-space:nowrap}\n"
	".axis span:first-child[style^=\"left:0.\"]{transform:none}\n"
	"svg .c{fill:var(--completed)}svg .d,svg .m{fill:var(--completed2)}svg .f{fill:var(--failed)}"
	"svg .x{fill:var(--cancelled)}svg .r{fill:var(--running)}\n"
	"svg .grid{stroke:var(--line);vector-effect:non-scaling-stroke;fill:none}\n"
	"svg .util-area{fill:var(--running);opacity:.22}svg .util,svg .memory{fill:none;stroke-width:1.5;"
	"vector-effect:non-scaling-stroke;stroke-linejoin:round}svg .util{stroke:var(--running)}svg .memory{stroke:var(--memory)}\n"
	"svg .depth{fill:var(--pending);opacity:.75}\n"
	".key{display:flex;flex-wrap:wrap;gap:.2rem 1.1rem;font-size:.85rem;color:var(--faint);margin:.2rem 0 .5rem}\n"
	".key i{display:inline-block;width:.8rem;height:.8rem;border-radius:2px;margin-right:.35rem;vertical-align:-.08rem}\n"
	".key i.l{height:.2rem;vertical-align:.22rem}\n"
	"footer{margin-top:3rem;font-size:.85rem}\n"
	"@media(max-width:40rem){.axis .odd{display:none}.row{grid-template-columns:4rem 1fr}.axis{margin-left:4rem}"
	".bar{width:3rem}}\n"
	"@media print{html{font-size:11px}body{padding:0;max-width:none;font-size:11px;-webkit-print-color-adjust:exact;print-color-adjust:exact}"
	"h2{break-after:avoid}tr,.row,.tiles,.chart.short{break-inside:avoid}thead{display:table-header-group}.scroll{overflow:visible}"
	"@page{margin:14mm}}\n";

void report_begin(struct text *t, const char *title, const char *subject)
{
	text_append_string(t,
		"<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
		"<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
		"<meta name=\"generator\" content=\"gpuq " GD_VERSION "\">\n"
		"<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">\n"
		"<title>");
	html_text(t, title, DISPLAY_ALL);
	text_append_string(t, "</title>\n<style>\n");
	palette_put_css(t);
	text_append_string(t, style);
	text_append_string(t, "</style>\n</head>\n<body>\n<header><h1>");
	html_text(t, title, DISPLAY_ALL);
	text_append_string(t, "</h1>\n<p class=\"subject\">");
	html_text(t, subject, DISPLAY_ALL);
	text_append_string(t, "</p></header>\n<main>\n");
}

void report_end(struct text *t, int64_t now_ms)
{
	char moment[REPORT_MOMENT];
	time_t seconds = (time_t)(now_ms / 1000);
	struct tm tm = {0};
	localtime_r(&seconds, &tm);
	text_appendf(t, "</main>\n<footer>Created by gpuq " GD_VERSION " on %s %d; time zone ",
		report_moment(now_ms, moment), tm.tm_year + 1900);
	html_text(t, tm.tm_zone ? tm.tm_zone : "UTC", DISPLAY_ALL);
	text_append_string(t, ".</footer>\n</body>\n</html>\n");
}

#define MOST_IN_A_ROW 8

/* Rows of about the same length: never a single tile in the last row. */
void report_tiles(struct text *t, const struct text *tiles)
{
	size_t count = 0;
	for (const char *p = text_string(tiles); (p = strstr(p, "<div")); p++)
		count++;
	size_t rows = (count + MOST_IN_A_ROW - 1) / MOST_IN_A_ROW;
	text_appendf(t, "<dl class=\"tiles\" style=\"--tiles:%zu\">\n", rows ? (count + rows - 1) / rows : 1);
	text_append(t, text_string(tiles), tiles->length);
	text_append_string(t, "</dl>\n");
}

void report_tile(struct text *t, const char *mark, const char *name, const char *format, ...)
{
	va_list args;
	text_appendf(
		t, "<div%s%s%s><dt>%s</dt><dd>", mark ? " class=\"" : "", mark ? mark : "", mark ? "\"" : "", name);
	va_start(args, format);
	text_vappendf(t, format, args);
	va_end(args);
	text_append_string(t, "</dd></div>\n");
}
