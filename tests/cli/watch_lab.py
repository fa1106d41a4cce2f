# SPDX-License-Identifier: MIT
"""A launch of one of two users (users.py) that watches a folder."""
import signal

from users import LIMIT, until

COPY = ("--", "cp", "--no-preserve=mode", "{file}", "{output}/r")


class Watch:
    """A launch that watches a folder, with its messages in the file err."""

    def __init__(self, user, place, folder, *words, pattern="*", gpus="sim:1", command=COPY):
        self.place = place
        self.process = user.start("sh", "-c", 'exec "$@" 2>err', "sh", "gpuq", "launch", "--watch", "--input-dir", folder, "--output-dir", "out", "--pattern", pattern,
                                  "--gpus", gpus, *words, *command, cwd=place)

    def errors(self):
        return (self.place / "err").read_text()

    def until(self, condition, what):
        until(lambda: self.process.poll() is not None or condition(), what)
        assert self.process.poll() is None, self.errors()

    def until_done(self, name):
        self.until(lambda: (self.place / f"out/{name}/r").exists(), name)

    def end(self, codes=(0,)):
        self.process.send_signal(signal.SIGINT)
        self.process.communicate(timeout=LIMIT)
        assert self.process.returncode in codes, self.errors()
