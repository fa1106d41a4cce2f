# SPDX-License-Identifier: MIT
"""Traces that the jobs write themselves (trace_job.c), compared with the journal."""
import collections
import contextlib
import json


class Trace:
    """One process of an attempt. Times are nanoseconds of the monotonic clock, which all nodes of the tests share."""

    def __init__(self, path):
        job, attempt, _, _ = path.name.split(".")
        begin, last, self.how, self.node, gpus = path.read_text(encoding="ascii").split()
        self.job, self.attempt, self.is_child = int(job), int(attempt), path.name.endswith("c")
        self.begin, self.last, self.gpus = int(begin), int(last), set(gpus.split(","))
        self.name = f"{path.name} on {self.node}"


def read_traces(directory):
    found = []
    for path in directory.iterdir():
        with contextlib.suppress(ValueError):  # it has just been created
            found.append(Trace(path))
    return sorted(found, key=lambda trace: trace.begin)


def overlaps(traces):
    """Finds attempts that executed an instruction after a later attempt of the job had begun."""
    found = []
    jobs = collections.defaultdict(list)
    for trace in traces:
        jobs[trace.job].append(trace)
    for own in jobs.values():
        for later in own:
            for earlier in own:
                if earlier.begin < later.begin and earlier.attempt != later.attempt and earlier.last > later.begin:
                    found.append(f"{earlier.name} was alive {(earlier.last - later.begin) / 1e9:.3f} s after the begin of {later.name}")
    return found


def begun_twice(traces):
    counts = collections.Counter((trace.job, trace.attempt) for trace in traces if not trace.is_child)
    return [f"attempt {attempt} of job {job} was begun {count} times" for (job, attempt), count in counts.items() if count > 1]


def shared_gpus(traces):
    """Finds two attempts on one GPU at the same time."""
    found, last = [], {}
    for trace in traces:
        for gpu in trace.gpus:
            other = last.get((trace.node, gpu))
            if other and other.last > trace.begin and (other.job, other.attempt) != (trace.job, trace.attempt):
                found.append(f"{other.name} was alive on GPU {gpu} {(other.last - trace.begin) / 1e9:.3f} s after the begin of {trace.name}")
            if not other or other.last < trace.last:
                last[trace.node, gpu] = trace
    return found


def wrong_ends(traces, rows, codes):
    """Checks that each job ends once, in the state that matches its exit code, by an attempt that
    ran to its end. codes: job → its exit code."""
    found = []
    ends = collections.defaultdict(list)
    for row in rows:
        if row["event"] == "end":
            ends[row["id"]].append(row)
    finished = {(trace.job, trace.attempt) for trace in traces if trace.how == "e"}
    for job, code in codes.items():
        if len(ends[job]) != 1:
            found.append(f"job {job} has {len(ends[job])} ends")
            continue
        (end,) = ends[job]
        status = "completed" if code == 0 else "failed"
        if end["status"] != status or end.get("exit_code", 0) != code:
            found.append(f"job {job} should be {status} ({code}): {end}")
        if (job, end["attempt"]) not in finished:
            found.append(f"attempt {end['attempt']} of job {job} is {end['status']}, and never came to its end")
        later = [trace.name for trace in traces if trace.job == job and trace.attempt > end["attempt"]]
        if later:
            found.append(f"job {job} was begun again after its end: {later}")
    return found


def read_journal(path):
    return [json.loads(row) for row in path.read_text(encoding="utf-8").splitlines()]


def violations(directory, journal, codes):
    traces = read_traces(directory)
    return overlaps(traces) + begun_twice(traces) + shared_gpus(traces) + wrong_ends(traces, read_journal(journal), codes)
