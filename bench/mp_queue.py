#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The work of build/bench/pool, done with Python's multiprocessing.Queue.

Workers take payloads from one shared queue and return each through another, as handwritten pools
do: a thread feeds, the main thread takes the results.
"""
import argparse
import json
import multiprocessing
import resource
import sys
import threading
import time


def work(tasks, results):
    while True:
        task = tasks.get()
        if task is None:
            return
        results.put(task)


def percentile(ordered, fraction):
    return ordered[min(int(len(ordered) * fraction), len(ordered) - 1)]


def measure_throughput(tasks, results, payload, count):
    def feed():
        for number in range(count):
            tasks.put((number, payload))

    feeder = threading.Thread(target=feed)
    begin = time.perf_counter()
    feeder.start()
    for _ in range(count):
        results.get()
    seconds = time.perf_counter() - begin
    feeder.join()
    return count / seconds


def measure_latency(tasks, results, payload, count):
    """Round trips with one task in flight, in µs, in order of length."""
    trips = []
    for number in range(count):
        begin = time.perf_counter_ns()
        tasks.put((number, payload))
        results.get()
        trips.append((time.perf_counter_ns() - begin) / 1000)
    return sorted(trips)


def run(options):
    context = multiprocessing.get_context("fork")
    tasks = context.Queue(options.queue_size)
    results = context.Queue(options.queue_size)
    payload = b"x" * options.payload

    begin = time.perf_counter()
    workers = [context.Process(target=work, args=(tasks, results), daemon=True) for _ in range(options.workers)]
    for worker in workers:
        worker.start()
    tasks.put((0, payload))
    results.get()
    startup_ms = (time.perf_counter() - begin) * 1000

    tasks_per_s = measure_throughput(tasks, results, payload, options.tasks)
    trips = measure_latency(tasks, results, payload, max(min(options.tasks, 2000), 1))
    for _ in workers:
        tasks.put(None)
    for worker in workers:
        worker.join()
    return {
        "workers": options.workers,
        "payload_bytes": options.payload,
        "tasks": options.tasks,
        "tasks_per_s": round(tasks_per_s, 1),
        "latency_p50_us": round(percentile(trips, 0.5), 1),
        "latency_p99_us": round(percentile(trips, 0.99), 1),
        "startup_ms": round(startup_ms, 2),
        "max_rss_kb": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
    }


def positive(text):
    number = int(text)
    if number < 1:
        raise argparse.ArgumentTypeError("must be 1 or more")
    return number


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workers", type=positive, default=2)
    parser.add_argument("--payload", type=int, default=100, metavar="BYTES")
    parser.add_argument("--tasks", type=positive, default=100_000)
    parser.add_argument("--queue-size", type=positive, default=1024)
    parser.add_argument("--json", action="store_true", help="one object on one line")
    options = parser.parse_args()
    figures = run(options)
    if options.json:
        print(json.dumps(figures))
    else:
        for name, value in figures.items():
            print(f"{name:>16}  {value}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
