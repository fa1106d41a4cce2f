# SPDX-License-Identifier: MIT
"""The examples work as documented, run as a user runs them, on simulated GPUs."""
import json
import os
import pathlib
import re
import signal
import socket
import subprocess
import sys
import threading

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
EXAMPLES = pathlib.Path(os.environ["GD_BUILD"]) / "examples"
LIMIT = 240  # seconds, timeout for operations that take milliseconds


def run(*command, gpus="sim:4", **environment):
    return subprocess.run([str(word) for word in command], env={**os.environ, "GPUQ_GPUS": gpus, **environment},
                          capture_output=True, text=True, timeout=LIMIT * 2, check=False)


# ---- squares ----------------------------------------------------------------


def test_squares_prints_every_square_once():
    result = run(EXAMPLES / "squares", gpus="sim:3")
    assert (result.returncode, result.stderr) == (0, "")
    lines = result.stdout.splitlines()
    found = [re.fullmatch(r"GPU ([012]): (\d+)² = (\d+)", line).groups() for line in lines]
    assert sorted((int(n), int(square)) for _, n, square in found) == [(n, n * n) for n in range(100)]


def test_squares_is_short_enough_for_the_readme():
    assert len((SOURCE / "examples/squares.c").read_text().splitlines()) <= 45


def test_squares_on_a_missing_gpu_says_so():
    result = run(EXAMPLES / "squares", gpus="97")
    assert result.returncode == 1
    assert result.stderr.startswith("squares: ")
    assert "97" in result.stderr


# ---- demo -------------------------------------------------------------------


def test_demo_kills_a_worker_and_loses_nothing():
    result = run(EXAMPLES / "demo", "sim:4")
    assert result.returncode == 0, result.stdout + result.stderr
    killed = re.findall(r"kill -9 \d+: the worker of GPU (\d) dies in the middle of block (\d+)", result.stdout)
    gpu, block = killed[-1]
    assert re.search(rf"block {block} is counted again, on GPU \d", result.stdout)
    assert re.search(rf"a new worker is on GPU {gpu}: pid \d+", result.stdout)
    assert "788060 primes below 12000000: right" in result.stdout
    assert f"workers replaced: {len(killed)}, blocks tried again: 1" in result.stdout


# ---- poll_server ------------------------------------------------------------


class Server:
    def __init__(self, directory, gpus="sim:4", limit_ms=60000):
        self.path = str(directory / "socket")
        self.process = subprocess.Popen([EXAMPLES / "poll_server", self.path, gpus, str(limit_ms)], stdout=subprocess.PIPE,
                                        stderr=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line == f"poll_server: listening on '{self.path}'\n", line + self.process.stderr.read()

    def connect(self):
        client = socket.socket(socket.AF_UNIX)
        client.settimeout(LIMIT)
        client.connect(self.path)
        return client

    def end(self, number=signal.SIGTERM):
        """(exit code, last output)"""
        self.process.send_signal(number)
        return self.wait()

    def wait(self):
        out, err = self.process.communicate(timeout=LIMIT)
        assert err == ""
        return self.process.returncode, out


@pytest.fixture
def server(tmp_path):
    made = Server(tmp_path)
    yield made
    if made.process.poll() is None:
        made.process.kill()
    made.process.communicate()


def read_to_end(client):
    received = b""
    while chunk := client.recv(65536):
        received += chunk
    return received.decode().splitlines()


def ask(server, text):
    """All answers to all requests of one client, in no particular order."""
    with server.connect() as client:
        client.sendall(text.encode())
        client.shutdown(socket.SHUT_WR)
        return sorted(read_to_end(client))


def test_server_answers_each_line(server):
    assert ask(server, "7\n-12\n") == ["-12 144", "7 49"]


def test_server_answers_a_last_line_without_newline(server):
    assert ask(server, "7") == ["7 49"]


def test_server_says_what_is_wrong_with_a_request(server):
    assert ask(server, "x7\n99999999999999999999\n\n") == [
        " error: not a number", "99999999999999999999 error: too large", "x7 error: not a number"]


def test_server_puts_partial_reads_together(server):
    with server.connect() as client:
        answers = client.makefile()
        for byte in b"123\n45":
            client.sendall(bytes([byte]))
        assert answers.readline() == "123 15129\n"
        client.sendall(b"6\n")
        assert answers.readline() == "456 207936\n"


def test_server_answers_many_clients_at_once(server):
    wrong = []

    def talk(number):
        asked = [str(number * 1000 + i) for i in range(200)]
        answers = ask(server, "\n".join(asked) + "\n")
        if answers != sorted(f"{n} {int(n) ** 2}" for n in asked):
            wrong.append(number)

    threads = [threading.Thread(target=talk, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(LIMIT)
    assert not wrong and not any(thread.is_alive() for thread in threads)
    assert server.end() == (0, "poll_server: 8000 requests answered\n")


def test_client_that_leaves_without_its_answers_does_no_harm(server):
    for _ in range(20):
        with server.connect() as client:
            client.sendall(b"1\n" * 100)
    assert ask(server, "7\n") == ["7 49"]
    assert server.end()[0] == 0


def test_requests_of_a_client_that_disconnects_are_cancelled(tmp_path):
    server = Server(tmp_path, gpus="sim:1", limit_ms=3600000)
    try:
        with server.connect() as client:
            client.sendall(b"1 3500000\n" * 3)
            client.sendall(b"2\n")  # queued after them
        assert ask(server, "7\n") == ["7 49"]
        assert server.end() == (0, "poll_server: 1 requests answered\n")
    finally:
        server.process.kill()
        server.process.communicate()


def test_request_has_a_time_limit(tmp_path):
    server = Server(tmp_path, gpus="sim:1", limit_ms=50)
    try:
        answer, other = ask(server, "8 3600000\n7\n")[::-1]
        assert answer.startswith("8 3600000 error: ") and "50" in answer
        assert other == "7 49"
        assert server.end()[0] == 0
    finally:
        server.process.kill()
        server.process.communicate()


def test_client_that_does_not_fetch_its_answers_delays_no_other(server):
    with server.connect() as glutton:
        glutton.setblocking(False)
        try:
            while True:  # until the server stops reading
                glutton.send(b"11111\n" * 1000)
        except BlockingIOError:
            pass
        assert ask(server, "7\n") == ["7 49"]


def test_a_line_without_end_closes_its_connection(server):
    with server.connect() as client:
        client.sendall(b"1" * 256)
        assert client.recv(100) == b""
    assert ask(server, "7\n") == ["7 49"]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_server_ends_cleanly_on_a_signal(server, number):
    with server.connect() as idle, server.connect() as client:
        client.sendall(b"5\n")
        assert client.recv(100) == b"5 25\n"
        code, out = server.end(number)
        assert (code, out) == (0, "poll_server: 1 requests answered\n")
        assert idle.recv(100) == b"" and client.recv(100) == b""
    assert not os.path.exists(server.path)


def test_server_answers_what_it_has_taken_before_it_leaves(server):
    with server.connect() as client:
        client.sendall(b"".join(b"%d\n" % n for n in range(3000)))
        received = client.recv(1)
        server.process.send_signal(signal.SIGTERM)
        try:
            while chunk := client.recv(65536):
                received += chunk
        except ConnectionResetError:
            pass  # after the last answer: some requests were still in the socket
    lines = received.decode().splitlines(keepends=True)
    code, out = server.wait()
    assert code == 0
    assert out == f"poll_server: {len(lines)} requests answered\n"
    assert len(set(lines)) == len(lines)
    assert all(line == f"{line.split()[0]} {int(line.split()[0]) ** 2}\n" for line in lines)


def test_socket_that_is_taken_is_an_error(server):
    result = run(EXAMPLES / "poll_server", server.path)
    assert result.returncode == 1
    assert "Address already in use" in result.stderr
    assert ask(server, "7\n") == ["7 49"]


def test_server_without_arguments_says_how_to_call_it():
    result = run(EXAMPLES / "poll_server")
    assert (result.returncode, result.stderr) == (2, "usage: poll_server SOCKET [GPUS [LIMIT_MS]]\n")


# ---- kernels ----------------------------------------------------------------


def built(name, why):
    if not (EXAMPLES / name).exists():
        pytest.skip(f"{name} was not built: {why}")
    return EXAMPLES / name


@pytest.mark.heavy
def test_opencl_saxpy_sets_a_device_up_once_per_worker_and_is_right(tmp_path):
    program = built("opencl_saxpy", "no OpenCL here")
    result = run(program, "sim:2", POCL_DEVICES="pthread pthread", POCL_CACHE_DIR=str(tmp_path))
    if result.returncode == 77:
        pytest.skip("no OpenCL device here")
    assert result.returncode == 0, result.stdout + result.stderr
    devices = [line.split(", OpenCL")[0] for line in result.stdout.splitlines() if "OpenCL device" in line]
    # One worker may have done all the blocks before the other had compiled its kernel.
    assert devices and len(set(devices)) == len(devices), result.stdout
    assert set(devices) <= {"worker 0: GPU 0", "worker 1: GPU 1"}
    assert "4194304 numbers right, 0 wrong, 0 failures" in result.stdout


@pytest.mark.heavy
def test_opencl_saxpy_without_a_device_says_so(tmp_path):
    program = built("opencl_saxpy", "no OpenCL here")
    result = run(program, "sim:2", OCL_ICD_VENDORS=str(tmp_path), POCL_CACHE_DIR=str(tmp_path))
    assert result.returncode == 77
    assert "no OpenCL device" in result.stderr


def test_cuda_saxpy_is_right_or_says_that_there_is_no_gpu():
    program = built("cuda_saxpy", "no working nvcc here")
    result = subprocess.run([program], capture_output=True, text=True, timeout=LIMIT, check=False)
    if result.returncode == 77:
        assert "there is no NVIDIA GPU here" in result.stdout
        pytest.skip("no NVIDIA GPU here")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "4194304 numbers right, 0 wrong, 0 failures" in result.stdout


# ---- mp_queue.py, the benchmark's comparison --------------------------------


def test_mp_queue_benchmark_reports_rates_and_latencies():
    result = run(sys.executable, SOURCE / "bench/mp_queue.py", "--workers", "2", "--payload", "10", "--tasks", "300",
                 "--json")
    assert result.returncode == 0, result.stderr
    figures = json.loads(result.stdout)
    assert (figures["workers"], figures["payload_bytes"], figures["tasks"]) == (2, 10, 300)
    assert figures["tasks_per_s"] > 0 and figures["latency_p99_us"] >= figures["latency_p50_us"] > 0
