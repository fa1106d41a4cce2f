# SPDX-License-Identifier: MIT
"""Interactive bash, zsh and fish with the completions of gpuq, in a terminal."""
import os
import pathlib
import pty
import re
import select
import signal
import time

import pytest

from lab import GPUQ, Lab

SCRIPTS = pathlib.Path(os.environ["GD_SOURCE"]) / "completions"
LIMIT = 120
TAB, SHOW, KILL, EXECUTE = "\t", "\x18\x02", "\x18k", "\x18e"


@pytest.fixture(name="lab")
def make_lab(tmp_path):
    lab = Lab(tmp_path)
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/gpuq").symlink_to(GPUQ)
    (tmp_path / "bin/a-program").symlink_to("/bin/true")
    lab.environment["PATH"] = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
    lab.environment["HOME"] = str(tmp_path)
    yield lab
    lab.end()


class Shell:
    """^X^B shows the line that is being edited, in guillemets; ^Xk deletes it, ^Xe executes it."""

    def __init__(self, lab, words, setup):
        self.text = ""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            try:
                os.chdir(lab.directory)
                os.execvpe(words[0], words, {**lab.environment, "TERM": "dumb", "PS1": "$ ", "LC_ALL": "C.UTF-8"})
            finally:
                os._exit(127)
        (lab.directory / "setup").write_text(setup + "\necho rea''dy\n")
        self.run("source ./setup", "ready")

    def type(self, keys):
        os.write(self.fd, os.fsencode(keys))

    def until(self, pattern):
        """Reads until the pattern matches; drops the output up to its end."""
        deadline = time.monotonic() + LIMIT
        while not (match := re.search(pattern, self.text)):
            assert time.monotonic() < deadline, (pattern, self.text)
            if select.select([self.fd], [], [], 0.1)[0]:
                self.text += os.read(self.fd, 65536).decode("utf-8", "replace")
        self.text = self.text[match.end():]
        return match

    def run(self, command, answer):
        self.type(command + "\r")
        self.until(answer)

    def line(self):
        """The line that is being edited."""
        self.type(SHOW)
        return self.until("(?s)«([^»]*)»").group(1).replace("\r\n", "\n")

    def complete(self, line, times=1):
        """The line after TAB."""
        self.type(line + TAB * times)
        got = self.line()
        self.type(KILL)
        return got

    def end(self):
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


@pytest.fixture(name="zsh")
def start_zsh(lab):
    shell = Shell(lab, ["zsh", "-f", "-i"], f"""
# compinit reads every file in fpath, which takes long, so fpath has only what these tests need.
unix=(${{^fpath}}/Completion/Unix(N) ${{(M)fpath:#*/Completion/Unix}})
fpath=({SCRIPTS} ${{(M)fpath:#*/Completion(|/Base|/Zsh)}})
autoload -Uz compinit && compinit -u -D
fpath+=($unix)
autoload -Uz _files _path_files _list_files
show() {{ zle -I; print -r -- "«$BUFFER»" }}
zle -N show
bindkey -e
bindkey '^X^B' show
bindkey '^Xk' kill-buffer
bindkey '^Xe' accept-line
""")
    yield shell
    shell.end()


@pytest.fixture(name="bash")
def start_bash(lab):
    shell = Shell(lab, ["bash", "--norc", "--noprofile", "-i"], f"""
source {SCRIPTS}/gpuq.bash
bind -x '"\\C-x\\C-b": printf "«%s»\\n" "$READLINE_LINE"'
bind '"\\C-xk": kill-whole-line'
bind '"\\C-xe": accept-line'
bind 'set bell-style none'
""")
    yield shell
    shell.end()


@pytest.fixture(name="fish")
def start_fish(lab):
    shell = Shell(lab, ["fish", "--no-config", "-i"], f"""
source {SCRIPTS}/gpuq.fish
bind \\cx\\cb 'printf "«%s»\\n" (commandline | string collect)'
bind \\cxk 'commandline -r ""'
bind \\cxe 'set -l line (commandline | string collect); commandline -f cancel; commandline -r -- $line; commandline -f execute'
""")
    yield shell
    shell.end()
