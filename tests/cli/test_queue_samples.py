# SPDX-License-Identifier: MIT
"""How full and busy the GPUs were: jobs.jsonl.d/samples.jsonl."""
import json
import signal
import time

UNTIL_GO = "until [ -e go ]; do sleep 0.02; done"


def samples(lab):
    path = lab.directory / "jobs.jsonl.d/samples.jsonl"
    return [json.loads(line) for line in path.read_text().split("\n")[:-1]] if path.exists() else []


def test_samples_show_which_jobs_run_on_which_gpu(lab):
    before = time.time() * 1000
    first = lab.add("--", UNTIL_GO)
    second = lab.add("--", UNTIL_GO)
    runner = lab.start("run")
    both = lab.until(lambda: [s for s in samples(lab) if all(gpu["jobs"] for gpu in s["gpus"])], "a sample")[0]
    (lab.directory / "go").touch()
    assert runner.wait(60) == 0
    assert [gpu["gpu"] for gpu in both["gpus"]] == [0, 1]
    assert sorted(gpu["jobs"] for gpu in both["gpus"]) == [[first], [second]]
    assert all(gpu["mem_used_mb"] == 0 and gpu["util"] == 0 and gpu["mem_total_mb"] > 0 for gpu in both["gpus"])
    assert before <= both["time"] <= time.time() * 1000


def test_samples_end_with_the_jobs(lab):
    """The last sample shows that nothing runs; no more follow."""
    lab.add("--", "true")
    runner = lab.start("run", "--keep")
    # Not a sample from before the runner has read the start of the job.
    lab.until(lambda: lab.job(1)["status"] == "completed", "the job")
    lab.until(lambda: samples(lab) and not any(gpu["jobs"] for gpu in samples(lab)[-1]["gpus"]), "the last sample")
    count = len(samples(lab))
    # The sample timer is no longer set; a job sets it again.
    before = time.time() * 1000
    lab.add("--", UNTIL_GO)
    lab.until(lambda: [s for s in samples(lab)[count:] if any(gpu["jobs"] for gpu in s["gpus"])], "another sample")
    assert all(s["time"] >= before - 1 for s in samples(lab)[count:])
    (lab.directory / "go").touch()
    runner.send_signal(signal.SIGTERM)
    runner.wait(60)


def test_jobs_run_even_if_samples_cannot_be_written(lab):
    lab.add("--", "true")
    (lab.directory / "jobs.jsonl.d/samples.jsonl").mkdir()
    lab.gpuq("run")
    assert lab.job(1)["status"] == "completed"
