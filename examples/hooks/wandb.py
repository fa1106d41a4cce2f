#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Records a job in a Weights & Biases project, as a run with its command, duration, GPU memory and energy.

    WANDB_API_KEY=… WANDB_PROJECT=jobs gpuq add --on-finish path/to/wandb.py …

WANDB_ENTITY: the team (default: that of the key). WANDB_BASE_URL: your own server. The package wandb is not needed:
one request to the server's HTTP API creates or updates the run of this attempt.
"""
import base64
import json
import os
import re
import socket
import sys
import urllib.request

UPSERT = """
mutation UpsertBucket($name: String!, $project: String, $entity: String, $displayName: String, $config: JSONString,
                      $summaryMetrics: JSONString, $tags: [String!], $state: String, $host: String) {
  upsertBucket(input: {name: $name, modelName: $project, entityName: $entity, displayName: $displayName, config: $config,
                       summaryMetrics: $summaryMetrics, tags: $tags, state: $state, host: $host}) {
    bucket { name }
  }
}
"""
STATES = {"completed": "finished", "running": "running"}


def variables(job: dict) -> dict:
    host = job["host"] or socket.gethostname()
    # The same for each hook of an attempt: a hook that runs twice creates one run.
    started = re.sub(r"\D", "", job["start_time"] or job["submit_time"] or "")
    config = {key: {"value": job[key]} for key in ("command", "cwd", "gpu_ids", "mem_mb", "commit") if job[key] is not None}
    summary = {key: job[key] for key in ("status", "exit_code", "reason", "duration", "peak_mem_mb", "energy_j",
                                         "idle_gpu_seconds") if job[key] is not None}
    return {"name": f"gpuq-{host}-{job['id']}-{started}", "project": os.environ.get("WANDB_PROJECT", "gpuq"),
            "entity": os.environ.get("WANDB_ENTITY"), "displayName": job["name"] or f"job {job['id']}",
            "config": json.dumps(config), "summaryMetrics": json.dumps(summary), "tags": job["tags"],
            "state": STATES.get(job["status"], "failed"), "host": host}


def main() -> None:
    key = os.environ.get("WANDB_API_KEY")
    if not key:
        sys.exit("wandb.py: set WANDB_API_KEY to your API key")
    body = json.dumps({"query": UPSERT, "variables": variables(json.load(sys.stdin))}).encode()
    request = urllib.request.Request(os.environ.get("WANDB_BASE_URL", "https://api.wandb.ai").rstrip("/") + "/graphql", body, {
        "Content-Type": "application/json",
        "Authorization": "Basic " + base64.b64encode(f"api:{key}".encode()).decode()})
    with urllib.request.urlopen(request, timeout=30) as response:
        answer = json.load(response)
    if answer.get("errors"):
        sys.exit(f"wandb.py: {answer['errors'][0].get('message', answer['errors'])}")


if __name__ == "__main__":
    main()
