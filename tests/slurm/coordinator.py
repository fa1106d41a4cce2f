# SPDX-License-Identifier: MIT
"""A coordinator for tests of pilots: a second implementation of the protocol, from its description
(src/slurm/address_file.h, tunnel.h, frame_codec.h)."""
import hmac
import os
import secrets
import socket
import struct
import zlib

MAGIC = b"gpuq-s3\n"
(HELLO, WELCOME, REFUSE, GRANT, BEGUN, REJECT, FREED, END, END_ACK, HEARTBEAT, RENEW, CANCEL, RELEASE, ENDING, BYE) = range(1, 16)
OUTCOMES = {1: "completed", 2: "failed", 3: "cancelled", 4: "interrupted"}
CANCEL_ASK, CANCEL_KILL, CANCEL_INTERRUPT, CANCEL_DISCARD = range(1, 5)


class Refused(Exception):
    """The peer does not know the secret, or closed the connection before it had proven it."""


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        piece = connection.recv(size - len(data))
        if not piece:
            raise ConnectionError("closed")
        data += piece
    return data


def key_of(secret, challenge):
    """The key of tunnels to the coordinator that has this challenge."""
    return hmac.digest(secret, b"gpuq-s3 listener" + challenge, "sha256")


def opening_bytes(job, nonce, key):
    """The first bytes that a pilot sends."""
    return MAGIC + job + nonce + hmac.digest(key, MAGIC + b"opening".ljust(16) + nonce + job, "sha256")


class Reader:
    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        values = struct.unpack_from("<" + form, self.data, self.at)
        self.at += struct.calcsize("<" + form)
        return values[0] if len(values) == 1 else values

    def string(self):
        size = self.take("I")
        self.at += size
        return self.data[self.at - size:self.at].decode()

    def gpus(self):
        found = []
        for _ in range(self.take("I")):
            index, total, free, _, utilization, healthy, known = self.take("iQQQIIB")
            found.append({"index": index, "total": total, "free": free, "healthy": healthy, "known": known,
                          "utilization": utilization, "uuid": self.string(), "name": self.string()})
        return found


def read_frame(data):
    reader = Reader(data)
    frame = dict(zip(("kind", "epoch", "session"), reader.take("IQQ")))
    kind = frame["kind"]
    if kind == HELLO:
        frame["version"] = reader.take("I")
        frame.update({name: reader.string() for name in ("pilot", "node", "boot_id")})
        frame.update(zip(("slurm_job", "started_ms", "remaining_ms", "lease_ms", "last_epoch", "lock_is_free", "cpus", "host_bytes"),
                         reader.take("QqqqQBIQ")))
        frame["gpus"] = reader.gpus()
        frame["attempts"] = [reader.take("QII") for _ in range(reader.take("I"))]
    elif kind == HEARTBEAT:
        frame.update(zip(("number", "remaining_ms"), reader.take("Qq")))
        frame["gpus"] = reader.gpus()
    elif kind in (BEGUN, REJECT, FREED, END):
        frame["id"] = reader.take("QI")
        if kind == BEGUN:
            frame["pid"] = reader.take("q")
        elif kind == REJECT:
            frame["rejection"], frame["words"] = reader.take("I"), reader.string()
        elif kind == END:
            frame.update(zip(("outcome", "exit_code", "signal", "time_ms", "duration_ms", "peak_mem_mb", "energy_j"), reader.take("Iiiqqqq")))
            frame["outcome"] = OUTCOMES[frame["outcome"]]
            frame["reason"] = reader.string()
    assert reader.at == len(data), frame
    return frame


class Connection:
    """An accepted pilot. `frames` contains its frames; heartbeats are answered while the test waits
    for other frames."""

    def __init__(self, coordinator, connection):
        self.coordinator, self.connection = coordinator, connection
        connection.settimeout(30)
        self.sent = self.received = 0
        self.session = 0
        self.answering = True
        opening = read_exactly(connection, 80)
        assert opening[:8] == MAGIC
        self.slurm_job, nonce = struct.unpack("<Q", opening[8:16])[0], opening[16:48]
        own = secrets.token_bytes(32)
        parts = nonce + own + struct.pack("<QQ", coordinator.epoch, self.slurm_job)
        self.proof = lambda label: hmac.digest(coordinator.key, MAGIC + label.ljust(16) + parts, "sha256")
        connection.sendall(MAGIC + struct.pack("<Q", coordinator.epoch) + own + self.proof(b"coordinator"))
        try:
            theirs = read_exactly(connection, 32)
        except OSError as error:
            raise Refused from error
        if not hmac.compare_digest(theirs, self.proof(b"pilot")):
            raise Refused
        self.send_key, self.receive_key = self.proof(b"from coordinator"), self.proof(b"from pilot")

    def send_bytes(self, data, counter=None):
        if counter is None:
            self.sent += 1
            counter = self.sent
        head = struct.pack("<IQ", len(data), counter)
        self.connection.sendall(head + data + hmac.digest(self.send_key, head + data, "sha256"))

    def send(self, kind, content=b""):
        self.send_bytes(struct.pack("<IQQ", kind, self.coordinator.epoch, self.session) + content)

    def receive(self):
        """The next frame."""
        head = read_exactly(self.connection, 12)
        size, counter = struct.unpack("<IQ", head)
        data, mac = read_exactly(self.connection, size), read_exactly(self.connection, 32)
        self.received += 1
        assert counter == self.received and hmac.compare_digest(mac, hmac.digest(self.receive_key, head + data, "sha256"))
        return read_frame(data)

    def wait_for(self, *kinds):
        """The next frame of these kinds. Heartbeats are answered, other frames are dropped."""
        while True:
            frame = self.receive()
            if frame["kind"] in kinds:
                return frame
            assert frame["kind"] not in (REJECT, BYE), frame
            if frame["kind"] == HEARTBEAT and self.answering:
                self.send(RENEW, struct.pack("<Qq", frame["number"], self.coordinator.lease_ms))

    def welcome(self):
        """Receives the hello and answers it."""
        hello = self.hello = self.wait_for(HELLO)
        self.session = hello["session"]
        self.send(WELCOME, struct.pack("<qqq", self.coordinator.lease_ms, self.coordinator.silence_ms, self.coordinator.heartbeat_ms))
        return hello

    def grant(self, job, attempt, command, gpus=(0,), **options):
        self.send(GRANT, struct.pack("<QI", job, attempt) + struct.pack("<I", len(gpus)) + b"".join(struct.pack("<i", gpu) for gpu in gpus)
                  + self.coordinator.order(command, **options))

    def cancel(self, job, attempt, mode=CANCEL_ASK):
        self.send(CANCEL, struct.pack("<QII", job, attempt, mode))

    def end(self):
        """The next end, acknowledged."""
        frame = self.wait_for(END)
        self.send(END_ACK, struct.pack("<QI", *frame["id"]))
        return frame

    def close(self):
        self.connection.close()


class Coordinator:
    """Listens on the loopback address for pilots of the queue whose directory is `directory`/jobs.jsonl.d."""

    def __init__(self, directory, lease_ms=600000, epoch=1, secret=None, owner=None):
        self.directory, self.owner = directory, owner
        self.queue_dir = directory / "jobs.jsonl.d"
        (self.queue_dir / "env").mkdir(parents=True, exist_ok=True, mode=0o700)
        self.epoch, self.lease_ms = epoch, lease_ms
        self.silence_ms, self.heartbeat_ms = lease_ms, max(20, lease_ms // 10)
        path = self.queue_dir / "slurm.secret"
        if not path.exists():
            path.touch(mode=0o600)
            path.write_text(secrets.token_hex(32) + "\n", encoding="ascii")
        for made in (self.queue_dir, self.queue_dir / "env", path):
            self.give(made)
        self.secret = secret or bytes.fromhex(path.read_text(encoding="ascii"))
        self.listen()

    def give(self, path):
        if self.owner:
            os.chown(path, *self.owner)

    def listen(self):
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.socket.settimeout(30)
        new = self.queue_dir / "slurm.address.new"
        challenge = secrets.token_bytes(32)
        self.key = key_of(self.secret, challenge)
        new.write_text(f"127.0.0.1 {self.socket.getsockname()[1]} {challenge.hex()}\n", encoding="ascii")
        new.rename(self.queue_dir / "slurm.address")

    def accept(self):
        return Connection(self, self.socket.accept()[0])

    def environment(self, variables):
        content = b"".join(f"{name}={value}".encode() + b"\0" for name, value in variables.items())
        name = f"{zlib.crc32(content):032x}"
        path = self.queue_dir / "env" / name
        path.write_bytes(content)
        path.chmod(0o600)
        self.give(path)
        return name

    def order(self, command, environment=None, timeout_ms=0, grace_ms=10000, log_dir="logs", cwd=None, cwd_own=0):
        variables = {"PATH": os.environ["PATH"], "OF_THE_QUEUE": "yes", **(environment or {})}
        strings = [command, cwd or str(self.directory), self.environment(variables), str(self.directory / log_dir), "", "", "", ""]
        payload = b"".join(string.encode() + b"\0" for string in strings)
        form = "<II QQQ qqqqq IIIIIIIIII QQ q II".replace(" ", "")
        return struct.pack(form, struct.calcsize(form), 1, 0, len(payload), 0, timeout_ms, -1, grace_ms, 0, 0,
                           0, 0, 0, 0, 0, cwd_own, 1, 0, 0, 0, 0, 0, 0, 0, 0) + payload

    def log(self, job, attempt, slurm_job):
        """The name of its log."""
        mac = hmac.digest(self.secret, b"gpuq-s3 log name" + struct.pack("<QQQ", job, attempt, slurm_job), "sha256")
        return f"job_{job}_attempt_{attempt}_slurm_{slurm_job}_{struct.unpack('<Q', mac[:8])[0]:016x}.log"

    def outbox(self, pilot):
        """Lines of its outbox."""
        return (self.queue_dir / "pilots" / f"{pilot}.jsonl").read_text(encoding="utf-8").splitlines()

    def close(self):
        self.socket.close()
