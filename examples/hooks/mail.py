#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Sends a mail with the end of the log when a job has ended, or when its GPU is idle.

    MAIL_TO=me@example.org gpuq add --on-finish path/to/mail.py …

SMTP_HOST and SMTP_PORT: the server (default: localhost:25). SMTP_USER and SMTP_PASSWORD: log in, with STARTTLS.
MAIL_FROM: the sender.
"""
import email.message
import getpass
import grp
import json
import os
import pwd
import smtplib
import socket
import ssl
import stat
import sys

TAIL_BYTES = 4000


def is_private(group: int) -> bool:
    """Returns whether this is the private group of this user: it has the name of the user, and no other members."""
    entry = grp.getgrgid(group)
    name = pwd.getpwuid(os.geteuid()).pw_name
    return entry.gr_name == name and not set(entry.gr_mem) - {name}


def others_can_change(folder: os.stat_result) -> bool:
    if folder.st_uid not in (0, os.geteuid()) or folder.st_mode & stat.S_IWOTH:
        return True
    return bool(folder.st_mode & stat.S_IWGRP) and not is_private(folder.st_gid)


def has_access_list(folder: int) -> bool:
    try:
        return bool(os.getxattr(f"/proc/self/fd/{folder}", "system.posix_acl_access"))
    except OSError:
        return False


def log_tail(path: str) -> str:
    """Returns the end of the log.

    Refuses files of other users, and folders in which they can replace the log with a link, a pipe, or another file of this user.
    """
    try:
        folder = os.open(os.path.dirname(path), os.O_PATH | os.O_DIRECTORY)
        try:
            if others_can_change(os.fstat(folder)) or has_access_list(folder):
                return "(other users can change the folder of the log)"
            log = open(os.open(os.path.basename(path), os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=folder), "rb")
        finally:
            os.close(folder)
        with log:
            status = os.fstat(log.fileno())
            if not stat.S_ISREG(status.st_mode) or status.st_uid != os.geteuid():
                return "(the log is not a regular file of this user)"
            log.seek(max(0, status.st_size - TAIL_BYTES))
            return log.read().decode(errors="replace")
    except (OSError, KeyError) as error:
        return f"(the log cannot be read: {error})"


def compose(job: dict, event: str) -> email.message.EmailMessage:
    what = "has an idle GPU" if event == "idle" else str(job["status"])
    name = job["name"] or job["command"]
    message = email.message.EmailMessage()
    message["Subject"] = " ".join(f"job {job['id']} {what}: {name}".split())[:120]
    message["To"] = os.environ["MAIL_TO"]
    message["From"] = os.environ.get("MAIL_FROM", f"{getpass.getuser()}@{socket.getfqdn()}")
    lines = [f"{key}: {job[key]}" for key in ("command", "cwd", "status", "exit_code", "reason", "duration", "gpu_ids",
                                              "idle_gpus", "idle_since", "energy_j", "log_file") if job.get(key) not in (None, [])]
    if job["log_file"]:
        lines += ["", log_tail(job["log_file"])]
    message.set_content("\n".join(lines) + "\n")
    return message


def main() -> None:
    if not os.environ.get("MAIL_TO"):
        sys.exit("mail.py: set MAIL_TO to the address of the recipient")
    message = compose(json.load(sys.stdin), os.environ.get("GPUQ_HOOK_EVENT", "finish"))
    host, port = os.environ.get("SMTP_HOST", "localhost"), int(os.environ.get("SMTP_PORT", "25"))
    with smtplib.SMTP(host, port, timeout=30) as server:
        if os.environ.get("SMTP_USER"):
            server.starttls(context=ssl.create_default_context())
            server.login(os.environ["SMTP_USER"], os.environ.get("SMTP_PASSWORD", ""))
        server.send_message(message)


if __name__ == "__main__":
    main()
