"""What `packaging/build` makes of the binary under test: installed on a bare Debian, run from the image, and read."""

import hashlib
import json
import os
import re
import shutil
import subprocess
import tarfile

import pytest
import requests

from appliance import BINARY, PATIENCE_S, REPOSITORY, eventually
from debian import bare_root, program
from test_documents import free_port
from test_snippets import PASSWORD

UNIT = REPOSITORY / "packaging/everpost.service"
EXPOSURE_MAX = 2.0

# What is asked of the package on a machine of its own; every line has to succeed.
TRIAL = """
set -ex
not() { ! "$@"; } # a bare `!` ends no script
until_it_works() { for try in $(seq 100); do "$@" && return; sleep 0.1; done; false; }
export EVERPOST_DATA_DIR=/var/lib/everpost
dpkg --install /trial/old.deb
systemctl is-enabled everpost
until_it_works everpost healthcheck
[ "$(stat --format '%U %a' /var/lib/everpost /etc/everpost)" = "$(printf 'everpost 700\\nroot 750')" ]
process=$(systemctl show --property MainPID --value everpost)
[ "$(stat --format %U /proc/$process)" = everpost ]
grep 'Seccomp:.*2' /proc/$process/status
grep 'CapBnd:.*0000000000000000' /proc/$process/status

: the configuration in /etc is read, and an event is taken and delivered to a host that is looked up
sed -i 's|^#egress.allow = .*|egress.allow = ["127.0.0.0/8"]|' /etc/everpost/everpost.toml
systemctl restart everpost
until_it_works everpost healthcheck
echo 127.0.0.1 localhost >/etc/hosts
everpost receive --listen 127.0.0.1:9000 >/tmp/received 2>&1 &
until_it_works grep listening /tmp/received
everpost topics create orders
everpost subscriptions create billing --topic orders --endpoint http://localhost:9000/events
everpost publish --topic orders --type Order.Paid --subject /orders/7
until_it_works grep Order.Paid /tmp/received

: an upgrade restarts it and keeps data and configuration
process=$(systemctl show --property MainPID --value everpost)
dpkg --install /trial/new.deb
until_it_works everpost healthcheck
[ "$process" != "$(systemctl show --property MainPID --value everpost)" ]
grep '^egress.allow' /etc/everpost/everpost.toml
everpost events list | grep /orders/7
everpost doctor
everpost upgrade-check

: a restart behind the socket rejects nobody
systemctl stop everpost
systemctl enable --now everpost.socket
systemctl start everpost
publish() {
  for number in $(seq 20); do
    everpost publish --url http://127.0.0.1:8080 --topic orders --type Order.Paid --subject /restart/$number || return
  done
}
publish >/tmp/published &
systemctl restart everpost
wait $!
everpost events list --limit 100 | grep --count /restart/ | grep 20
systemctl disable --now everpost.socket

: what is switched off stays so
systemctl disable --now everpost
dpkg --install /trial/old.deb
not systemctl is-active everpost
not systemctl is-enabled everpost

: a removal keeps the data, a purge does not
systemctl start everpost
dpkg --remove everpost
not systemctl is-active everpost
[ -e /var/lib/everpost/everpost.db ]
dpkg --purge everpost
not [ -e /var/lib/everpost ]
not [ -e /etc/everpost ]
not id everpost
echo done >/trial/done
"""

TRIAL_UNIT = """
[Unit]
Requires=basic.target
After=basic.target
[Service]
Type=oneshot
TimeoutStartSec=45
ExecStart=/bin/sh /trial/run
StandardOutput=file:/trial/log
StandardError=inherit
ExecStopPost=/bin/systemctl poweroff --force
"""


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """The folder with what the script has made."""
    for name in ("cargo", "dpkg-deb", "objdump"):
        shutil.which(name) or pytest.skip(f"{name} is missing")
    folder = tmp_path_factory.mktemp("packages")
    quick = {"DPKG_DEB_COMPRESSOR_TYPE": "none", "GZIP": "-1"}
    places = {"EVERPOST_BIN": str(BINARY), "EVERPOST_PACKAGES": str(folder)}
    parts = ["archive", "deb", "components", *(["image"] if shutil.which("buildah") else [])]
    command = [REPOSITORY / "packaging/build", *parts]
    ran = subprocess.run(command, env={**os.environ, **quick, **places}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return folder


@pytest.fixture(scope="module")
def deb(packages):
    [deb] = packages.glob("everpost_*.deb")
    return deb


def dpkg_deb(*words):
    return subprocess.run(["dpkg-deb", *words], capture_output=True, text=True, check=True).stdout


def test_everything_has_a_checksum(packages):
    lines = [line.split() for line in (packages / "SHA256SUMS").read_text().splitlines()]
    assert len(lines) >= 3
    assert {name for _, name in lines} == {path.name for path in packages.iterdir()} - {"SHA256SUMS"}
    for checksum, name in lines:
        assert hashlib.sha256((packages / name).read_bytes()).hexdigest() == checksum


def test_the_archive_has_all_that_belongs_to_the_program(packages):
    [archive] = packages.glob("*.tar.gz")
    root = archive.name.removesuffix(".tar.gz")
    with tarfile.open(archive) as members:
        files = {member.name.removeprefix(f"{root}/"): member for member in members if member.isfile()}
    assert files["everpost"].mode == 0o755
    wanted = ["everpost.service", "everpost.socket", "README.md", "docs/install.md", "man/everpost.1", "man/everpost-serve.1"]
    wanted += [f"completions/everpost.{shell}" for shell in ("bash", "zsh", "fish", "elvish", "powershell")]
    wanted += [f"licences/{name}" for name in ("LICENSE-MIT", "LICENSE-APACHE", "THIRD-PARTY")]
    wanted += ["proxy/Caddyfile", "proxy/nginx.conf", "grafana/everpost.json", "prometheus/everpost.rules.yml"]
    assert [name for name in wanted if not (name in files and files[name].size)] == []
    assert {(member.uid, member.gid) for member in files.values()} == {(0, 0)}


def test_the_package_is_what_debian_expects(packages, deb):
    fields = dict(re.findall(r"^([\w-]+): (.*)$", dpkg_deb("--field", deb), re.MULTILINE))
    version = subprocess.run([BINARY, "version"], capture_output=True, text=True, check=True).stdout.split()[1]
    assert (fields["Package"], fields["Version"]) == ("everpost", version)
    needed = re.search(r"libc6 \(>= (2\.\d+)\)", fields["Depends"])[1]
    symbols = subprocess.run(["objdump", "-T", BINARY], capture_output=True, text=True, check=True).stdout
    assert int(needed[2:]) == max(int(minor) for minor in re.findall(r"GLIBC_2\.(\d+)", symbols))
    lines = [line.split(None, 5) for line in dpkg_deb("--contents", deb).splitlines()]
    modes = {words[5]: (words[0], words[1]) for words in lines}
    assert modes["./usr/bin/everpost"] == ("-rwxr-xr-x", "root/root")
    assert {owner for _, owner in modes.values()} == {"root/root"}
    assert {mode[1:] for mode, _ in modes.values()} == {"rwxr-xr-x", "rw-r--r--"}
    for path in [
        "usr/lib/systemd/system/everpost.service",
        "etc/everpost/everpost.toml",
        "usr/share/man/man1/everpost.1.gz",
        "usr/share/bash-completion/completions/everpost",
        "usr/share/zsh/vendor-completions/_everpost",
        "usr/share/fish/vendor_completions.d/everpost.fish",
        "usr/share/doc/everpost/copyright",
        "usr/share/doc/everpost/THIRD-PARTY",
        "usr/share/doc/everpost/examples/proxy/nginx.conf",
    ]:
        assert f"./{path}" in modes, path


def test_the_list_of_components_is_complete(packages):
    [path] = packages.glob("*.cdx.json")
    bill = json.loads(path.read_text())
    assert (bill["bomFormat"], bill["specVersion"]) == ("CycloneDX", "1.5")
    components = {component["name"]: component for component in bill["components"]}
    lock = (REPOSITORY / "Cargo.lock").read_text()
    for name in ("axum", "rusqlite", "libsqlite3-sys", "aws-lc-rs"):
        [wanted] = re.findall(rf'name = "{name}"\nversion = "(.*)"\nsource = .*\nchecksum = "(.*)"', lock)
        component = components[name]
        assert (component["version"], component["hashes"][0]["content"]) == wanted
        assert component["purl"] == f"pkg:cargo/{name}@{wanted[0]}" and component["licenses"]
    assert not {"proptest", "allocation-counter", "everpost", "cc"} & set(components)
    refs = {component["bom-ref"] for component in [*bill["components"], bill["metadata"]["component"]]}
    assert {each["ref"] for each in bill["dependencies"]} == refs
    assert all(set(each["dependsOn"]) <= refs for each in bill["dependencies"])


def test_the_unit_is_hardened():
    analyze = shutil.which("systemd-analyze") or pytest.skip("systemd-analyze is missing")
    # A unit is known by its name and has to name a program that exists.
    ran = subprocess.run([analyze, "security", "--offline=true", UNIT], capture_output=True, text=True)
    level = re.search(r"Overall exposure level for everpost.service: ([\d.]+)", ran.stdout)
    assert level, ran.stdout + ran.stderr
    assert float(level[1]) <= EXPOSURE_MAX


def test_on_a_bare_debian_it_installs_works_upgrades_and_goes(deb, tmp_path):
    root = bare_root()
    nspawn = program("systemd-nspawn", "systemd-container")
    shutil.copy(deb, tmp_path / "old.deb")
    dpkg_deb("--raw-extract", deb, tmp_path / "new")
    control = tmp_path / "new/DEBIAN/control"
    control.write_text(re.sub(r"(?m)^Version: .*", r"\g<0>+1", control.read_text()))
    dpkg_deb("--root-owner-group", "-Znone", "--build", tmp_path / "new", tmp_path / "new.deb")
    (tmp_path / "run").write_text(TRIAL)
    (tmp_path / "trial.service").write_text(TRIAL_UNIT)
    command = [nspawn, "--quiet", f"--directory={root}", f"--machine=everpost-{os.getpid()}", "--register=no"]
    command += ["--keep-unit", "--volatile=overlay", "--private-network", f"--bind={tmp_path}:/trial", "--boot"]
    command += [f"--bind-ro={tmp_path}/trial.service:/etc/systemd/system/trial.service"]
    ran = subprocess.run([*command, "--", "systemd.unit=trial.service"], capture_output=True, timeout=PATIENCE_S)
    if not (tmp_path / "log").exists():
        pytest.skip(f"no systemd starts in a container here: {ran.stderr.decode(errors='replace')[-500:]}")
    assert (tmp_path / "done").exists(), (tmp_path / "log").read_text()[-3000:]


def test_the_image_runs_with_nothing_that_can_be_written(packages, tmp_path):
    shutil.which("buildah") or pytest.skip("buildah is missing: install Debian's package buildah")
    if os.geteuid() != 0:
        pytest.skip("only root can enter the image without a container engine")
    [archive] = packages.glob("*-image.tar")
    root = tmp_path / "root"
    with tarfile.open(archive) as image:
        read = lambda name: json.load(image.extractfile(name))
        [manifest] = read("manifest.json")
        settings = read(manifest["Config"])["config"]
        for layer in manifest["Layers"]:
            with tarfile.open(fileobj=image.extractfile(layer)) as files:
                files.extractall(root, filter="fully_trusted")
    assert settings["Healthcheck"]["Test"] == ["CMD", "/usr/bin/everpost", "healthcheck"]
    assert settings["User"] == "65532:65532" and list(settings["Volumes"]) == ["/var/lib/everpost"]
    (root / "password").write_text(PASSWORD)
    url = f"http://127.0.0.1:{free_port()}"
    given = dict(line.split("=", 1) for line in settings["Env"])
    assert given["EVERPOST_LISTEN"] == "0.0.0.0:8080"
    given |= {"EVERPOST_LISTEN": url.removeprefix("http://")}
    given |= {"EVERPOST_ADMIN_USER": "ann", "EVERPOST_ADMIN_PASSWORD_FILE": "/password"}
    # Only the volume can be written to, as with a container engine's --read-only.
    script = (
        f"mount --bind {root} {root} && mount --bind {root}/var/lib/everpost {root}/var/lib/everpost && "
        f"mount -o remount,bind,ro {root} && exec chroot --userspec={settings['User']} {root} \"$@\""
    )

    def run(*words):
        return ["unshare", "--mount", "sh", "-ec", script, "sh", *words]

    server = subprocess.Popen(run(*settings["Entrypoint"]), env=given, stdout=subprocess.PIPE, text=True)
    try:

        def healthy():
            assert server.poll() is None, server.stdout.read()
            check = run(*settings["Healthcheck"]["Test"][1:])
            return subprocess.run(check, env=given, capture_output=True).returncode == 0

        eventually(healthy, "the health check succeeds")
        assert requests.get(f"{url}/readyz", timeout=PATIENCE_S).ok
        assert (root / "var/lib/everpost").stat().st_uid == 65532
        assert not list((root / "etc/ssl/certs").glob("*.crt"))[0].is_symlink()
    finally:
        server.terminate()
    assert server.wait(PATIENCE_S) == 0


def test_the_compose_file_is_short_and_names_this_version(deb):
    lines = (REPOSITORY / "packaging/compose.yaml").read_text().splitlines()
    assert len(lines) <= 12
    version = dpkg_deb("--field", deb, "Version").strip()
    assert f"    image: everpost:{version}" in lines
