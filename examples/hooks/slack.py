#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Notifies a Slack channel when a job has ended, or when its GPU is idle.

    SLACK_WEBHOOK_URL=https://hooks.slack.com/services/… gpuq add --on-finish path/to/slack.py …

The URL is that of an incoming webhook of the channel. Anyone who knows it can post there, so keep it out of shared files.
"""
import json
import os
import sys
import urllib.request


def escape(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def describe(job: dict, event: str) -> str:
    if event == "idle":
        # The job may have ended, or may be busy again, when its hook runs.
        gpus = ", ".join(str(gpu) for gpu in job["idle_gpus"])
        words = f"GPU {gpus} has been idle since {job['idle_since']}" if gpus else "its GPU was idle"
        return f":zzz: job {job['id']}: {words}"
    icon = {"completed": ":white_check_mark:", "failed": ":x:"}.get(job["status"], ":grey_question:")
    words = f"{icon} job {job['id']} {job['status']}"
    if job["reason"]:
        words += f": {escape(job['reason'])}"
    elif job["exit_code"]:
        words += f" with exit code {job['exit_code']}"
    if job["duration"] is not None:
        words += f" after {job['duration']:.0f} s"
    return words


def main() -> None:
    url = os.environ.get("SLACK_WEBHOOK_URL")
    if not url:
        sys.exit("slack.py: set SLACK_WEBHOOK_URL to the address of an incoming webhook")
    job = json.load(sys.stdin)
    text = f"{describe(job, os.environ.get('GPUQ_HOOK_EVENT', 'finish'))}\n`{escape(job['name'] or job['command'])}`"
    request = urllib.request.Request(url, json.dumps({"text": text}).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=30):
        pass


if __name__ == "__main__":
    main()
