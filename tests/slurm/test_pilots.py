# SPDX-License-Identifier: MIT
"""Pilots in allocations of a real Slurm, as an ordinary user, with the coordinator of the tests."""
import errno
import json

import coordinator as protocol
import processes
import pytest

LEAVING = "setsid sh -c 'echo $$ >> left; sleep 1000' & trap 'exit 0' TERM; echo $GPUQ_JOB_ID >> ran; until [ -e go ]; do sleep 0.05; done"


class Boss(protocol.Coordinator):
    def __init__(self, lab, **options):
        self.lab = lab
        super().__init__(lab.directory, owner=lab.cluster.owner(), **options)

    def submit(self, *words, gpus=1):
        """Submits a pilot."""
        return self.lab.sbatch("--no-requeue", "-N1", "--job-name=gpuq-test-1", *words, "--wrap",
                               f"exec gpuq-slurm pilot --jobs-file {self.lab.journal}", gpus=gpus)

    def meet(self, *words, **options):
        """A new pilot, welcomed: its Slurm job, connection and hello."""
        number = self.submit(*words, **options)
        line = self.accept()
        hello = line.welcome()
        assert hello["slurm_job"] == number
        return number, line, hello


@pytest.fixture(name="boss")
def make_boss(lab):
    made = Boss(lab)
    yield made
    made.close()


def test_jobs_run_through_two_pilots_on_different_gpus(lab, boss):
    pilots = [boss.meet() for _ in range(2)]
    for job, (_, line, hello) in enumerate(pilots, 1):
        assert len(hello["gpus"]) == 1 and hello["node"] == "node"
        line.grant(job, 1, "echo $CUDA_VISIBLE_DEVICES >> ran; env | grep -E '^(SLURM_|SLURMD_|PMI)' >> leaked; echo from $GPUQ_NODE")
    for job, (number, line, _) in enumerate(pilots, 1):
        end = line.end()
        assert (end["id"], end["outcome"]) == ((job, 1), "completed")
        assert (lab.directory / "logs" / boss.log(job, 1, number)).read_text() == "from node\n"
        line.send(protocol.RELEASE)
        line.wait_for(protocol.BYE)
    assert sorted(lab.ran()) == ["0", "1"]
    leaked = [row for row in (lab.directory / "leaked").read_text().splitlines() if not row.startswith("SLURM_CONF=")]
    assert leaked == []
    assert [lab.exit_code(number) for number, _, _ in pilots] == [0, 0]


def test_cancelled_pilot_interrupts_its_job_and_leaves_nothing(lab, boss):
    number, line, hello = boss.meet()
    line.grant(7, 1, LEAVING)
    left = int(lab.until(lambda: (lab.directory / "left").exists() and (lab.directory / "left").read_text(), "the child"))
    lab.until(lab.ran, "the job")
    lab.slurm("scancel", number)
    line.wait_for(protocol.ENDING)
    assert line.end()["outcome"] == "interrupted"
    line.wait_for(protocol.BYE)
    lab.until_gone(number)
    assert not processes.alive(left) and lab.processes() == []
    (end,) = [json.loads(row) for row in boss.outbox(hello["pilot"])[1:]]
    assert (end["id"], end["outcome"]) == (7, "interrupted")


def test_coordinator_that_comes_back_finds_the_job_still_running(lab, boss):
    _, line, _ = boss.meet()
    line.grant(1, 1, LEAVING)
    lab.until(lab.ran, "the job")
    line.close()
    boss.close()
    boss.epoch = 2
    boss.listen()
    line = boss.accept()
    hello = line.welcome()
    assert hello["attempts"] == [(1, 1, 1)] and hello["last_epoch"] == 1
    lab.touch("go")
    assert line.end()["outcome"] == "completed"
    assert lab.ran() == ["1"]


def test_coordinator_that_stays_away_costs_the_job(lab):
    boss = Boss(lab, lease_ms=4000)
    number, line, _ = boss.meet()
    line.grant(1, 1, LEAVING)
    left = int(lab.until(lambda: (lab.directory / "left").exists() and (lab.directory / "left").read_text(), "the child"))
    line.close()
    boss.close()
    assert lab.exit_code(number) != 0
    lab.until_gone(number)
    assert not processes.alive(left) and lab.processes() == []


def test_pilot_knows_how_long_it_has(boss):
    _, _, hello = boss.meet("--time=60")
    assert 0 < hello["remaining_ms"] < 3600000


# ---- The coordinator's requests to Slurm ----

STATES = {"1": "pending", "2": "running", "3": "completing", "4": "terminal"}


def ask(lab, *words):
    return lab.slurm("ask_slurm", *words).splitlines()


def listed(lab, prefix="gpuq-ask-"):
    """The state of each job by its number, and the nodes."""
    head, *rows = ask(lab, "list", prefix)
    assert head.startswith("listing 1 1 0"), head
    jobs = {int(row.split()[1]): STATES.get(row.split()[3], "other") for row in rows if row.startswith("job ")}
    return jobs, [row.split()[1:] for row in rows if row.startswith("node ")]


def test_submitted_job_is_listed_until_it_is_over(lab):
    result, number, *_ = ask(lab, "submit", "gpuq-ask-1", "--gres=gpu:1 --time=10 --requeue", "exec sleep 1000")[0].split()
    assert result == "0"
    number = int(number)
    lab.batches.append(number)
    other = lab.sbatch("--job-name=other", "--wrap", "sleep 1000", gpus=1)
    lab.until(lambda: listed(lab)[0].get(number) == "running", "the job")
    jobs, nodes = listed(lab)
    assert other not in jobs
    ((name, responding, boot),) = nodes
    assert (name, responding) == ("node", "1") and int(boot) > 1600000000000
    # The user's --requeue is overridden: a pilot relaunched by Slurm itself would be one too many.
    assert "Requeue=0" in lab.slurm("scontrol", "show", "job", str(number))
    ask(lab, "cancel", number)
    lab.until(lambda: listed(lab)[0].get(number) == "terminal", "its end")


@pytest.mark.parametrize("options, code", [("--partition=nope", errno.ENOTSUP), ("--gres=gpu:9", errno.EINVAL), ("--no-such-option", errno.ENOTSUP)])
def test_refused_submission_says_why(lab, options, code):
    result, number, words = ask(lab, "submit", "gpuq-ask-1", options, "true")[0].split(" ", 2)
    assert (int(result), number) == (-code, "0") and words
