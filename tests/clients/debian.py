"""Programs that the tests need from Debian, without installing them: nothing starts on this machine by itself."""

import os
import pathlib
import platform
import shutil
import subprocess

import pytest

from appliance import REPOSITORY

UNPACKED = REPOSITORY / "target/debian"
PLACES = ("usr/bin", "usr/sbin", "bin", "sbin")


def program(name, package):
    """Where the program is: installed, or unpacked from its package, or else the test is skipped."""
    places = [str(root / place) for root in (pathlib.Path("/"), UNPACKED / package) for place in PLACES]
    search = os.pathsep.join([os.environ["PATH"], *places])
    if not shutil.which(name, path=search) and shutil.which("apt-get"):
        _unpack(package)
    found = shutil.which(name, path=search)
    return found or pytest.skip(f"{name} is missing: install Debian's package {package}")


def _unpack(package):
    folder = UNPACKED / package
    folder.mkdir(parents=True, exist_ok=True)
    for command in (["apt-get", "download", package], ["apt-get", "update"], ["apt-get", "download", package]):
        if _succeeds(command, folder) and (files := list(folder.glob("*.deb"))):
            subprocess.run(["dpkg-deb", "--extract", files[0], folder], check=True)
            files[0].unlink()
            return


def bare_root():
    """A folder with Debian's base system, systemd and nothing else; made once."""
    if os.geteuid() != 0:
        pytest.skip("only root can make a root directory of its own")
    made, making = UNPACKED / "root", UNPACKED / "root.new"
    if made.exists():
        return made
    script = program("debootstrap", "debootstrap")
    # What debootstrap has mounted may still be there, if it was cut off.
    subprocess.run(["rm", "-rf", "--one-file-system", making], check=True)
    making.mkdir(parents=True)
    suite = platform.freedesktop_os_release().get("VERSION_CODENAME")
    mirror = _mirror(suite) or pytest.skip("this machine has no mirror of a Debian release")
    scripts = pathlib.Path(script).parents[1] / "share/debootstrap"
    wanted = ["--variant=minbase", "--include=ca-certificates,systemd-sysv"]
    if not _succeeds(["env", f"DEBOOTSTRAP_DIR={scripts}", script, *wanted, suite, making, mirror], UNPACKED):
        pytest.skip(f"debootstrap cannot make a root directory: {UNPACKED / 'log'}")
    return making.rename(made)


def _mirror(suite):
    command = ["apt-get", "indextargets", "--format", "$(CODENAME) $(SITE)", "Created-By: Packages"]
    listed = subprocess.run(command, capture_output=True, text=True).stdout.splitlines()
    return next((line.split()[1] for line in listed if line.startswith(f"{suite} ")), None)


def _succeeds(command, folder):
    with open(UNPACKED / "log", "w") as log:
        return subprocess.run(["timeout", "600", *command], cwd=folder, stdout=log, stderr=log).returncode == 0
