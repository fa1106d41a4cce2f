# SPDX-License-Identifier: MIT
"""tools/configure with a fake Meson that records its calls."""
import os
import pathlib
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
MESON = r"""#!/bin/sh
echo "$*" >>"$LOG"
for word; do
	case $word in -Dprefix=*) prefix=${word#-Dprefix=} ;; esac
done
mkdir -p "$BUILD/meson-info"
touch "$BUILD/build.ninja"
[ -z "$prefix" ] || printf '[{"name": "prefix", "value": "%s"}]' "$prefix" >"$BUILD/meson-info/intro-buildoptions.json"
"""


class Configured:
    def __init__(self, root):
        self.build, self.log = root / "build", root / "log"
        (root / "bin").mkdir()
        (root / "bin/meson").write_text(MESON)
        (root / "bin/meson").chmod(0o755)
        self.environment = {**os.environ, "PATH": f"{root}/bin:{os.environ['PATH']}", "LOG": str(self.log),
                            "BUILD": str(self.build)}

    def __call__(self, *use, prefix="/usr/local"):
        """The calls of Meson that this use needed."""
        self.log.write_text("")
        subprocess.run([SOURCE / "tools/configure", self.build, prefix, *use], env=self.environment, check=True, timeout=60)
        return self.log.read_text().replace(str(self.build), "BUILD").splitlines()


@pytest.fixture(name="configure")
def make_configured(tmp_path):
    return Configured(tmp_path)


def test_a_purpose_is_configured_once_and_covers_smaller_ones(configure):
    assert configure("tests") == ["setup BUILD -Dprefix=/usr/local -Dlibdir=lib -Dtests=enabled"]
    assert configure("tests") == configure() == configure("build") == configure("demo") == configure("install") == []
    assert configure("heavy") == ["setup --reconfigure BUILD -Dtests=enabled"]
    assert configure("heavy") == configure("tests") == []


def test_packages_installed_after_the_demo_was_configured_are_found(configure):
    assert configure("demo") == ["setup BUILD -Dprefix=/usr/local -Dlibdir=lib -Dtests=disabled"]
    assert configure("build") == ["setup --reconfigure BUILD"]
    assert configure("build") == configure("demo") == []
    assert configure("tests") == ["setup --reconfigure BUILD -Dtests=enabled"]


def test_only_install_changes_the_prefix_and_only_if_it_differs(configure):
    configure("build")
    assert configure("build", prefix="/opt") == []
    assert configure("install", prefix="/opt") == ["configure BUILD -Dprefix=/opt"]
    assert configure("install", prefix="/opt") == []


def test_an_unknown_purpose_is_refused(configure):
    with pytest.raises(subprocess.CalledProcessError):
        configure("biuld")
