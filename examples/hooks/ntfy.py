#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Notifies a phone through ntfy (https://ntfy.sh) when a job has ended, or when its GPU is idle.

    NTFY_TOPIC=a-name-that-nobody-guesses gpuq add --on-finish path/to/ntfy.py …

NTFY_URL: another server. NTFY_TOKEN: an access token for the server.
"""
import json
import os
import sys
import urllib.request


def describe(job: dict, event: str) -> str:
    if event == "idle":
        # The job may have ended, or may be busy again, when its hook runs.
        gpus = ", ".join(str(gpu) for gpu in job["idle_gpus"])
        return f"GPU {gpus} has been idle since {job['idle_since']}" if gpus else "its GPU was idle"
    words = str(job["status"])
    if job["reason"]:
        words += f": {job['reason']}"
    elif job["exit_code"]:
        words += f", exit {job['exit_code']}"
    return words


def main() -> None:
    topic = os.environ.get("NTFY_TOPIC")
    if not topic:
        sys.exit("ntfy.py: set NTFY_TOPIC to the name of your topic")
    job, event = json.load(sys.stdin), os.environ.get("GPUQ_HOOK_EVENT", "finish")
    body = {"topic": topic, "title": f"job {job['id']}" + (f" ({job['name']})" if job["name"] else ""),
            "message": f"{describe(job, event)}\n{job['command']}",
            "priority": 4 if event == "idle" or job["status"] == "failed" else 3}
    headers = {"Content-Type": "application/json"}
    if os.environ.get("NTFY_TOKEN"):
        headers["Authorization"] = f"Bearer {os.environ['NTFY_TOKEN']}"
    request = urllib.request.Request(os.environ.get("NTFY_URL", "https://ntfy.sh"), json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=30):
        pass


if __name__ == "__main__":
    main()
