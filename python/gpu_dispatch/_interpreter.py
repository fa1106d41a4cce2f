# SPDX-License-Identifier: MIT
"""How this program's Python is executed again, also after the program has changed to another directory.

Another user may have planted programs, modules and libraries in that directory.
"""
from __future__ import annotations

import os
import sys

__all__ = ["executable"]


def executable() -> str:
    """The absolute path of this Python; empty if it is not known.

    sys.executable is relative if Python was found by a relative entry of PATH. It is then relative to the directory in
    which the program was started, which is not known here.
    """
    if not sys.executable or os.path.isabs(sys.executable):
        return sys.executable or ""
    if sys.prefix == sys.base_prefix:
        return os.path.realpath("/proc/self/exe")
    # In a virtual environment, the path of the link to Python determines the modules.
    path = os.path.join(sys.prefix, "bin", os.path.basename(sys.executable))
    return path if os.path.isabs(path) and os.path.exists(path) else ""
