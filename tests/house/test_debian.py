# SPDX-License-Identifier: MIT
"""The Debian packages in a fresh Debian 12: installed, used, upgraded and removed.

Needs root, or user namespaces with subordinate ids, and a mirror of Debian.
"""
import os
import pathlib
import re
import shutil
import subprocess

import pytest

SOURCE = pathlib.Path(os.environ["GD_SOURCE"])
MIRROR = [os.environ["DEBIAN_MIRROR"]] if "DEBIAN_MIRROR" in os.environ else []  # default: that of debootstrap
LIMIT = 1800
PACKAGES = ["gpuq", "libgpu-dispatch-dev", "libgpu-dispatch0", "python3-gpu-dispatch"]
SCRIPT = """from gpu_dispatch import BaseWorker, Pool

class Square(BaseWorker):
    def setup(self, gpu_id, seed): pass
    def process(self, item): return item * item

if __name__ == "__main__":
    with Pool(Square, gpus="sim:2") as pool:
        print(sum(pool.map(range(100))))
"""


def run(*words, code=0, **options):
    done = subprocess.run([str(word) for word in words], capture_output=True, text=True, timeout=LIMIT, check=False, **options)
    assert done.returncode == code, (words, done.returncode, done.stdout[-5000:], done.stderr[-5000:])
    return done.stdout


def test_the_versions_agree():
    meson = re.search(r"^  version: '(.*)',$", (SOURCE / "meson.build").read_text(), re.MULTILINE)[1]
    header = (SOURCE / "include/gpu_dispatch.h").read_text()
    numbers = [re.search(rf"^#define GD_VERSION_{part} (\d+)$", header, re.MULTILINE)[1] for part in ("MAJOR", "MINOR", "PATCH")]
    assert ".".join(numbers) == meson
    assert re.search(r"^gpu-dispatch \((.*)\)", (SOURCE / "debian/changelog").read_text())[1] == meson
    assert re.search(r"^## (\S+)", (SOURCE / "NEWS.md").read_text(), re.MULTILINE)[1].rstrip(",") == meson
    assert f"gpu_dispatch-{meson}.tar.gz" in (SOURCE / "README.md").read_text()
    # The Python package takes its version from Meson.
    project = (SOURCE / "pyproject.toml").read_text()
    assert 'dynamic = ["version"]' in project and not re.search(r"^version\b", project, re.MULTILINE)


class Chroot:
    """A Debian in a directory. `gpuq` runs as an ordinary user in it."""

    def __init__(self, root):
        self.root = root

    def __call__(self, command, code=0, user=None):
        # A new PID namespace: remaining processes end with the command. /proc is that of the namespace.
        become = f"exec setpriv --reuid {user} --regid {user} --clear-groups " if user else "exec "
        inner = f"mount -t proc proc /proc && cd {'/home/user' if user else '/'} && {become}sh -ec \"$COMMAND\""
        return run("unshare", "--mount", "--pid", "--fork", "--kill-child", "chroot", self.root, "/bin/sh", "-ec", inner, code=code,
                   env={"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME": "/home/user" if user else "/root",
                        "LC_ALL": "C.UTF-8", "DEBIAN_FRONTEND": "noninteractive", "COMMAND": command})

    def install_command(self, packages):
        for package in packages:
            shutil.copy(package, self.root / "debs")
        names = " ".join(f"/debs/{package.name}" for package in packages)
        return f"apt-get -qq -y --no-install-recommends -o Dpkg::Use-Pty=0 install {names}"


@pytest.fixture(scope="module", name="packages")
def build_packages(tmp_path_factory):
    """Runs make deb, which fails on lintian warnings; or uses the packages in $DEBS."""
    directory = pathlib.Path(os.environ.get("DEBS") or tmp_path_factory.mktemp("deb") / "out")
    if "DEBS" not in os.environ:
        run(SOURCE / "tools/deb", directory)
    return sorted(path for path in directory.glob("*.deb") if "dbgsym" not in path.name)


@pytest.fixture(scope="module", name="older")
def make_older(packages, tmp_path_factory):
    """The same packages with a smaller version, to be upgraded."""
    directory = tmp_path_factory.mktemp("older")
    for package in packages:
        tree = directory / package.stem
        run("dpkg-deb", "-R", package, tree)
        control = tree / "DEBIAN/control"
        version = re.search(r"^Version: (.*)$", control.read_text(), re.MULTILINE)[1]
        control.write_text(control.read_text().replace(version, version + "~older"))
        run("dpkg-deb", "--root-owner-group", "-b", tree, directory / f"{package.stem}.deb")
    return sorted(directory.glob("*.deb"))


@pytest.fixture(scope="module", name="debian")
def make_debian(tmp_path_factory):
    if os.getuid() != 0 or subprocess.run(["unshare", "--mount", "true"], capture_output=True, check=False).returncode:
        pytest.skip("needs root, for a chroot")
    root = tmp_path_factory.mktemp("debian") / "root"
    run("debootstrap", "--variant=minbase", "bookworm", root, *MIRROR)
    chroot = Chroot(root)
    (root / "debs").mkdir()
    chroot("useradd --create-home --uid 4711 user")
    yield chroot
    shutil.rmtree(root, ignore_errors=True)


@pytest.mark.heavy
def test_packages_are_installed_used_upgraded_and_removed(debian, older, packages):
    assert [path.name.partition("_")[0] for path in packages] == PACKAGES
    debian(debian.install_command(older))

    # Used by an ordinary user.
    out = debian("export GPUQ_GPUS=sim:2; gpuq add -- 'echo ran on $GPUQ_GPU' && gpuq wait 1 && gpuq logs 1 && gpuq gpus", user=4711)
    assert "ran on" in out
    debian("mkdir in && echo one two >in/a.txt && "
           "gpuq launch --gpus sim:1 --input-dir in --output-dir out --pattern '*.txt' -- cp {file} {output}/", user=4711)
    assert (debian.root / "home/user/out/a/a.txt").read_text() == "one two\n"
    (debian.root / "home/user/squares.py").write_text(SCRIPT)
    assert debian("python3 squares.py", user=4711) == f"{sum(n * n for n in range(100))}\n"
    assert debian("gpuq web --help && gpuq top --help && gpuq map --help && gpuq launch --list-workers && gpuq doctor --json || [ $? -eq 1 ]",
                  user=4711)
    assert debian("python3 -c 'from importlib.metadata import version; print(version(\"gpu_dispatch\"))'") == \
        debian("gpuq --version").replace("gpuq ", "")

    for name in ("bash-completion/completions/gpuq", "zsh/vendor-completions/_gpuq", "fish/vendor_completions.d/gpuq.fish",
                 "man/man5/gpuq.service.5.gz", "gpuq/status.schema.json"):
        assert (debian.root / "usr/share" / name).exists(), name
    assert (debian.root / "usr/lib/systemd/user/gpuq.service").exists()
    assert not list((debian.root / "etc/systemd/user").rglob("gpuq*")), "the unit must not be enabled by default"

    # Upgraded while a job runs: the job continues, and the new gpuq reports its end.
    out = debian("cd /home/user; as() { setpriv --reuid 4711 --regid 4711 --clear-groups env HOME=/home/user GPUQ_GPUS=sim:1 \"$@\"; }; "
                 "as gpuq add -- 'until [ -e upgraded ]; do sleep 0.1; done; echo finished'; "
                 "until as gpuq status 2 | grep -q running; do sleep 0.1; done; "
                 f"{debian.install_command(packages)} >&2; as touch upgraded; as gpuq wait 2; as gpuq logs 2")
    assert "finished" in out
    versions = debian("dpkg-query -W -f '${Package} ${Version} ${Status}\\n' " + " ".join(PACKAGES))
    assert "~older" not in versions and versions.count("install ok installed") == 4
    assert "ran on" in debian("export GPUQ_GPUS=sim:2; gpuq logs 1", user=4711)

    # Removed: nothing of the packages is left except users' files.
    debian("apt-get -qq -y -o Dpkg::Use-Pty=0 purge " + " ".join(PACKAGES))
    left = debian("find /usr /etc /var/lib/systemd -path /usr/share/doc -prune -o "
                  "\\( -name '*gpuq*' -o -name '*gpu_dispatch*' -o -name '*gpu-dispatch*' \\) -print 2>/dev/null || true")
    assert left == ""
    assert (debian.root / "home/user/.local/state/gpuq").exists()
