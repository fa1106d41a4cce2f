# SPDX-License-Identifier: MIT
"""Execute a program that gets SIGTERM when the thread that started it ends for any reason.

    python -I _tied.py PARENT PROGRAM [ARGUMENT…]

A separate script, because a process with threads must not run Python between fork and exec.
"""

import ctypes
import os
import signal
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, argv = int(sys.argv[1]), sys.argv[2:]
    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != parent:  # the parent ended before the call
        sys.exit(1)
    os.execv(argv[0], argv)


if __name__ == "__main__":
    main()
