# SPDX-License-Identifier: MIT
"""gpuq and gpuq gpus, with a fake NVML behind the real loader and a fake sysfs."""
import json
import os
import pathlib
import pty
import re
import subprocess

import pytest

GPUQ = os.environ["GPUQ"]
FAKE = pathlib.Path(os.environ["GD_BUILD"]) / "tests/gpu/libnvidia-ml.so.1"
LIMIT = 240  # seconds, timeout for operations that take milliseconds
GIB = 1 << 30

A100 = f"""card
name=NVIDIA A100-SXM4-80GB
uuid=GPU-aaaa1111-0000-0000-0000-000000000000
pci=0:65:0
memory={80 * GIB} {20 * GIB} {60 * GIB} 0
utilization=97
temperature=61
power=287400
mode=0
"""
H100 = f"""card
name=NVIDIA H100 80GB HBM3
uuid=GPU-bbbb2222-0000-0000-0000-000000000000
pci=0:B3:0
memory={80 * GIB} {79 * GIB} 0 {1 * GIB}
utilization=0
temperature=30
power=70000
"""
KEYS = ["index", "uuid", "name", "vendor", "pci_id", "memory_total", "memory_free", "memory_used", "utilization",
        "processes", "numa_node", "links"]


@pytest.fixture(name="machine")
def make_machine(tmp_path):
    """An environment without a GPU, and a function that gives it some."""
    environment = {key: value for key, value in os.environ.items()
                   if not key.endswith("VISIBLE_DEVICES") and key not in ("GPUQ_GPUS", "CUDA_DEVICE_ORDER", "NO_COLOR")}
    (tmp_path / "sys").mkdir()
    environment |= {"GPUQ_SYSFS_ROOT": str(tmp_path / "sys"), "GPUQ_NVML_LIBRARY": str(FAKE),
                    "FAKE_NVML": str(tmp_path / "nvml"), "LC_ALL": "C.UTF-8", "TERM": "xterm"}
    (tmp_path / "nvml").write_text("")

    def gpuq(*words, cards=None, **more):
        if cards is not None:
            (tmp_path / "nvml").write_text(cards)
        return subprocess.run([GPUQ, *words], env={**environment, **more}, capture_output=True, text=True,
                              timeout=LIMIT, check=False)
    gpuq.environment = environment
    return gpuq


# ---- gpuq itself ------------------------------------------------------------


def test_version_is_one_line_and_help_fits_80_columns(machine):
    version = machine("--version")
    assert (version.returncode, version.stderr) == (0, "")
    assert re.fullmatch(r"gpuq \d+\.\d+\.\d+\n", version.stdout)
    for words in (["--help"], ["-h"], ["help"]):
        result = machine(*words)
        assert result.returncode == 0
        assert re.search(r"^   gpus +\w", result.stdout, re.MULTILINE)
        assert all(len(line) <= 80 for line in result.stdout.splitlines())


def test_no_arguments_show_the_help_and_are_wrong_usage(machine):
    result = machine()
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == machine("--help").stdout


def test_help_of_a_command_is_its_help(machine):
    result = machine("help", "gpus")
    assert result.returncode == 0
    assert result.stdout == machine("gpus", "--help").stdout
    assert result.stdout.startswith("Usage: gpuq gpus ")


def test_unknown_command_gets_a_suggestion(machine):
    result = machine("gups")
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gpuq: unknown command 'gups'; did you mean 'gpus'? 'gpuq help --all' lists all commands\n"
    result = machine("help", "xylophone")
    assert (result.returncode, result.stderr) == (2, "gpuq: unknown command 'xylophone'; 'gpuq help --all' lists all commands\n")
    assert machine("--verbose").returncode == 2


def test_typed_control_characters_do_not_reach_the_terminal(machine):
    assert "\x1b" not in machine("\x1b[31m").stderr


def test_wrong_usage_of_a_command_exits_2_and_names_the_command(machine):
    for words in (["--frobnicate"], ["0"], ["--gpus"]):
        result = machine("gpus", *words)
        assert (result.returncode, result.stdout) == (2, ""), words
        assert result.stderr.startswith("gpuq gpus: ")


@pytest.mark.parametrize("words", [["gpus"], ["gpus", "--json"], ["--help"], ["gpus", "--help"], ["--version"]])
def test_output_that_does_not_arrive_is_a_failure(machine, words):
    with open("/dev/full", "w", encoding="utf-8") as full:
        result = subprocess.run([GPUQ, *words], env=machine.environment, stdout=full, stderr=subprocess.PIPE, text=True,
                                timeout=LIMIT, check=False)
    assert result.returncode == 1
    assert result.stderr == "gpuq: cannot write the output: No space left on device\n"


# ---- gpuq gpus --------------------------------------------------------------


def test_table_has_the_most_free_memory_first(machine):
    result = machine("gpus", cards=A100 + H100 + "card\nname=Sick\nfail=GetMemoryInfo 15\n")
    assert result.returncode == 0
    assert result.stdout == """\
GPU  NAME                       FREE     TOTAL  UTIL  TEMP   PWR  PROCS  STATE
  1  NVIDIA H100 80GB HBM3  79.0 GiB  80.0 GiB    0%   30C   70W      0
  0  NVIDIA A100-SXM4-80GB  20.0 GiB  80.0 GiB   97%   61C  287W      0
  2  Sick                          -         -     -     -     -      -  lost
"""
    assert result.stderr == "gpuq: warning: GPU 2 has fallen off the bus\n"


def test_table_fits_eighty_columns(machine):
    cards = A100.replace("mode=0", "mode=3").replace("SXM4-80GB", "X" * 60) + H100 + \
        f"mig\ninstance 0\nname=NVIDIA H100 80GB HBM3 MIG 3g.40gb\nuuid=MIG-1\nmemory={40 * GIB} {GIB} 0 0\n"
    result = machine("gpus", cards=cards + f"compute=4194999 {3 * GIB}\n")
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= 80
    assert "exclusive" in lines[1] and "…" in lines[1]
    assert lines[2].startswith("1:0  MIG 3g.40gb ")
    assert lines[3].startswith("  1  ") and lines[3].endswith("  split")
    assert lines[5].split() == ["GPU", "PID", "MEMORY"]
    assert lines[6].split() == ["1:0", "4194999", "3.0", "GiB"]


def test_processes_on_a_gpu_are_listed_with_pid_memory_and_name(machine):
    with open("/proc/self/ns/pid", "rb") as namespace:
        if os.fstat(namespace.fileno()).st_ino != 0xEFFFFFFC:
            pytest.skip("in a container the driver's process numbers are not ours")
    result = machine("gpus", cards=A100 + f"compute={os.getpid()} {5 * GIB}\n")
    line = result.stdout.splitlines()[-1]
    assert re.match(rf"  0 +{os.getpid()}  5\.0 GiB  \S+ +\S*py", line)


def test_json_is_exactly_as_documented(machine):
    cards = A100 + "compute=4711 123456\ngraphics=4712\n" + "card\nname=Bad\\xff\nfail=GetComputeRunningProcesses 3\n"
    result = machine("gpus", "--json", cards=cards)
    assert (result.returncode, result.stderr) == (0, "")
    first, second = json.loads(result.stdout)
    assert list(first) == KEYS and list(second) == KEYS
    assert first == {"index": 0, "uuid": "GPU-aaaa1111-0000-0000-0000-000000000000", "name": "NVIDIA A100-SXM4-80GB",
                     "vendor": "nvidia", "pci_id": "00000000:65:00.0", "memory_total": 80 * GIB,
                     "memory_free": 20 * GIB, "memory_used": 60 * GIB, "utilization": 97,
                     "processes": [{"pid": 4711, "memory": 123456}, {"pid": 4712, "memory": None}], "numa_node": None, "links": []}
    assert second == {"index": 1, "uuid": None, "name": "Bad\N{REPLACEMENT CHARACTER}", "vendor": "nvidia",
                      "pci_id": "00000000:00:00.0", "memory_total": None, "memory_free": None, "memory_used": None,
                      "utilization": None, "processes": None, "numa_node": None, "links": []}


def test_topology_is_listed_where_it_is_known(machine):
    cards = A100 + "nvlink=1\n" + H100 + H100.replace("B3", "B4")
    lines = machine("gpus", cards=cards).stdout.splitlines()
    assert lines[0].split()[-1] == "LINKS" and "NUMA" not in lines[0]
    assert {(line.split()[0], line.split()[-1]) for line in lines[1:4]} == {("0", "1"), ("1", "0"), ("2", "-")}
    gpus = json.loads(machine("gpus", "--json", "--gpus", "0,2", cards=cards).stdout)
    assert [gpu["links"] for gpu in gpus] == [[], []]


def test_json_is_in_the_order_of_the_index_or_the_specification(machine):
    def indices(*words):
        return [gpu["index"] for gpu in json.loads(machine("gpus", "--json", *words, cards=A100 + H100).stdout)]
    assert indices() == [0, 1]
    assert indices("--gpus", "1,0") == [1, 0]


def test_option_and_variables_select_the_gpus(machine):
    result = machine("gpus", "--gpus", "GPU-bbbb", cards=A100 + H100)
    assert result.returncode == 0
    assert "H100" in result.stdout and "A100" not in result.stdout
    assert "H100" not in machine("gpus", GPUQ_GPUS="0").stdout
    assert "A100" not in machine("gpus", CUDA_VISIBLE_DEVICES="1").stdout


def test_simulated_gpus_of_the_variable_are_the_machine(machine):
    def indices(*words):
        gpus = json.loads(machine("gpus", "--json", *words, cards=A100, GPUQ_GPUS="sim:2").stdout)
        assert {gpu["vendor"] for gpu in gpus} == {"simulated"}
        return [gpu["index"] for gpu in gpus]
    for words in ((), ("--gpus", "auto"), ("--gpus", "all"), ("--gpus", "0,1"), ("--gpus", "0-1")):
        assert indices(*words) == [0, 1], words
    assert indices("--gpus", "1") == [1]
    assert indices("--gpus", "sim:3") == [0, 1, 2]
    result = machine("gpus", "--gpus", "2", GPUQ_GPUS="sim:2")
    assert result.returncode == 2
    assert result.stderr == "gpuq: GPU specification '2': GPU 2 does not exist; existing GPUs: 0, 1 (with GPUQ_GPUS='sim:2')\n"


def test_real_gpus_of_the_variable_are_the_default_selection(machine):
    def indices(*words):
        return [gpu["index"] for gpu in json.loads(machine("gpus", "--json", *words, cards=A100 + H100, GPUQ_GPUS="1").stdout)]
    assert indices() == indices("--gpus", "auto") == [1]
    assert indices("--gpus", "all") == [0, 1]
    assert indices("--gpus", "0") == [0]


def test_wrong_value_of_the_variable_is_an_error_that_names_it(machine):
    for words in ((), ("--gpus", "auto"), ("--gpus", "0")):
        result = machine("gpus", *words, cards=A100, GPUQ_GPUS="sim:x")
        assert (result.returncode, result.stdout) == (2, "")
        assert result.stderr.startswith("gpuq: $GPUQ_GPUS 'sim:x': expected sim:N")


def test_missing_gpu_is_reported_with_the_existing_ones(machine):
    result = machine("gpus", "--gpus", "0,5", cards=A100 + H100)
    assert (result.returncode, result.stdout) == (2, "")
    assert result.stderr == "gpuq: GPU specification '0,5': GPU 5 does not exist; existing GPUs: 0, 1\n"
    result = machine("gpus", "--gpus", "five")
    assert result.returncode == 2
    assert "'five' is not a GPU; expected auto" in result.stderr


def test_without_a_gpu_it_says_so_and_names_the_simulated_ones(machine):
    environment = {"GPUQ_NVML_LIBRARY": ""}
    result = machine("gpus", **environment)
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout.startswith("No GPU found.") and "--gpus sim:4" in result.stdout
    result = machine("gpus", "--json", **environment)
    assert (result.returncode, result.stdout, result.stderr) == (0, "[]\n", "")


def test_driver_that_is_not_loaded_is_a_warning(machine):
    result = machine("gpus", cards="init=9\n")
    assert result.returncode == 0
    assert result.stdout.startswith("No GPU found.")
    assert result.stderr == \
        "gpuq: warning: cannot use the NVIDIA driver: the kernel driver is not loaded (NVML error 9)\n"


def test_driver_that_crashes_is_an_error(machine):
    result = machine("gpus", cards=A100 + "crash=GetUUID\n")
    assert (result.returncode, result.stdout) == (1, "")
    assert "crashed the probe process" in result.stderr


def test_simulated_gpus_are_listed_with_their_size(machine):
    result = machine("gpus", "--gpus", "sim:2x24G")
    assert (result.returncode, result.stderr) == (0, "")
    assert result.stdout == """\
GPU  NAME               FREE     TOTAL  UTIL  PROCS
  0  Simulated GPU  24.0 GiB  24.0 GiB    0%      0
  1  Simulated GPU  24.0 GiB  24.0 GiB    0%      0
"""
    gpus = json.loads(machine("gpus", "--json", GPUQ_GPUS="sim:3").stdout)
    assert [(gpu["index"], gpu["vendor"], gpu["memory_free"], gpu["pci_id"]) for gpu in gpus] == \
        [(i, "simulated", 16 * GIB, None) for i in range(3)]


def read_terminal(command, environment):
    """The output of the command on a terminal."""
    ours, theirs = pty.openpty()
    with subprocess.Popen(command, env=environment, stdout=theirs, stderr=theirs, stdin=theirs) as process:
        os.close(theirs)
        seen = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other side is closed
                break
            if not piece:
                break
            seen += piece
        process.wait(LIMIT)
    os.close(ours)
    return seen.decode()


def test_table_has_colors_on_a_terminal_only(machine):
    command = [GPUQ, "gpus", "--gpus", "sim:2"]
    assert "\x1b" not in machine(*command[1:]).stdout
    colored = read_terminal(command, machine.environment)
    assert "\x1b[32m" in colored
    plain = re.sub(r"\x1b\[\d+m", "", colored).replace("\r\n", "\n")
    assert plain == machine(*command[1:]).stdout
    assert "\x1b" not in read_terminal(command, {**machine.environment, "NO_COLOR": "1"})
    assert "\x1b" not in read_terminal(command, {**machine.environment, "TERM": "dumb"})
