# SPDX-License-Identifier: MIT
"""A worker on a node for attacks on the proxies of `gpuq launch --slurm`, from the description in
src/slurm/file_message.h."""
import struct

from coordinator import read_exactly
from fake_pilot import FakePilot

(HELLO, READY, SETUP_FAILED, TASK, ANSWER, NOTE, CANCEL, END, PING, PONG) = range(1, 11)
(NONE, RUNNING, DONE, FAILED, UNPROCESSED) = range(5)
HEAD = struct.Struct("<IIQQIIiIQ64s")


class FakeWorker(FakePilot):
    """Connects to the proxy of this worker, as the job of the worker."""

    def __init__(self, queue_dir, worker=0, job=None, secret=None):
        super().__init__(queue_dir, worker + 1 if job is None else job, secret, f"worker-{worker}.address")

    def say(self, kind, outcome=NONE, number=0, proxy=None, attempt=1, session=0, data=b""):
        """Sends a message; `proxy`: None is the proxy that this worker is connected to."""
        head = HEAD.pack(kind, outcome, self.epoch if proxy is None else proxy, number, attempt, 1, 0, session, 0, b"fake")
        self.send(self.sealed(head + data))

    def hear(self, kind):
        """Waits for a message of this kind. False if the proxy closes the connection instead."""
        while True:
            try:
                size, _ = struct.unpack("<IQ", read_exactly(self.connection, 12))
                data = read_exactly(self.connection, size + 32)
            except ConnectionError:
                return False
            if HEAD.unpack_from(data)[0] == kind:
                return True
