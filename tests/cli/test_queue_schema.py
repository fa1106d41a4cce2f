# SPDX-License-Identifier: MIT
"""The objects of status --json match the installed schema."""
import json
import os
import pathlib

import jsonschema

SCHEMA = json.loads((pathlib.Path(os.environ["GD_SOURCE"]) / "schema/status.schema.json").read_text())


def check(text):
    jobs = json.loads(text)
    jsonschema.validate(jobs, SCHEMA)
    known = set(SCHEMA["items"]["properties"])
    attempt = set(SCHEMA["items"]["properties"]["history"]["items"]["properties"])
    for job in jobs:
        assert {key for key in job if not key.endswith("_b64")} <= known
        assert all(set(one) <= attempt for one in job["history"])
    return jobs


def test_schema_is_one_and_is_strict():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    assert not jsonschema.Draft202012Validator(SCHEMA).is_valid([{"id": 1}])


def test_jobs_in_all_states(lab):
    lab.add("--name", "n", "--mem", "1G", "--timeout", "90s", "--retries", "1", "--tag", "a,b", "--on-finish", "true", "exit 3")
    lab.add("true")
    lab.add("kill -9 $$")
    lab.commands("echo from a file")
    done = check(lab.gpuq("run", "--json", code=1))
    assert [job["status"] for job in done] == ["failed", "completed", "failed", "completed"]
    lab.add("--hold", "true")
    lab.add("--after", "5", "--host-mem", "1G", "--cpus", "1", "--exclusive", "true")
    lab.gpuq("cancel", lab.add("true"))
    jobs = check(lab.gpuq("status", "--json"))
    assert [job["status"] for job in jobs[4:]] == ["held", "pending", "cancelled"]
    assert (jobs[0]["mem_mb"], jobs[0]["timeout"], jobs[0]["retries"], jobs[0]["tags"], jobs[0]["on_finish"]) == (1024, 90, 1, ["a", "b"], "true")
    assert jobs[0]["on_idle"] is None
    assert jobs[3]["commands_file"] == str(lab.directory / "commands.txt") and jobs[0]["host"]
    check(lab.gpuq("status", "--json", "--all"))
    check(lab.gpuq("info", "--json", "1-7"))


def test_bytes_that_are_not_text(lab):
    lab.add("echo \udcff")
    assert "command_b64" in check(lab.gpuq("status", "--json"))[0]
