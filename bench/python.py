#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compares gpu_dispatch's Python package with its alternatives.

    PYTHONPATH=… python3 bench/python.py [--runs 5] [--workers 2] [--json] [WORKLOAD …]

Each figure is measured in a fresh process; the contestants of a workload take turns. The table shows
medians, and the median of the ratios of consecutive runs. Rates are taken from the first
result to the last (mp.Pool: after a first round, because its results come in chunks), so the start
of the processes does not count, except in the benchmark of the start.

"original" is bench/original.py: a reimplementation of the library that gpu_dispatch replaces, from its
documents. "Pool" is multiprocessing.Pool.imap_unordered() with the best of several chunk sizes, all
measured. "executor" is concurrent.futures.ProcessPoolExecutor.
"""
from __future__ import annotations

import argparse
import json
import pathlib
import statistics
import subprocess
import sys
import time
from typing import Any, Callable, Iterable, Iterator

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))

Figures = dict[str, float]


def echo(item: Any) -> Any:
    return item


try:
    from gpu_dispatch import BaseWorker as _Base
except ImportError:
    sys.exit("bench/python.py: cannot import gpu_dispatch; build it and set PYTHONPATH, or run pip install .")


class Echo(_Base):
    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        return data


class PlainEcho:
    """The same worker for the original."""

    def setup(self, gpu_id: int, seed: int) -> None:
        pass

    def process(self, data: Any) -> Any:
        return data

    def cleanup(self) -> None:
        pass


# ---- The tasks ---------------------------------------------------------------


def items_bytes(count: int) -> Iterator[Any]:
    for number in range(count):
        yield number.to_bytes(4, "little") * 25


def items_dicts(count: int) -> Iterator[Any]:
    for number in range(count):
        yield {"id": number, "path": f"/data/img_{number:06d}.jpg", "label": "cat", "score": 0.5}


def items_arrays(count: int) -> Iterator[Any]:
    import numpy

    for number in range(count):
        yield numpy.full(1 << 20, number & 255, numpy.uint8)   # a new array each: pickle would send a repeated one once


ITEMS: dict[str, Callable[[int], Iterator[Any]]] = {
    "bytes": items_bytes, "dicts": items_dicts, "arrays": items_arrays}


# ---- Throughput --------------------------------------------------------------


class Meter:
    """Counts results; the rate is measured between the first and the last one."""

    def __init__(self) -> None:
        self.count = 0
        self.first = 0.0

    def count_one(self, task_id: int, result: Any, worker_id: int) -> None:
        if not self.count:
            self.first = time.perf_counter()
        self.count += 1

    def figures(self) -> Figures:
        return {"per_s": (self.count - 1) / (time.perf_counter() - self.first)}


def rate_ours(items: Iterable[Any], workers: int) -> Figures:
    from gpu_dispatch import Dispatcher

    meter = Meter()
    Dispatcher(Echo, list(range(workers))).run(items, meter.count_one)
    return meter.figures()


def rate_ours_pool(items: Iterable[Any], workers: int) -> Figures:
    from gpu_dispatch import Pool

    meter = Meter()
    with Pool(Echo, gpus=list(range(workers)), bind_gpu=False) as pool:
        for result in pool.map(items, ordered=False):
            meter.count_one(0, result, 0)
        return meter.figures()


def rate_original(items: Iterable[Any], workers: int) -> Figures:
    from original import Dispatcher

    meter = Meter()
    Dispatcher(PlainEcho, list(range(workers))).run(items, meter.count_one)
    return meter.figures()


def rate_mp_pool(chunk: int) -> Callable[[Iterable[Any], int], Figures]:
    def measure(items: Iterable[Any], workers: int) -> Figures:
        import multiprocessing

        with multiprocessing.get_context("spawn").Pool(workers) as pool:
            pool.map(echo, range(workers * 8), 1)   # all workers have started
            begin = time.perf_counter()
            count = sum(1 for _ in pool.imap_unordered(echo, items, chunk))
            return {"per_s": count / (time.perf_counter() - begin)}

    return measure


RATES: dict[str, Callable[[Iterable[Any], int], Figures]] = {
    "run()": rate_ours, "Pool.map": rate_ours_pool, "original": rate_original,
    **{f"mp.Pool chunk {chunk}": rate_mp_pool(chunk) for chunk in (1, 4, 64, 256, 1024)}}
# How many tasks each contestant gets: about a second's worth.
COUNTS = {
    "bytes": {"run()": 2_000_000, "Pool.map": 1_000_000, "original": 30_000, "mp.Pool chunk 1": 20_000,
              "*": 400_000},
    "dicts": {"run()": 500_000, "Pool.map": 300_000, "original": 30_000, "mp.Pool chunk 1": 20_000, "*": 200_000},
    "arrays": {"run()": 4_000, "Pool.map": 4_000, "*": 300},
}


def throughput(workload: str, who: str, workers: int) -> Figures:
    counts = COUNTS[workload]
    return RATES[who](ITEMS[workload](counts.get(who, counts.get("*", 1000))), workers)


# ---- Round trips -------------------------------------------------------------


def median_us(trip: Callable[[], Any], count: int = 2000) -> Figures:
    for _ in range(100):
        trip()
    took = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        trip()
        took.append(time.perf_counter_ns() - begin)
    return {"us": statistics.median(took) / 1000}


def trip_through(dispatcher: Any) -> Figures:
    """Round trips through run(): the generator yields the next item when the callback has seen the last one."""
    import queue

    seen: queue.SimpleQueue[None] = queue.SimpleQueue()
    took: list[int] = []

    def items() -> Iterator[bytes]:
        for _ in range(2100):
            begin = time.perf_counter_ns()
            yield b"x" * 100
            seen.get()
            took.append(time.perf_counter_ns() - begin)

    dispatcher.run(items(), lambda task_id, result, worker_id: seen.put(None))
    return {"us": statistics.median(took[100:]) / 1000}


def trip_run(workers: int) -> Figures:
    from gpu_dispatch import Dispatcher

    return trip_through(Dispatcher(Echo, [0]))


def trip_original(workers: int) -> Figures:
    from original import Dispatcher

    return trip_through(Dispatcher(PlainEcho, [0]))


def trip_future(workers: int) -> Figures:
    from gpu_dispatch import Pool

    with Pool(Echo, gpus=[0], bind_gpu=False) as pool:
        return median_us(lambda: pool.submit(b"x" * 100).result())


def trip_mp_pool(workers: int) -> Figures:
    import multiprocessing

    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return median_us(lambda: pool.apply(echo, (b"x" * 100,)))


def trip_executor(workers: int) -> Figures:
    import concurrent.futures
    import multiprocessing

    with concurrent.futures.ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        return median_us(lambda: pool.submit(echo, b"x" * 100).result(), 1000)


def awaits(workers: int) -> Figures:
    import asyncio

    from gpu_dispatch import Pool

    async def client(pool: Any, count: int) -> None:
        for _ in range(count):
            await pool.asubmit(b"x" * 100)

    async def run() -> Figures:
        with Pool(Echo, gpus=list(range(workers)), bind_gpu=False) as pool:
            await pool.asubmit(b"")
            begin = time.perf_counter()
            await asyncio.gather(*(client(pool, 500) for _ in range(200)))
            return {"per_s": 100_000 / (time.perf_counter() - begin)}

    return asyncio.run(run())


# ---- The start ---------------------------------------------------------------


def first_ours(workers: int) -> Figures:
    from gpu_dispatch import Dispatcher

    begin = time.perf_counter()
    firsts: list[float] = []
    Dispatcher(Echo, list(range(workers))).run([1], lambda *_: firsts.append(time.perf_counter() - begin))
    return {"ms": firsts[0] * 1000}


def first_original(workers: int) -> Figures:
    from original import Dispatcher

    begin = time.perf_counter()
    firsts: list[float] = []
    Dispatcher(PlainEcho, list(range(workers))).run([1], lambda *_: firsts.append(time.perf_counter() - begin))
    return {"ms": firsts[0] * 1000}


def import_time(workers: int) -> Figures:
    code = ("import time; begin = time.perf_counter(); import gpu_dispatch; gpu_dispatch.Dispatcher; "
            "print((time.perf_counter() - begin) * 1000)")
    return {"ms": float(subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout)}


def memory(workers: int) -> Figures:
    """Growth of peak memory from a million items to ten million."""
    code = f"""
import resource, sys
sys.path.insert(0, {str(HERE)!r})
from python import Echo, Meter, items_bytes
from gpu_dispatch import Dispatcher
meter = Meter()
Dispatcher(Echo, {list(range(workers))}).run(items_bytes(int(sys.argv[1])), meter.count_one)
assert meter.count == int(sys.argv[1])
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)
"""
    peaks = [float(subprocess.run([sys.executable, "-c", code, str(count)], check=True, capture_output=True,
                                  text=True).stdout) for count in (1_000_000, 10_000_000)]
    return {"MiB": peaks[1], "growth_MiB": peaks[1] - peaks[0]}


SINGLE: dict[str, dict[str, Callable[[int], Figures]]] = {
    "round trip": {"run()": trip_run, "Pool.submit": trip_future, "original": trip_original,
                   "mp.Pool": trip_mp_pool, "executor": trip_executor},
    "awaits": {"Pool.asubmit": awaits},
    "first result": {"run()": first_ours, "original": first_original},
    "import": {"gpu_dispatch": import_time},
    "memory": {"run()": memory},
}


def measure(workload: str, who: str, workers: int) -> Figures:
    return throughput(workload, who, workers) if workload in ITEMS else SINGLE[workload][who](workers)


# ---- The table ---------------------------------------------------------------


def contestants(workload: str) -> list[str]:
    if workload == "arrays":   # a chunk of hundreds would be hundreds of megabytes
        return ["run()", "Pool.map", "original", "mp.Pool chunk 1", "mp.Pool chunk 4"]
    return [name for name in RATES if not name.endswith(" 4")] if workload in ITEMS else list(SINGLE[workload])


def in_a_process(workload: str, who: str, workers: int) -> Figures:
    command = [sys.executable, str(HERE / "python.py"), "--one", who, "--workers", str(workers), workload]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    figures: Figures = json.loads(done.stdout)
    return figures


def compare(workload: str, runs: int, workers: int) -> dict[str, Any]:
    names = contestants(workload)
    all_runs: dict[str, list[Figures]] = {name: [] for name in names}
    for _ in range(runs):
        for name in names:
            all_runs[name].append(in_a_process(workload, name, workers))
    unit = next(iter(all_runs[names[0]][0]))
    first = [run[unit] for run in all_runs[names[0]]]
    table = {}
    for name in names:
        values = [run[unit] for run in all_runs[name]]
        quotients = [ours / theirs for ours, theirs in zip(first, values)]
        table[name] = {unit: statistics.median(values), "quotient": statistics.median(quotients),
                       **{key: statistics.median(run[key] for run in all_runs[name])
                          for key in all_runs[name][0] if key != unit}}
    return table


def show(workload: str, table: dict[str, Any]) -> None:
    print(f"\n{workload}")
    for name, figures in table.items():
        rest = dict(figures)
        quotient = rest.pop("quotient")
        text = "  ".join(f"{value:,.1f} {unit.replace('per_s', 'per second')}" for unit, value in rest.items())
        print(f"  {name:<20} {text:<28} {next(iter(table))} / this: {quotient:.3g}", flush=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("workloads", nargs="*", metavar="WORKLOAD", help=", ".join([*ITEMS, *SINGLE]))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--one", metavar="WHO", help=argparse.SUPPRESS)
    options = parser.parse_args()
    for name in options.workloads:
        if name not in ITEMS and name not in SINGLE:
            parser.error(f"unknown workload '{name}'; known workloads: {', '.join([*ITEMS, *SINGLE])}")
    if options.one:
        print(json.dumps(measure(options.workloads[0], options.one, options.workers)))
        return 0
    tables = {}
    for name in options.workloads or [*ITEMS, *SINGLE]:
        tables[name] = compare(name, options.runs, options.workers)
        if not options.json:
            show(name, tables[name])
    if options.json:
        print(json.dumps(tables))
    return 0


if __name__ == "__main__":
    sys.exit(main())
