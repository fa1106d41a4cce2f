#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""How fast `gpuq web` is with many jobs, and with ten pages open.

    bench/web.py GPUQ [--jobs 100000] [--viewers 10] [--seconds 8] [--json]

Compares the time to the first usable page with the time `gpuq status` takes to read the journal.
Then adds a job several times a second, and measures how long each page takes to show it and how
much processor time that costs.
"""
import argparse
import http.client
import json
import os
import pathlib
import statistics
import subprocess
import tempfile
import threading
import time
import urllib.parse

from sealed_lines import sealed_lines


def write_journal(path, jobs, build):
    """Most jobs have ended, some wait, as after a few weeks."""
    begin = time.time() - jobs * 0.05

    def stamp(seconds):
        return time.strftime("%Y-%m-%dT%H:%M:%S.000Z", time.gmtime(seconds))

    with sealed_lines(path, build) as out:
        out.write('{"event":"journal","version":2,"queue":"0123456789abcdef0123456789abcdef","generation":1,"time":"2026-01-01T00:00:00.000Z"}\n')
        for number in range(1, jobs + 1):
            at = begin + number * 0.05
            out.write(f'{{"event":"add","id":{number},"time":"{stamp(at)}","command":"python train.py --model resnet{number % 5} --seed {number}","cwd":"/home/alice"}}\n')
            if number > jobs * 0.99:
                continue
            status = "failed" if number % 50 == 0 else "completed"
            out.write(f'{{"event":"start","id":{number},"attempt":1,"time":"{stamp(at + 1)}","gpus":[{number % 8}],"pid":1,"log":"/home/alice/logs/job_20260101_000000_{number}.log"}}\n')
            out.write(f'{{"event":"end","id":{number},"attempt":1,"time":"{stamp(at + 3)}","status":"{status}","exit_code":{int(status == "failed")},"duration":2.0}}\n')


class Viewer(threading.Thread):
    """An open page; records when it learned of how many jobs."""

    def __init__(self, port, token):
        super().__init__(daemon=True)
        self.learned = {}
        self.bytes = 0
        self.first = None
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.connection.request("GET", "/api/stream", headers={"Authorization": f"Bearer {token}"})

    def run(self):
        response = self.connection.getresponse()
        try:
            for line in response:
                self.bytes += len(line)
                if line.startswith(b"data:{\"total\""):
                    self.first = self.first or time.monotonic()
                elif line.startswith(b"data:{\"now\""):
                    self.learned.setdefault(int(line.split(b'"jobs":', 1)[1].split(b",", 1)[0]), time.monotonic())
        except (OSError, ValueError, AttributeError):
            pass  # closed at the end


def cpu_seconds(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(gpuq, options):
    with tempfile.TemporaryDirectory(prefix="gpuq-bench-") as directory:
        environment = {**os.environ, "GPUQ_GPUS": "sim:8", "GPUQ_CLAIMS_DIR": f"{directory}/claims", "XDG_CONFIG_HOME": directory}
        environment.pop("GPUQ_JOBS_FILE", None)
        write_journal(f"{directory}/jobs.jsonl", options.jobs, options.gpuq.resolve().parent)

        def gpuq_run(*words):
            return subprocess.run([gpuq, *words], cwd=directory, env=environment, check=True, stdout=subprocess.PIPE)

        gpuq_run("add", "--trust", "--no-start", "true")  # creates the counters; a journal without its folder counts as a copy
        begin = time.monotonic()
        gpuq_run("status")
        status = time.monotonic() - begin
        begin = time.monotonic()
        with subprocess.Popen([gpuq, "web", "--listen", "127.0.0.1:0"], cwd=directory, env=environment, stdout=subprocess.PIPE, text=True) as server:
            address = urllib.parse.urlsplit(server.stdout.readline().strip())
            token = address.fragment.removeprefix("token=")
            result = {"jobs": options.jobs, "status_s": status, "ready_s": time.monotonic() - begin}
            asked = time.monotonic()
            viewers = [Viewer(address.port, token)]
            viewers[0].start()
            while viewers[0].first is None:
                time.sleep(0.001)
            result |= {"first_page_s": viewers[0].first - begin, "next_page_s": viewers[0].first - asked, "first_page_bytes": viewers[0].bytes}
            viewers += [Viewer(address.port, token) for _ in range(options.viewers - 1)]
            for viewer in viewers[1:]:
                viewer.start()
            time.sleep(2)
            before, sent, added = cpu_seconds(server.pid), sum(v.bytes for v in viewers), []
            begin = time.monotonic()
            while time.monotonic() - begin < options.seconds:
                gpuq_run("add", "--no-start", "true")
                added.append(time.monotonic())
                time.sleep(0.4321)
            time.sleep(1)
            took = time.monotonic() - begin
            result["cpu_percent"] = 100 * (cpu_seconds(server.pid) - before) / took
            result["bytes_per_viewer_s"] = (sum(v.bytes for v in viewers) - sent) / took / len(viewers)
            late = []
            for number, at in enumerate(added, options.jobs + 2):
                for viewer in viewers:
                    learned = [when for jobs, when in viewer.learned.items() if jobs >= number]
                    late.append(min(learned) - at if learned else float("inf"))
            result |= {"viewers": options.viewers, "late_p50_ms": 1000 * statistics.median(late), "late_max_ms": 1000 * max(late)}
            result["rss_mb"] = int(pathlib.Path(f"/proc/{server.pid}/status").read_text().split("VmRSS:")[1].split()[0]) / 1024
            server.terminate()
        return result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("gpuq", type=pathlib.Path)
    parser.add_argument("--jobs", type=int, default=100000)
    parser.add_argument("--viewers", type=int, default=10)
    parser.add_argument("--seconds", type=float, default=8)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    r = measure(options.gpuq.resolve(), options)
    if options.json:
        print(json.dumps(r))
        return
    print(f"{r['jobs']:,} jobs: first page {1000 * r['first_page_s']:.0f} ms after the start ({r['first_page_s'] / r['status_s']:.1f} times `gpuq status`), "
          f"the next one {1000 * r['next_page_s']:.0f} ms, {r['first_page_bytes'] / 1024:.0f} KB; {r['rss_mb']:.0f} MB of memory")
    print(f"{r['viewers']} pages open, two or three changes a second: a change is shown after {r['late_p50_ms']:.0f} ms (at most {r['late_max_ms']:.0f}), "
          f"{r['cpu_percent']:.1f} % of a processor, {r['bytes_per_viewer_s'] / 1024:.1f} KB/s each")


if __name__ == "__main__":
    main()
