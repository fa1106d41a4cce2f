# SPDX-License-Identifier: MIT
"""tools/terminal-svg: the picture shows the final screen of the command."""
import importlib.machinery
import importlib.util
import os
import pathlib
import subprocess
import sys
import xml.etree.ElementTree

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
SVG = "{http://www.w3.org/2000/svg}"


def draw(tmp_path, script, *options):
    out = tmp_path / "out.svg"
    result = subprocess.run([sys.executable, SOURCE / "tools/terminal-svg", "--out", out, *options, "--", "sh", "-c", script],
                            capture_output=True, text=True, timeout=60, check=False)
    return result.returncode, xml.etree.ElementTree.parse(out).getroot()


def texts(svg):
    return [(t.text, t.get("fill")) for t in svg.iter(SVG + "text")][1:]


def test_text_and_color_are_drawn(tmp_path):
    code, svg = draw(tmp_path, r"printf 'a <b> & c\n\033[32mgreen\033[0m\n'")
    assert code == 0
    assert texts(svg) == [("a <b> & c", None), ("green", "#3fb950")]


def test_overwritten_text_is_not_drawn(tmp_path):
    _, svg = draw(tmp_path, r"printf 'one\ntwo\n\033[2A\033[Knew\n\033[1Bend\n'")
    assert texts(svg) == [("new", None), ("two", None), ("end", None)]


def test_the_command_has_a_terminal_of_the_size_asked_for(tmp_path):
    _, svg = draw(tmp_path, "test -t 1 && stty size", "--columns", "77", "--rows", "33")
    assert texts(svg) == [("33 77", None)]


def test_exits_as_the_command_did(tmp_path):
    assert draw(tmp_path, "exit 3")[0] == 3


def test_until_draws_the_middle_of_a_run(tmp_path):
    code, svg = draw(tmp_path, r"echo one; printf 'two \342\224\201\n'; sleep 1000", "--until", "two ━")
    assert code == 0
    assert [text for text, _ in texts(svg)] == ["one", "two ━"]


def test_until_that_never_matches_is_an_error(tmp_path):
    out = tmp_path / "out.svg"
    result = subprocess.run([sys.executable, SOURCE / "tools/terminal-svg", "--out", out, "--until", "two", "--", "echo", "one"],
                            capture_output=True, text=True, timeout=60, check=False)
    assert result.returncode == 1 and "'two' did not appear on the screen" in result.stderr
    assert not out.exists()


def test_reversed_text_has_its_own_background(tmp_path):
    _, svg = draw(tmp_path, r"printf 'a\033[7mbc \033[27md\n'")
    assert texts(svg) == [("a", None), ("bc", "#0d1117"), ("d", None)]
    assert [(r.get("width"), r.get("fill")) for r in svg.iter(SVG + "rect")][1:] == [("25.2", "#c9d1d9")]


def test_columns_stay_where_they_are(tmp_path):
    _, svg = draw(tmp_path, r"printf 'a  b c   d\n'")
    words = [(t.text, float(t.get("x"))) for t in svg.iter(SVG + "text")][1:]
    first = words[0][1]
    assert [(text, round((x - first) / 8.4)) for text, x in words] == [("a", 0), ("b c", 3), ("d", 9)]


def test_a_sequence_that_is_read_in_pieces_counts_as_one(monkeypatch):
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    loader = importlib.machinery.SourceFileLoader("terminal_svg", str(SOURCE / "tools/terminal-svg"))
    tool = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(tool)
    screen = tool.Screen(80)
    for char in "a\033[32mb\033]0;title\007c\033[39md":
        screen.feed(char)
    assert [(char, style[0]) for char, style in screen.lines[0]] == [("a", None), ("b", "#3fb950"), ("c", "#3fb950"), ("d", None)]
