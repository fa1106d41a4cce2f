# SPDX-License-Identifier: MIT
"""Execute a program that gets SIGTERM when the thread that started it ends, however it ends.

    python -I _tied.py PARENT PROGRAM [ARGUMENT…]

A script of its own: between fork and exec a process with threads must not run Python.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # it ended before the call
        sys.exit(1)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
