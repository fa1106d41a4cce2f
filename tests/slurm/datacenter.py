# SPDX-License-Identifier: MIT
"""Eight nodes with eight fake GPUs each under a real Slurm, on this machine, for root.

Each host is a set of namespaces: `ctl` has slurmctld, `login` is the login node, `g1`… have slurmd.
A node has its own network, host name, mounts and processes, so it can be cut off from one other
host or from all, and be powered off and on. All hosts see the directory `shared` under the same
path; nodes see it through a FUSE daemon (bindfs). If that is stopped, the file system hangs like NFS.

A program that uses this calls enter() first: it then runs as a child of the first process of a PID
namespace. When that process ends, for any reason, nothing of the cluster remains: processes,
networks and mounts disappear with their namespaces.
"""
import contextlib
import ctypes
import os
import pathlib
import pwd
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import uuid

import processes

BUILD = pathlib.Path(os.environ["GD_BUILD"])
LIMIT = 60
NODES = 8
GPUS = 8
PORT = 26817
KILL_WAIT_S = 2
ENTERED = "GPUQ_TEST_DATACENTER"
USER = "nobody"

CONF = """\
ClusterName=eight
SlurmctldHost=ctl(10.77.0.254)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={local}/munge/socket
CredType=cred/munge
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
SlurmctldPort={port}
SlurmctldPidFile={local}/slurmctld.pid
SlurmctldLogFile={local}/log/slurmctld
SlurmdPidFile={local}/slurmd.%n.pid
SlurmdLogFile={local}/log/%n
SlurmdSpoolDir={local}/spool/%n
StateSaveLocation={local}/state
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
ReturnToService=2
SlurmctldTimeout=30
SlurmdTimeout={slurmd_timeout}
InactiveLimit=0
KillWait={kill_wait}
MailProg=/bin/true
MessageTimeout=5
SchedulerParameters=batch_sched_delay=0,sched_interval=1,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/none
JobCompType=jobcomp/none
MpiDefault=none
"""
NODE = ("NodeName={name} NodeHostname={name} NodeAddr={address} Port={port} CPUs=64 Boards=1 SocketsPerBoard=1 CoresPerSocket=64 "
        "ThreadsPerCore=1 RealMemory=8000 Gres=gpu:fake:{gpus}\n")
CARD = "card\nuuid=GPU-{number}0000000-0000-0000-0000-000000000000\nname=Fake\npci=0:{bus}:0\nmemory=17179869184 17179869184 0 0\nmode=0\n"
# The first process of a host. It reaps, and reports when its name and its files are ready.
FIRST = 'mount --bind "$1" /etc/hosts && mount --bind "$4" /proc/sys/kernel/random/boot_id && hostname "$2" && mount -t tmpfs none "$3" && chmod 1777 "$3" && echo up && { sleep infinity & wait; }'


def enter():
    """Returns in new namespaces. Root only."""
    if os.environ.get(ENTERED):
        return
    ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)  # PR_SET_PDEATHSIG: die with the parent
    words = ["unshare", "--mount", "--uts", "--net", "--pid", "--fork", "--kill-child=KILL", "--mount-proc", "sh", "-c", '"$@" & wait $!', "sh",
             sys.executable, *sys.argv]
    os.execvpe(words[0], words, {**os.environ, ENTERED: "1"})


def missing():
    """The reason why the data center cannot run here; None if it can."""
    programs = ["sbatch", "/usr/sbin/slurmctld", "/usr/sbin/slurmd", "/usr/sbin/munged", "unshare", "nsenter", "/sbin/ip", "bindfs"]
    lacking = [program for program in programs if not shutil.which(program)]
    if lacking:
        return f"{', '.join(lacking)} not found; 'make test-slurm' installs them"
    if os.geteuid() != 0:
        return "namespaces with networks need root"
    if not os.access("/dev/fuse", os.W_OK):
        return "there is no /dev/fuse"
    tried = subprocess.run(["unshare", "--net", "--pid", "--fork", "--mount", "sh", "-c", "ip link add br0 type bridge && ip link add v type veth peer name w"],
                           capture_output=True, text=True, check=False)
    return f"no namespaces with networks: {tried.stderr.strip()}" if tried.returncode else None


def ip(*words):
    subprocess.run(["ip", *map(str, words)], check=True, capture_output=True)


class Host:
    """A machine: a host name, a network card, mounts, and with `own_pids` processes that end with it."""

    def __init__(self, center, name, number, own_pids):
        self.center, self.name, self.address, self.card, self.own_pids = center, name, f"10.77.0.{number}", f"v{number}", own_pids
        self.mac = f"02:00:00:00:00:{number:02x}"
        self.first = None

    def on(self):
        words = ["unshare", "--net", "--uts", "--mount"] + (["--pid", "--fork", "--kill-child=KILL", "--mount-proc"] if self.own_pids else [])
        self.process = subprocess.Popen([*words, "sh", "-c", FIRST, "sh", self.center.local / "hosts", self.name, self.center.place / "tmp", self.boot_id()],
                                        stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True)
        assert self.process.stdout.readline() == "up\n", self.name
        self.first = processes.children(self.process.pid)[0] if self.own_pids else self.process.pid
        ip("link", "add", self.card, "type", "veth", "peer", "name", "eth0", "address", self.mac, "netns", self.first)
        ip("link", "set", self.card, "master", "br0", "up")
        self.ip("link", "set", "lo", "up")
        self.ip("addr", "add", f"{self.address}/24", "dev", "eth0")
        self.ip("link", "set", "eth0", "up")

    def boot_id(self):
        """A separate boot id: the kernel's is that of the machine."""
        path = self.center.local / f"boot.{self.name}"
        path.write_text(f"{uuid.uuid4()}\n", encoding="ascii")
        return path

    def words(self, *words, cwd="/"):
        """The arguments to run a command on this host."""
        pids = ["--pid"] if self.own_pids else []
        return ["nsenter", "-t", str(self.first), "--net", "--uts", "--mount", *pids, f"--wdns={cwd}", *map(str, words)]

    def ip(self, *words):
        subprocess.run(["nsenter", "-t", str(self.first), "--net", "ip", *map(str, words)], check=True, capture_output=True)

    def start(self, *words, log, **options):
        with open(self.center.local / "log" / log, "ab") as file:
            return subprocess.Popen(self.words(*words), env=self.center.environment, stdin=subprocess.DEVNULL,
                                    stdout=file, stderr=file, start_new_session=True, **options)

    def run(self, *words, code=0, cwd=None, limit=LIMIT):
        """The standard output of a command run as the user."""
        result = subprocess.run(self.words(*self.center.as_user(), *words, cwd=cwd or self.center.shared), env=self.center.environment,
                                stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=limit, check=False)
        assert code is None or result.returncode == code, (words, result)
        return result.stdout

    def cut(self, other):
        """Silently drops packets between the two hosts."""
        for here, there in ((self, other), (other, self)):
            here.ip("neigh", "replace", there.address, "lladdr", "02:00:00:00:ff:ff", "dev", "eth0", "nud", "permanent")

    def heal(self, other):
        for here, there in ((self, other), (other, self)):
            here.ip("neigh", "replace", there.address, "lladdr", there.mac, "dev", "eth0", "nud", "reachable")

    def unplug(self):
        self.ip("link", "set", "eth0", "down")

    def plug(self):
        self.ip("link", "set", "eth0", "up")


class Node(Host):
    """A host with slurmd, which sees the shared directory through its own daemon."""

    def __init__(self, center, number):
        super().__init__(center, f"g{number}", number, own_pids=True)
        self.number = number
        self.is_on = False
        self.slurmd = self.bindfs = None

    def power_on(self):
        self.on()
        if self.center.fuse:
            # Like NFS: attributes and names are cached for a second.
            locks = ["--enable-lock-forwarding"] if self.center.locks else []
            self.bindfs = self.start("bindfs", "-f", "--multithreaded", *locks, "-o", "nonempty", self.center.real, self.center.shared, log=f"bindfs.{self.name}")
            mounts = pathlib.Path(f"/proc/{self.first}/mountinfo")
            processes.until(lambda: " fuse" in mounts.read_text(encoding="utf-8"), LIMIT, lambda: f"files on {self.name}")
        self.is_on = True
        self.slurmd_on()

    def slurmd_on(self):
        self.slurmd = self.start("slurmd", "-D", "-N", self.name, "-f", self.center.conf, log=f"slurmd.{self.name}")

    def slurmd_kill(self):
        """Kills only the daemon: its children continue to run."""
        for pid in processes.children(self.slurmd.pid):
            kill(pid, signal.SIGKILL)
        self.slurmd.wait(LIMIT)

    def power_off(self):
        """Every process of the node is killed at once."""
        self.is_on = False
        kill(self.first, signal.SIGKILL)
        if self.bindfs:
            kill(self.bindfs.pid, signal.SIGCONT)  # nsenter stops itself with its child
        self.process.wait(LIMIT)
        self.slurmd.wait(LIMIT)
        if self.bindfs:
            self.bindfs.wait(LIMIT)
        with contextlib.suppress(subprocess.CalledProcessError):
            ip("link", "delete", self.card)  # the kernel removes it with the node's network, but later

    def fs(self, number):
        """SIGSTOP: its file system hangs; SIGCONT: it resumes."""
        for pid in processes.children(self.bindfs.pid):
            kill(pid, number)
        if number == signal.SIGCONT:
            kill(self.bindfs.pid, number)  # nsenter stops itself with its child

    def pilots(self):
        """The processes of each pilot on this node."""
        table = process_table()
        steps = [pid for pid in below(table, self.process.pid) if table[pid][1] == "slurmstepd"]
        return [Pilot(table, pid) for pid, (parent, name) in table.items() if parent in steps and name != "slurmstepd"]


class Pilot:
    """PIDs: sweeper, guard, agent, and those below it: nursery and keepers."""

    def __init__(self, table, sweeper):
        self.sweeper = sweeper
        self.guard = self.first_below(table, sweeper)
        self.agent = self.first_below(table, self.guard)
        self.keepers = [pid for pid in below(table, self.agent) if table[pid][1].startswith("gpuq")] if self.agent else []

    @staticmethod
    def first_below(table, pid):
        return min((child for child, (parent, _) in table.items() if parent == pid), default=None) if pid else None


def process_table():
    """PID → its parent and its name."""
    table = {}
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError):
                head, _, tail = (entry / "stat").read_text(encoding="utf-8", errors="replace").rpartition(")")
                table[int(entry.name)] = (int(tail.split()[1]), head.partition("(")[2])
    return table


def below(table, pid):
    found, more = set(), {pid}
    while more:
        more = {child for child, (parent, _) in table.items() if parent in more} - found
        found |= more
    return found


def kill(pid, number):
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, number)


class Datacenter:
    """Hosts, Slurm on them, and a directory for each queue. `fuse`: nodes see `shared` through a
    daemon that can be stopped. `locks`: other hosts see the locks of a node."""

    def __init__(self, nodes=NODES, gpus=GPUS, fuse=True, root=False, slurmd_timeout=10, programs=(), locks=True):
        self.place = pathlib.Path(tempfile.mkdtemp(prefix="gpuq-eight-"))
        self.place.chmod(0o755)
        self.local, self.real, self.shared = self.place / "local", self.place / "real", self.place / "shared"
        self.fuse, self.num_gpus, self.locks = fuse, gpus, locks
        self.user = pwd.getpwnam("root" if root else USER)
        for directory in (self.local, self.real, self.shared, self.place / "tmp"):
            directory.mkdir()
        self.conf = self.local / "slurm.conf"
        self.ctl, self.login = Host(self, "ctl", 254, False), Host(self, "login", 253, False)
        self.nodes = [Node(self, number) for number in range(1, nodes + 1)]
        self.slurmctld = None
        self.write_files(slurmd_timeout, programs)
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH", "CUDA_", "GPUQ_", "LD_"))}
        self.environment = {**kept, "PATH": f"{self.local / 'bin'}:{os.environ['PATH']}:/usr/sbin:/sbin", "SLURM_CONF": str(self.conf), "USER": self.user.pw_name,
                            "HOME": str(self.place / "tmp"), "TMPDIR": str(self.place / "tmp"), "GPUQ_CLAIMS_DIR": str(self.place / "tmp/claims"),
                            "GPUQ_NVML_LIBRARY": str(self.local / "libnvidia-ml.so.1"), "FAKE_NVML": str(self.local / "nvml"),
                            "GPUQ_SYSFS_ROOT": str(self.local / "none")}

    def as_user(self):
        user = self.user
        return ["setpriv", f"--reuid={user.pw_uid}", f"--regid={user.pw_gid}", "--clear-groups"] if user.pw_uid else []

    def write_files(self, slurmd_timeout, programs):
        for name in ("munge", "state", "spool", "log", "dev", "bin", "trace"):
            (self.local / name).mkdir(mode=0o755)
        (self.local / "trace").chmod(0o1777)
        (self.local / "munge/key").write_bytes(secrets.token_bytes(1024))
        (self.local / "munge/key").chmod(0o400)
        for program in ("gpuq", "gpuq-probe", "gpuq-slurm", *programs):
            shutil.copy(BUILD / program, self.local / "bin" / pathlib.Path(program).name)
        shutil.copy(BUILD / "tests/gpu/libnvidia-ml.so.1", self.local)
        for number in range(self.num_gpus):
            (self.local / f"dev/nvidia{number}").symlink_to("/dev/null")
        (self.local / "nvml").write_text("".join(CARD.format(number=number, bus=number + 1) for number in range(self.num_gpus)), encoding="ascii")
        nodes = "".join(NODE.format(name=node.name, address=node.address, port=PORT + node.number, gpus=self.num_gpus) for node in self.nodes)
        self.conf.write_text(CONF.format(local=self.local, port=PORT, kill_wait=KILL_WAIT_S, slurmd_timeout=slurmd_timeout) + nodes
                             + f"PartitionName=gpu Nodes=g[1-{len(self.nodes)}] Default=YES MaxTime=INFINITE State=UP\n", encoding="ascii")
        (self.local / "gres.conf").write_text(f"NodeName=g[1-{len(self.nodes)}] Name=gpu Type=fake File={self.local}/dev/nvidia[0-{self.num_gpus - 1}]\n",
                                              encoding="ascii")
        hosts = [self.ctl, self.login, *self.nodes]
        (self.local / "hosts").write_text("127.0.0.1 localhost\n" + "".join(f"{host.address} {host.name}\n" for host in hosts), encoding="ascii")

    def up(self):
        """Returns when all nodes are idle."""
        ip("link", "add", "br0", "type", "bridge")
        ip("link", "set", "br0", "up")
        munge = self.local / "munge"
        subprocess.run(["mount", "--bind", self.real, self.shared], check=True)  # hosts copy these mounts
        self.ctl.on()
        self.login.on()
        self.ctl.start("munged", "--foreground", "--force", f"--key-file={munge}/key", f"--socket={munge}/socket", f"--pid-file={munge}/pid",
                       f"--log-file={munge}/log", f"--seed-file={munge}/seed", "--num-threads=2", log="munged")
        processes.until((munge / "socket").exists, LIMIT, lambda: "munged")
        self.slurmctld_on("-c")
        for node in self.nodes:
            node.power_on()
        processes.until(lambda: self.states() == ["idle"] * len(self.nodes), LIMIT, lambda: f"idle nodes: {self.states()}")

    def slurmctld_on(self, *words):
        self.slurmctld = self.ctl.start("slurmctld", "-D", *words, "-f", self.conf, log="slurmctld.out")

    def slurmctld_kill(self):
        self.slurmctld.kill()  # nsenter without --pid does not fork
        self.slurmctld.wait()

    def states(self):
        return self.login.run("sinfo", "-h", "-N", "-o", "%t", code=None).split()

    def squeue(self):
        """Slurm jobs that have not ended: number → node."""
        rows = [row.split("|") for row in self.login.run("squeue", "-h", "-o", "%i|%N", code=None).splitlines()]
        return {int(number): node for number, node in rows}

    def directory(self, name):
        """A directory of the user, on the shared file system."""
        made = self.real / name
        made.mkdir(mode=0o700)
        os.chown(made, self.user.pw_uid, self.user.pw_gid)
        return self.shared / name

    def down(self):
        """Kills all its processes. The rest ends with the namespaces of this program."""
        for node in self.nodes:
            if node.is_on:
                node.power_off()
        for host in (self.ctl, self.login):
            kill(host.first, signal.SIGKILL)
        for pid in processes.with_variable("SLURM_CONF", self.conf):
            kill(pid, signal.SIGKILL)
        subprocess.run(["umount", "--lazy", self.shared], check=False)
        shutil.rmtree(self.place, ignore_errors=True)


def main():
    enter()
    begin = time.monotonic()
    center = Datacenter()
    center.up()
    print(center.login.run("sinfo"), f"{time.monotonic() - begin:.2f} s")
    center.down()


if __name__ == "__main__":
    sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "cli"))
    main()
