# SPDX-License-Identifier: MIT
"""Faults of a data center: each fault has a start and, usually, an end."""
import signal

import datacenter


class Faults:
    """Draws random faults from a seed. A fault is effective if a job ran where it happened."""

    def __init__(self, center, queue, random, kinds, busy):
        self.center, self.queue, self.random, self.kinds, self.busy = center, queue, random, kinds, busy
        self.done, self.effective = {}, 0
        self.over = []  # (time, function to call)
        self.broken = set()  # things that have a fault now: they do not get a second one
        self.log = []

    def later(self, now, seconds, thing, call):
        self.broken.add(thing)

        def heal():
            self.broken.discard(thing)
            call()
        self.over.append((now + seconds, heal))

    def heal_due(self, now):
        due = [entry for entry in self.over if entry[0] <= now]
        self.over = [entry for entry in self.over if entry[0] > now]
        for _, call in sorted(due, key=lambda entry: entry[0]):
            call()

    def heal_all(self):
        self.heal_due(float("inf"))

    def inject(self, now):
        """Injects one fault, if anything can be affected."""
        kind = self.random.choice(self.kinds)
        busy = self.busy()
        nodes = [node for node in self.center.nodes if node.is_on and node.name not in self.broken]
        # Prefer places with work.
        working = [node for node in nodes if node.name in busy]
        node = self.random.choice(working or nodes) if nodes else None
        on_node = kind in ON_NODE
        if on_node and not node:
            return
        words = ON_NODE[kind](self, now, node) if on_node else ELSEWHERE[kind](self, now)
        if words is None:
            return
        self.done[kind] = self.done.get(kind, 0) + 1
        effective = (node.name in busy) if on_node else bool(busy)
        self.effective += effective
        self.log.append(f"{now:6.2f} {kind}{' ' + node.name if on_node else ''} {words}{'' if effective else ' (idle)'}")

    def seconds(self):
        """Durations shorter than the silence, longer than it, and longer than the lease."""
        longest = 1.5 * (self.queue.lease_s + self.queue.silence_s) + 2
        return self.random.choice([self.random.uniform(0.1, self.queue.silence_s), self.random.uniform(0.5, self.queue.lease_s), longest])


# ---- Nodes ----

def power(faults, now, node):
    seconds = faults.random.uniform(0.3, 8)
    node.power_off()
    faults.later(now, seconds, node.name, node.power_on)
    return f"for {seconds:.1f} s"


def unplug(faults, now, node):
    seconds = faults.seconds()
    node.unplug()
    faults.later(now, seconds, node.name, lambda: node.is_on and node.plug())
    return f"for {seconds:.1f} s"


def unplug_and_scancel(faults, now, node):
    """Slurm is told to end a pilot that it cannot reach: it then reports the job as not running."""
    if faults.broken & {"slurmctld", "login-ctl"}:
        return None
    words = unplug(faults, now, node)
    numbers = [number for number, name in faults.center.squeue().items() if name == node.name]
    for number in numbers:
        faults.center.login.run("scancel", number, code=None)
    return f"{words}, scancel {numbers}"


def cut_from(name):
    def cut(faults, now, node):
        other, seconds = getattr(faults.center, name), faults.seconds()
        node.cut(other)
        faults.later(now, seconds, node.name, lambda: node.is_on and node.heal(other))
        return f"for {seconds:.1f} s"
    return cut


def files(faults, now, node):
    seconds = faults.seconds()
    node.fs(signal.SIGSTOP)
    faults.later(now, seconds, node.name, lambda: node.is_on and node.fs(signal.SIGCONT))
    return f"for {seconds:.1f} s"


def slurmd(faults, now, node):
    seconds = faults.random.uniform(0.5, 14)
    node.slurmd_kill()
    faults.later(now, seconds, node.name, lambda: node.is_on and node.slurmd_on())
    return f"for {seconds:.1f} s"


def signal_to(part, number, back=None):
    def send(faults, now, node):
        pids = [pid for pilot in node.pilots() for pid in (pilot.keepers if part == "keepers" else [getattr(pilot, part)]) if pid]
        if not pids:
            return None
        pid = faults.random.choice(pids)
        datacenter.kill(pid, number)
        if not back:
            return f"pid {pid}"
        seconds = faults.seconds()
        faults.later(now, seconds, node.name, lambda: datacenter.kill(pid, back))
        return f"pid {pid} for {seconds:.1f} s"
    return send


ON_NODE = {
    "power": power,
    "unplug": unplug,
    "unplug-scancel": unplug_and_scancel,
    "cut-login": cut_from("login"),
    "cut-ctl": cut_from("ctl"),
    "files": files,
    "slurmd": slurmd,
    "stop-guard": signal_to("guard", signal.SIGSTOP, signal.SIGCONT),
    "stop-agent": signal_to("agent", signal.SIGSTOP, signal.SIGCONT),
    "kill-guard": signal_to("guard", signal.SIGKILL),
    "kill-agent": signal_to("agent", signal.SIGKILL),
    "kill-sweeper": signal_to("sweeper", signal.SIGKILL),
    "kill-keeper": signal_to("keepers", signal.SIGKILL),
}


# ---- The rest ----

def coordinator(faults, now):
    if "coordinator" in faults.broken or not faults.queue.is_alive():
        return None
    seconds = faults.random.choice([0.1, faults.random.uniform(0.1, 3), faults.queue.lease_s + 1])
    faults.queue.kill()
    faults.later(now, seconds, "coordinator", faults.queue.start)
    return f"for {seconds:.1f} s"


def login_power(faults, now):
    """Unsynced parts of the journal are lost, sometimes at the worst moment that comes within a second."""
    if "coordinator" in faults.broken or not faults.queue.is_alive():
        return None
    lost = faults.queue.lose_power(faults.random.choice([0, 1]))
    faults.later(now, 0.1, "coordinator", faults.queue.start)
    return f"{lost} bytes lost"


def stop_coordinator(faults, now):
    if "coordinator" in faults.broken or not faults.queue.is_alive():
        return None
    seconds = faults.seconds()
    faults.queue.stop()
    faults.later(now, seconds, "coordinator", faults.queue.go_on)
    return f"for {seconds:.1f} s"


def slurmctld(faults, now):
    if "slurmctld" in faults.broken:
        return None
    seconds = faults.random.uniform(0.2, 6)
    faults.center.slurmctld_kill()
    faults.later(now, seconds, "slurmctld", faults.center.slurmctld_on)
    return f"for {seconds:.1f} s"


def forget(faults, now):
    """slurmctld restarts without its state: it does not know any job that it had started."""
    if "slurmctld" in faults.broken:
        return None
    faults.center.slurmctld_kill()
    faults.later(now, 0.2, "slurmctld", lambda: faults.center.slurmctld_on("-c"))
    return ""


def scancel(faults, _now):
    """Cancels one running pilot."""
    if "slurmctld" in faults.broken or "login-ctl" in faults.broken:
        return None
    running = sorted(number for number, node in faults.center.squeue().items() if node)
    if not running:
        return None
    number = faults.random.choice(running)
    faults.center.login.run("scancel", number, code=None)
    return f"job {number}"


def scancel_and_forget(faults, now):
    words = scancel(faults, now)
    return words and f"{words}, then slurmctld {slurmctld(faults, now)}"


def cut_login_ctl(faults, now):
    if "login-ctl" in faults.broken:
        return None
    seconds = faults.seconds()
    faults.center.login.cut(faults.center.ctl)
    faults.later(now, seconds, "login-ctl", lambda: faults.center.login.heal(faults.center.ctl))
    return f"for {seconds:.1f} s"


ELSEWHERE = {
    "coordinator": coordinator,
    "login-power": login_power,
    "stop-coordinator": stop_coordinator,
    "slurmctld": slurmctld,
    "forget": forget,
    "scancel": scancel,
    "scancel-slurmctld": scancel_and_forget,
    "cut-login-ctl": cut_login_ctl,
}
# kill-keeper: the job fails as on one machine ("keeper lost").
ALL = [kind for kind in (*ON_NODE, *ELSEWHERE) if kind != "kill-keeper"]
