# SPDX-License-Identifier: MIT
"""Process a folder of recordings on all GPUs.

    gpu-dispatch-launcher --input-dir data/audio --gpus auto
    gpu-dispatch-launcher --input-dir data/audio --gpus 0,1,2 --model-size large-v3

pip installs this command. If it is not installed, run python3 -P -m gpu_dispatch.launcher. Use -P
(Python 3.11 or newer): otherwise Python also executes modules that other users have put into the
current directory.

Exit codes: 0 all done or nothing to do, 1 some files failed or the output cannot be written, 2 wrong usage,
130 interrupted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from typing import NoReturn

from gpu_dispatch._text import printable
from gpu_dispatch.multigpu import LauncherOrchestrator, run_multi_gpu

__all__ = ["main", "run_multi_gpu"]


def _setting(text: str) -> tuple[str, str]:
    key, equals, value = text.partition("=")
    if not key or not equals:
        raise argparse.ArgumentTypeError(f"'{text}' is not KEY=VALUE")
    return key, value


class _Parser(argparse.ArgumentParser):
    """Escapes arguments in messages: if the shell has expanded a pattern, others may have chosen them."""

    def error(self, message: str) -> NoReturn:
        super().error(printable(message))


def _parser() -> argparse.ArgumentParser:
    assert __doc__
    parser = _Parser(
        prog="gpu-dispatch-launcher",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "--input-dir", metavar="DIR", required=True, help="folder with the recordings"
    )
    parser.add_argument(
        "--output-dir",
        metavar="DIR",
        default="data/outputs",
        help="folder for the results (default: %(default)s)",
    )
    parser.add_argument(
        "--gpus",
        metavar="SPEC",
        default="auto",
        help="auto, all, 0,1,2 or 0-3 (default: %(default)s)",
    )
    parser.add_argument(
        "--model-size", metavar="SIZE", default="base", help="model size for the worker (default: %(default)s)"
    )
    parser.add_argument(
        "--language",
        metavar="LANG",
        help="language for the worker; by default it detects the language if it can",
    )
    parser.add_argument(
        "--pattern", metavar="GLOB", default="*.wav", help="pattern of file names (default: %(default)s)"
    )
    parser.add_argument(
        "--worker",
        metavar="NAME",
        help="a plug-in of gpuq launch; the default is "
        "faster-whisper if it is installed, otherwise the installed plug-in",
    )
    parser.add_argument(
        "--worker-command",
        metavar="COMMAND",
        help="a program that speaks the protocol of gpuq launch",
    )
    parser.add_argument(
        "--set",
        metavar="KEY=VALUE",
        dest="settings",
        type=_setting,
        action="append",
        default=[],
        help="any other setting for the worker; may be given several times",
    )
    parser.add_argument(
        "--timeout", metavar="TIME", help="time limit per file: 30s, 5m, 1h (default: none)"
    )
    parser.add_argument(
        "--force", action="store_true", help="also process files that an earlier run has finished"
    )
    return parser


def main(arguments: Sequence[str] | None = None) -> int:
    """Run with these arguments, or those of the program; returns the exit code."""
    parser = _parser()
    given = parser.parse_args(arguments)
    if given.worker and given.worker_command:
        parser.error("give either --worker or --worker-command")
    return LauncherOrchestrator().run(
        given.input_dir,
        given.output_dir,
        given.gpus,
        given.model_size,
        given.language,
        given.pattern,
        worker=given.worker,
        worker_command=given.worker_command,
        settings=dict(given.settings),
        force=given.force,
        timeout=given.timeout,
    )


def program() -> int:
    """The command gpu-dispatch-launcher; returns the exit code."""
    try:
        code = main()
    except KeyboardInterrupt:
        code = 130
    _discard_failed_output()
    return code


def _discard_failed_output() -> None:
    """Discards output that cannot be written. Otherwise Python tries again at exit, and exits with 120."""
    for stream in filter(None, (sys.stdout, sys.stderr)):  # None: it was closed when the program started
        try:
            stream.flush()
        except OSError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


if __name__ == "__main__":
    sys.exit(program())
