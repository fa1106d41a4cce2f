#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""The process above a Slurm cluster of the tests: all processes of the cluster are its descendants and end with it.

    cluster_process.py DIRECTORY GPUS

Creates a user for the cluster if it runs as root, otherwise uses the caller. Prints one line of JSON when the node is
idle: {"user": …, "conf": …}, or {"error": …}. It ends when its standard input ends: its parent has
closed it, or was killed. Then it kills all its descendants, and removes the user and the directory.
It is the subreaper of all of them, so none escapes by leaving its session or by losing its parent.
"""
import contextlib
import ctypes
import json
import os
import pathlib
import pwd
import secrets
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

PR_SET_CHILD_SUBREAPER = 36
READY_S = 60
TRIES = 5  # another program may take a port before the daemon does
KILL_WAIT_S = 2

CONF = """\
ClusterName=gpuqtest
SlurmctldHost={host}(127.0.0.1)
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={place}/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={ports[0]}
SlurmctldPidFile={place}/slurmctld.pid
SlurmctldLogFile={place}/log/slurmctld
SlurmdPidFile={place}/slurmd.pid
SlurmdLogFile={place}/log/slurmd
SlurmdSpoolDir={place}/spool
StateSaveLocation={place}/state
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
InactiveLimit=0
KillWait={kill_wait}
MailProg=/bin/true
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
PreemptType=preempt/partition_prio
PreemptMode=REQUEUE
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
NodeName=node NodeHostname={host} NodeAddr=127.0.0.1 Port={ports[1]} CPUs=8 Boards=1 SocketsPerBoard=1 CoresPerSocket=8 \
ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:{gpus}
PartitionName=gpu Nodes=node Default=YES MaxTime=INFINITE State=UP PriorityTier=1
PartitionName=short Nodes=node MaxTime=5 State=UP PriorityTier=1
PartitionName=urgent Nodes=node MaxTime=INFINITE State=UP PriorityTier=2
"""


class User:
    """The user who runs the cluster: a new account, if this process may create one."""

    def __init__(self):
        self.made = os.geteuid() == 0
        self.name = f"gpuqs{os.getpid()}" if self.made else pwd.getpwuid(os.geteuid()).pw_name
        if self.made:
            subprocess.run(["useradd", "--no-create-home", "--no-log-init", "--user-group", self.name], check=True)
        entry = pwd.getpwnam(self.name)
        self.uid, self.gid = entry.pw_uid, entry.pw_gid

    def identity(self):
        return {"user": self.uid, "group": self.gid, "extra_groups": []} if self.made else {}

    def remove(self):
        if self.made:
            subprocess.run(["userdel", "--force", self.name], check=False, capture_output=True)


def free_ports(count):
    """Port numbers that are free now."""
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def write_files(place, user, gpus):
    for name in ("munge", "state", "spool", "log", "dev"):
        shutil.rmtree(place / name, ignore_errors=True)
        (place / name).mkdir(mode=0o755)
    (place / "munge/key").write_bytes(secrets.token_bytes(1024))
    (place / "munge/key").chmod(0o400)
    for number in range(gpus):
        # slurmd requires a character device.
        (place / f"dev/nvidia{number}").symlink_to("/dev/null")
    host = socket.gethostname().split(".")[0]
    (place / "slurm.conf").write_text(
        CONF.format(place=place, user=user.name, host=host, ports=free_ports(2), gpus=gpus, kill_wait=KILL_WAIT_S))
    (place / "gres.conf").write_text(f"NodeName=node Name=gpu Type=fake File={place}/dev/nvidia[0-{gpus - 1}]\n")
    if user.made:
        for path in (place, *place.rglob("*")):
            os.chown(path, user.uid, user.gid, follow_symlinks=False)


def environment(place):
    # Pass only this one of Slurm's own variables: the tests may run inside an allocation themselves.
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "CUDA_"))}
    return {**kept, "PATH": f"{os.environ['PATH']}:/usr/sbin:/sbin", "SLURM_CONF": f"{place}/slurm.conf", "HOME": str(place)}


def start(place, user, *words):
    with open(place / "log" / f"{pathlib.Path(words[0]).name}.out", "ab") as log:
        return subprocess.Popen([str(word) for word in words], env=environment(place), cwd=place, stdin=subprocess.DEVNULL, stdout=log,
                                stderr=log, start_new_session=True, **user.identity())


def is_over(wait_s=0):
    """Whether the parent has closed our standard input or is gone. The parent never writes."""
    return bool(select.select([sys.stdin], [], [], wait_s)[0])


def wait_until(condition, processes):
    """False if one of the processes has ended, the cluster is no longer wanted, or it takes too long."""
    deadline = time.monotonic() + READY_S
    while time.monotonic() < deadline and not is_over():
        if condition():
            return True
        if any(process.poll() is not None for process in processes):
            return False
        time.sleep(0.01)
    return False


def node_is_idle(place, user):
    result = subprocess.run(["sinfo", "-h", "-p", "gpu", "-o", "%t"], env=environment(place), cwd=place, capture_output=True, text=True, check=False,
                            **user.identity())
    return result.returncode == 0 and result.stdout.split() == ["idle"]


def bring_up(place, user, gpus):
    write_files(place, user, gpus)
    munge = place / "munge"
    daemons = [start(place, user, "munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket",
                     f"--pid-file={munge}/pid", f"--log-file={munge}/log", f"--seed-file={munge}/seed", "--num-threads=2")]
    if not wait_until((munge / "socket").exists, daemons):
        return False
    daemons.append(start(place, user, "slurmctld", "-D", "-c", "-f", place / "slurm.conf"))
    daemons.append(start(place, user, "slurmd", "-D", "-N", "node", "-f", place / "slurm.conf"))
    return wait_until(lambda: node_is_idle(place, user), daemons)


def descendants(above):
    """PIDs of all descendants of this process."""
    parents = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                parents[int(entry.name)] = int((entry / "stat").read_text().rsplit(")", 1)[1].split()[1])
    below, found = {above}, True
    while found:
        found = {pid for pid, parent in parents.items() if parent in below} - below
        below |= found
    return below - {above}


def kill_all():
    """Kills until this process has no descendants left: orphans become its children."""
    while True:
        for pid in descendants(os.getpid()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.005)


def words_of_logs(place):
    return "\n".join(f"== {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in sorted((place / "log").iterdir()))


def serve(place, user, gpus):
    up, words = False, ""
    for _ in range(TRIES):
        up = bring_up(place, user, gpus)
        if up or is_over():
            break
        words = words_of_logs(place)
        kill_all()
    print(json.dumps({"user": user.name, "conf": f"{place}/slurm.conf"} if up else {"error": words}), flush=True)
    # Reap the orphans that became children of this process.
    while not is_over(0.2):
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def main():
    place, gpus = pathlib.Path(sys.argv[1]), int(sys.argv[2])
    os.umask(0o022)
    # Ctrl-C ends the tests, which end this process by closing its input.
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    user = User()
    try:
        serve(place, user, gpus)
    finally:
        kill_all()
        user.remove()
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
