# SPDX-License-Identifier: MIT
"""Files that the user names, in directories where another user puts pipes, terminals and links."""
import contextlib
import itertools
import os
import pty
import shutil
import threading
import tty

import pytest

from users import BUILD, GROUP, LIMIT, STICKY, hold_pipe, plant, get_other, get_owner, make_machine, needs_users  # noqa: F401

pytestmark = needs_users

WORKER = """read setup; echo '{{"type":"ready"}}'; read item; echo '{{"id":0,"ok":RESULT}}'; cat"""
MAP = ("map", "--input", "{home}/items", "--lines", "--gpus", "sim:1", "--worker-command", WORKER.replace("RESULT", 'false,"error":"no"'))
OUTPUTS = {
    "output": (*MAP[:-1], WORKER.replace("RESULT", 'true,"results":[1]'), "--output", "{file}"),
    "errors": (*MAP, "--output", "{home}/results.jsonl", "--errors", "{file}"),
    "summary": (*MAP, "--output", "{home}/results.jsonl", "--json", "{file}"),
    "report": ("report", "--jobs-file", "{home}/jobs.jsonl", "--output", "{file}"),
}
INPUTS = {
    "param-file": ("add", "--no-start", "--param-file", "{file}", "--", "echo", "{{x}}"),
    "commands-file": ("run", "--commands-file", "{file}"),
    "config": ("add", "--no-start", "--config", "{file}", "true"),
}


class Terminal:
    """A terminal of that user, which everybody can write to."""

    def __init__(self, user):
        self.master, self.slave = pty.openpty()
        tty.setraw(self.slave)
        self.path = os.ttyname(self.slave)
        os.chown(self.path, user.uid, user.gid)
        os.chmod(self.path, 0o666)
        self.output = b""
        self.reader = threading.Thread(target=self.read)
        self.reader.start()

    def read(self):
        with contextlib.suppress(OSError):  # no process has it open any more
            while True:
                self.output += os.read(self.master, 65536)

    def end(self):
        """All that was written to it."""
        os.close(self.slave)
        self.reader.join(LIMIT)
        os.close(self.master)
        return self.output.decode()


def read_pipe(fd):
    output = b""
    with contextlib.suppress(BlockingIOError):
        while part := os.read(fd, 65536):
            output += part
    return output.decode()


def words_of(command, user, file):
    return [word.format(home=user.home, file=file) for word in command]


@pytest.fixture(name="home", autouse=True)
def make_home(owner):
    """With items and a queue."""
    owner.sh("rm -rf *; echo 1 > items; gpuq add --no-start true", owner.home)
    return owner.home


# ---- Output -------------------------------------------------------------------------------


@pytest.mark.parametrize("first", ["pipe", "link"])
@pytest.mark.parametrize("kind", OUTPUTS)
def test_output_does_not_go_to_a_terminal_of_another_user_who_exchanges_entries(machine, owner, other, kind, first):
    """A pipe and a link to the terminal, exchanged before each of the calls that examine or open the file, in turn."""
    shared, library = machine.directory(GROUP), machine.place / "bin/exchanged_entries.so"
    shutil.copy(BUILD / "tests/cli/libexchanged_entries.so", library)
    file, entry, log = (shared / f"file{suffix}" for suffix in ("", ".other", ".log"))
    for call in itertools.count(1):
        pipe, link = (file, entry) if first == "pipe" else (entry, file)
        terminal = Terminal(other)
        hold_pipe(other, pipe)
        other.sh(f"ln -s {terminal.path} {link.name}", shared)
        owner.sh("rm -rf results.jsonl*", owner.home)
        result = owner.gpuq(*words_of(OUTPUTS[kind], owner, file), cwd=owner.home,
                            env={"LD_PRELOAD": str(library), "EXCHANGED": str(file), "EXCHANGED_AT": str(call), "ASAN_OPTIONS": "verify_asan_link_order=0"})
        assert not terminal.end() and result.returncode == 2, (call, result)
        if not log.exists():
            break
        for name in (file, entry, log):
            name.unlink()
    assert call > 3 and "of another user" in result.stderr, (call, result)


@pytest.mark.parametrize("kind", OUTPUTS)
def test_output_does_not_go_to_a_terminal_of_another_user_or_behind_links_of_others(machine, owner, other, kind):
    shared, terminal = machine.directory(STICKY), Terminal(other)
    owner.sh("mkfifo -m 666 own", shared)
    other.sh("ln -s own link; ln -s . folder; ln -s /dev/null null", shared)
    results = {file: owner.gpuq(*words_of(OUTPUTS[kind], owner, file), cwd=owner.home)
               for file in (terminal.path, shared / "link", shared / "folder/own", shared / "null")}
    assert not terminal.end()
    for file, result in results.items():
        why = "it is a device of another user" if file == terminal.path else "link of another user"
        assert result.returncode == 2 and why in result.stderr, (file, result)


# What a shell does with the words "$@" of a command, and the names of an output.
PASSED = {
    "pipe": ('gpuq "$@" | cat', ("/dev/stdout", "/proc/self/fd/1", "link", "proc")),
    "second pipe": ('{ gpuq "$@" 9>&1 >/dev/null; } | cat', ("/dev/fd/9",)),
    "error pipe": ('gpuq "$@" 2>&1 >/dev/null | cat', ("/dev/stderr",)),
    "named pipe of another user": ('gpuq "$@" > {shared}/pipe', ("/dev/stdout",)),
    "terminal": ('gpuq "$@" > {own}', ("/dev/stdout", "/dev/fd/1", "link", "{own}")),
    "terminal of another user": ('gpuq "$@" > {theirs}', ("/dev/stdout",)),  # after su
    "controlling terminal": ('setsid --ctty --wait gpuq "$@" < {own} > /dev/null', ("/dev/tty",)),
    "file": ('gpuq "$@" 9> file; cat file', ("/dev/fd/9", "/proc/self/fd/9")),
}


@pytest.mark.parametrize("way", PASSED)
def test_output_to_a_descriptor_that_the_user_passes_is_written(machine, owner, other, way):
    script, names = PASSED[way]
    shared, here = machine.directory(GROUP), machine.project(owner)
    other.sh("mkfifo -m 666 pipe", shared)
    owner.sh("ln -s /dev/stdout link; ln -s /proc/self/fd/1 proc", here)
    pipe = os.open(shared / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name, kind in itertools.product(names, OUTPUTS):
        own, theirs = Terminal(owner), Terminal(other)
        places = {"shared": shared, "own": own.path, "theirs": theirs.path}
        filled = script
        for part, value in places.items():
            filled = filled.replace(f"{{{part}}}", str(value))
        owner.sh("rm -rf results.jsonl*", owner.home)
        result = owner.run("bash", "-c", filled, "bash", *words_of(OUTPUTS[kind], owner, name.format(**places)), cwd=here)
        output = result.stdout + own.end() + theirs.end() + read_pipe(pipe)
        assert {"output": '"result":1', "errors": '"error"', "summary": "items_done", "report": "</html>"}[kind] in output, (name, kind, result)
    os.close(pipe)


@pytest.mark.parametrize("kind", OUTPUTS)
@pytest.mark.parametrize("name, redirection", [("/dev/stderr", "2>> log"), ("/dev/fd/9", "9>> log"), ("/proc/self/fd/9", "9>> log")])
def test_output_to_a_file_that_the_user_passes_keeps_its_contents(owner, kind, name, redirection):
    result = owner.run("sh", "-c", f'echo old > log; gpuq "$@" {redirection}; head -n 1 log; cat log', "sh", *words_of(OUTPUTS[kind], owner, name),
                       cwd=owner.home)
    assert "old\nold\n" in result.stdout, result
    assert {"output": '"result":1', "errors": '"error"', "summary": "items_done", "report": "</html>"}[kind] in result.stdout, result
    result = owner.run("sh", "-c", 'gpuq "$@" 9< items', "sh", *words_of(OUTPUTS[kind], owner, "/dev/fd/9"), cwd=owner.home)
    assert result.returncode != 0 and "it is not open for writing" in result.stderr, result


@pytest.mark.parametrize("kind", OUTPUTS)
def test_output_to_pipes_and_devices_of_the_user_and_root_is_written(machine, owner, kind):
    shared = machine.directory(STICKY)
    owner.sh("mkfifo pipe ~/pipe; ln -s /dev/null null", shared)
    for name, code in (("/dev/null", True), (shared / "null", False), (owner.home / "pipe", False), (shared / "pipe", False)):
        result = owner.gpuq(*words_of(OUTPUTS[kind], owner, name), cwd=owner.home)
        assert ("no process is reading from it" in result.stderr) == (name == owner.home / "pipe"), result
        assert ("a pipe that another user may have moved there" in result.stderr) == (name == shared / "pipe"), result
        assert kind == "report" or ("a device that another user may have chosen" in result.stderr) == (name == shared / "null"), result
        assert ("cannot write" not in result.stderr and "refusing" not in result.stderr and "--json '" not in result.stderr) == code, result
        owner.sh("rm -rf results.jsonl*", owner.home)


# ---- Input --------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", INPUTS)
def test_named_input_behind_a_link_of_another_user_is_a_file_that_this_user_may_read(machine, owner, other, kind):
    shared, project = machine.directory(GROUP), machine.project(owner)
    text = {"param-file": "x\n1\n", "commands-file": "true\n", "config": "retries: 0\n"}[kind]
    plant(owner, owner.home / "private", text, 0o600)
    plant(other, shared / "theirs", text)
    owner.sh("mkfifo -m 644 pipe", project)
    other.sh(f"ln -s /dev/ptmx device; ln -s {project}/pipe pipe; ln -s {owner.home}/private private; ln -s {owner.home} folder; ln -s theirs public", shared)
    owner.sh(f"ln -s {shared}/device own", project)
    terminal = Terminal(other)
    for name, why in ((shared / "device", "its path contains a symbolic link of another user; name it without this link, or use --trust if you trust the owner of the link"),
                      (project / "own", "its path contains a symbolic link of another user"),
                      (shared / "pipe", "its path contains a symbolic link of another user"),
                      (shared / "private", "its path contains a symbolic link of another user to a file of yours; name it without this link"),
                      (shared / "folder/private", "its path contains a symbolic link of another user to a file of yours"),
                      (terminal.path, "it is a device of another user; copy its contents into a file")):
        result = owner.gpuq(*words_of(INPUTS[kind], owner, name), cwd=owner.home)
        assert result.returncode == 2 and f"cannot read '{name}': {why}" in result.stderr, (name, result)
    terminal.end()
    owner.sh(f"mkfifo pipe; ln -s {project}/pipe link; ln -s /dev/stdin passed", owner.home)
    for name, script in ((shared / "public", 'gpuq "$@"'), (shared / "theirs", 'gpuq "$@"'), (owner.home / "private", 'gpuq "$@"'),
                         ("pipe", 'cat private > pipe & gpuq "$@"'), ("link", 'cat private > link & gpuq "$@"'),
                         ("/dev/stdin", 'cat private | gpuq "$@"'), ("passed", 'cat private | gpuq "$@"'),
                         ("/dev/fd/9", 'gpuq "$@" 9< <(cat private)'), ("/dev/stdin", f'gpuq "$@" < {shared}/private')):
        result = owner.run("bash", "-c", script, "bash", *words_of(INPUTS[kind], owner, name), cwd=owner.home)
        assert result.returncode == 0, (name, result)


MAP_INPUT = ("map", "--input", "{file}", "--lines", "--gpus", "sim:1", "--worker-command", WORKER.replace("RESULT", 'true,"results":[1]'), "--output", "{home}/results.jsonl")


@pytest.mark.parametrize("kind", [*INPUTS, "map"])
def test_trust_allows_links_of_others_in_the_path_of_a_named_input(machine, owner, other, kind):
    shared, command = machine.directory(GROUP), {**INPUTS, "map": MAP_INPUT}[kind]
    plant(owner, owner.home / "private", {"param-file": "x\n1\n", "config": "retries: 0\n"}.get(kind, "true\n"), 0o600)
    other.sh(f"ln -s {owner.home} current", shared)
    words = words_of(command, owner, shared / "current/private")
    at = command.index("{file}") + 1
    result = owner.gpuq(*words, cwd=owner.home)
    assert result.returncode == 2 and "name it without this link, or use --trust if you trust the owner of the link" in result.stderr, result
    for trusting, env in (([*words[:at], "--trust", *words[at:]], {}), (words, {"GPUQ_TRUST": "1"})):
        result = owner.gpuq(*trusting, cwd=owner.home, env=env)
        assert result.returncode == 0, result
        owner.sh("rm -rf results.jsonl*", owner.home)


@pytest.mark.parametrize("kind", [*INPUTS, "map"])
def test_links_of_users_without_an_id_in_a_container_are_refused(machine, owner, kind):
    """The link may belong to root."""
    prefix = ("unshare", "--user", f"--map-user={owner.uid}")
    if owner.run(*prefix, "true", cwd=owner.home).returncode:
        pytest.skip("needs user namespaces for all users")
    plant(owner, owner.home / "private", {"param-file": "x\n1\n", "config": "retries: 0\n"}.get(kind, "true\n"), 0o600)
    link = machine.directory(0o755) / "link"
    link.symlink_to(owner.home / "private")
    words = words_of({**INPUTS, "map": MAP_INPUT}[kind], owner, link)
    programs = {f"GPUQ_{name.upper()}": str(machine.place / f"bin/gpuq-{name}") for name in ("map", "worker")}
    result = owner.run(*prefix, "gpuq", *words, cwd=owner.home, env=programs)
    assert result.returncode == 2, result
    assert "its path contains a symbolic link whose owner has no id in this user namespace; " in result.stderr and "another user" not in result.stderr, result
    result = owner.run(*prefix, "gpuq", *words, cwd=owner.home, env={**programs, "GPUQ_TRUST": "1"})
    assert result.returncode == 0, result
