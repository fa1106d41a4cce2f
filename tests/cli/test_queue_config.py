# SPDX-License-Identifier: MIT
"""The effective settings, and their man page."""
import json
import os
import pathlib
import re
import subprocess

from lab import GPUQ, LIMIT

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])


def settings(lab, *words, **env):
    return json.loads(lab.gpuq("config", "--json", *words, env=env))


def test_settings_and_where_they_come_from(lab):
    (lab.directory / "gpuq.yaml").write_text("poll_interval: 1500ms\nmin_free_mem_mb: 8G\nkeep: yes\nlog_access: group\n")
    found = settings(lab, GPUQ_GPUS="sim:3")
    assert found["poll_interval"] == {"value": "1.500", "source": "./gpuq.yaml"}
    assert found["min_free_mem_mb"] == {"value": "8192", "source": "./gpuq.yaml"}
    assert (found["keep"]["value"], found["log_access"]["value"]) == ("true", "group")
    assert found["retries"] == {"value": "0", "source": "default"}
    assert found["gpus"] == {"value": "sim:3", "source": "$GPUQ_GPUS"}
    assert found["jobs_file"] == {"value": str(lab.journal), "source": "$GPUQ_JOBS_FILE"}
    assert found["log_dir"] == {"value": str(lab.journal.parent / "logs"), "source": "default"}
    assert settings(lab, "--jobs-file", "x.jsonl")["jobs_file"] == {"value": str(lab.directory / "x.jsonl"), "source": "--jobs-file"}
    assert settings(lab, GPUQ_JOBS_FILE="")["jobs_file"]["source"] == "the personal queue"
    assert "poll_interval: 1.500  # ./gpuq.yaml\n" in lab.gpuq("config")
    assert not lab.journal.exists() and not (lab.directory / "state").exists()


def test_printed_configuration_can_be_loaded(lab):
    (lab.directory / "own.yaml").write_text("timeout: 90s\nhost_mem: 2G\ncpu_affinity: gpu\n")
    before = settings(lab, "--config", "own.yaml")
    text = "".join(f"{name}: {json.dumps(one['value'])}\n" for name, one in before.items() if one["source"] == "own.yaml")
    (lab.directory / "again.yaml").write_text(text)
    after = settings(lab, "--config", "again.yaml")
    assert {name: one["value"] for name, one in before.items()} == {name: one["value"] for name, one in after.items()}


def test_configuration_from_a_closed_standard_input_is_reported(lab):
    for name in ("/dev/stdin", "/dev/fd/0"):
        result = subprocess.run(["sh", "-c", f'"$0" add --no-start --config {name} true <&-', GPUQ], cwd=lab.directory, env=lab.environment, capture_output=True,
                                text=True, timeout=LIMIT, check=False)
        assert result.returncode == 2 and f"cannot read configuration '{name}': No such file or directory" in result.stderr, result


def test_page_has_every_setting_with_type_default_and_example(lab):
    page = (SOURCE / "man/gpuq.yaml.5.scd").read_text()
    described = re.findall(r"^\*(\w+)\*\n\t.*Type: .*Default: .*Example: \*(\w+): (.+)\*$", page, re.MULTILINE)
    assert {name for name, _, _ in described} == set(settings(lab))
    assert all(name == again for name, again, _ in described)
    (lab.directory / "all.yaml").write_text("".join(f"{name}: {value}\n" for name, _, value in described))
    assert {one["source"] for name, one in settings(lab, "--config", "all.yaml").items() if name != "jobs_file"} == {"all.yaml"}
