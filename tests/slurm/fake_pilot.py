# SPDX-License-Identifier: MIT
"""A pilot for attacks on coordinators: the other side of coordinator.py, from the description in
src/slurm/address_file.h, tunnel.h and frame_codec.h."""
import hmac
import secrets
import socket
import struct

from coordinator import HELLO, MAGIC, Reader, key_of, opening_bytes, read_exactly

VERSION = 3


class FakePilot:
    """Connects to the coordinator of this queue. `secret`: the secret that it uses; None: the one
    in the queue's directory. `address`: the file with the address."""

    def __init__(self, queue_dir, slurm_job=4711, secret=None, address="slurm.address"):
        self.host, self.port, challenge = (queue_dir / address).read_text(encoding="ascii").split()
        key = key_of(secret or bytes.fromhex((queue_dir / "slurm.secret").read_text(encoding="ascii")), bytes.fromhex(challenge))
        self.slurm_job, self.sent, self.session = slurm_job, 0, 1
        self.connection = self.connect()
        nonce = secrets.token_bytes(32)
        self.opening = opening_bytes(struct.pack("<Q", slurm_job), nonce, key)
        self.connection.sendall(self.opening)
        answer = read_exactly(self.connection, 80)
        self.epoch, theirs = struct.unpack("<Q", answer[8:16])[0], answer[16:48]
        parts = nonce + theirs + struct.pack("<QQ", self.epoch, slurm_job)
        self.proof = lambda label: hmac.digest(key, MAGIC + label.ljust(16) + parts, "sha256")
        self.is_genuine = hmac.compare_digest(answer[48:], self.proof(b"coordinator"))
        self.connection.sendall(self.proof(b"pilot"))

    def connect(self):
        """Another connection to the same coordinator."""
        return socket.create_connection((self.host, int(self.port)), timeout=30)

    def sealed(self, data, counter=None):
        """A frame with counter and MAC."""
        if counter is None:
            self.sent += 1
            counter = self.sent
        head = struct.pack("<IQ", len(data), counter)
        return head + data + hmac.digest(self.proof(b"from pilot"), head + data, "sha256")

    def hello(self, name, slurm_job=None):
        def text(words):
            return struct.pack("<I", len(words)) + words.encode()
        job = self.slurm_job if slurm_job is None else slurm_job
        gpu = struct.pack("<iQQQIIB", 0, 1 << 34, 1 << 34, 0, 0, 1, 0) + text("GPU-0") + text("Fake")
        return (struct.pack("<IQQ", HELLO, self.epoch, self.session) + struct.pack("<I", VERSION) + text(name) + text("node9") + text("boot")
                + struct.pack("<QqqqQBIQ", job, 1000000, -1, 0, 0, 0, 8, 1 << 33) + struct.pack("<I", 1) + gpu + struct.pack("<I", 0))

    def send(self, data):
        self.connection.sendall(data)

    def receive(self):
        """The kind of the next frame; None if the coordinator has closed the connection."""
        try:
            size, _ = struct.unpack("<IQ", read_exactly(self.connection, 12))
            data = read_exactly(self.connection, size + 32)
        except OSError:
            return None
        return Reader(data).take("I")

    def close(self):
        self.connection.close()
