"""The commands in the documents, run as they stand there, in the order of each page.

Every page begins in a fresh directory with what the README's first event leaves behind: a server, a receiver on port
9000, a topic and an event subscription. `sh`, `python` and `js` are run, other languages only shown.
"""

import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys

import pytest

from appliance import BINARY, PATIENCE_S, REPOSITORY, environment, eventually

README = "README.md"
FOLDERS = (REPOSITORY, REPOSITORY / "docs")

# They build and test the program and are run by doing so: `tests/run` has run them to come here.
BUILD = re.compile(r"([A-Z_]+=\S+ )*(cargo|tests/run|packaging/build|python3 tests/)")

# They go on until they are interrupted.
ENDLESS = ("everpost --egress-allow", "everpost receive --listen", "everpost --data-dir provisioned --")

# They come with the tests of the clients.
PACKAGES = pathlib.Path(__file__).parent / "node_modules"


def blocks(page):
    """The language and the text of each block of code."""
    return re.findall(r"^```(\w+)\n(.*?)^```$", (REPOSITORY / page).read_text(), re.DOTALL | re.MULTILINE)


PAGES = [str(path.relative_to(REPOSITORY)) for folder in FOLDERS for path in sorted(folder.glob("*.md"))]


class Reader:
    """Somebody who follows a page: a directory, a shell that remembers its variables, and what runs beside it."""

    def __init__(self, folder):
        self.folder = folder
        self.port = free_port()
        self.running = []
        (folder / "bin").mkdir()
        (folder / "bin/everpost").symlink_to(BINARY)
        (folder / "node_modules").symlink_to(PACKAGES)
        self.variables = {
            **environment(),
            "PATH": f"{folder / 'bin'}:{pathlib.Path(sys.executable).parent}:{os.environ['PATH']}",
            "EVERPOST_LISTEN": "127.0.0.1:0",
        }

    def follow(self, page):
        for language, text in blocks(page):
            self.do(language, text)

    def do(self, language, text):
        text = text.replace("127.0.0.1:9000", f"127.0.0.1:{self.port}")
        if (self.folder / "everpost-data/server.url").exists():
            text = text.replace("127.0.0.1:8080", self.url.removeprefix("http://"))
        if language == "sh" and text.startswith(ENDLESS):
            self.start(text)
        elif language == "sh":
            self.shell(text)
        elif language == "python":
            self.run([sys.executable, "-"], text)
        elif language == "js":
            self.run(["node", "--input-type=module"], text)

    @property
    def url(self):
        return (self.folder / "everpost-data/server.url").read_text().strip()

    def start(self, command):
        log = open(self.folder / f"log-{len(self.running)}", "w+")
        process = subprocess.Popen(
            ["sh", "-c", f"exec {command}"], cwd=self.folder, env=self.variables, stdout=log, stderr=log
        )
        self.running.append(process)

        def listens():
            printed = pathlib.Path(log.name).read_text()
            assert process.poll() is None, f"{command}: {printed}"
            return "listening on" in printed

        eventually(listens, f"{command} listens")

    def shell(self, text):
        kept = self.folder / "variables"
        before = f". {kept}\n" if kept.exists() else ""
        commands = "".join(f"{line}\n" for line in text.splitlines() if not BUILD.match(line))
        script = f"set -ea\n{before}set -x\n{commands}\nset +x\nexport -p > {kept}"
        self.run(["bash", "-o", "pipefail", "-c", script], None)

    def run(self, command, text):
        kept = self.folder / "variables"
        if kept.exists() and command[0] != "bash":
            command = ["bash", "-c", f'. {kept}\nexec "$@"', "bash", *command]
        ran = subprocess.run(
            [str(word) for word in command],
            input=text,
            stdin=None if text else subprocess.DEVNULL,
            cwd=self.folder,
            env=self.variables,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
        )
        assert ran.returncode == 0, f"{text or ''}\n{ran.stdout}\n{ran.stderr}"
        # curl succeeds whatever it is answered. A measurement that overloads a slow machine shows its first rejection.
        answers = re.sub("^first rejection .*", "", ran.stdout, flags=re.MULTILINE)
        assert not re.search(r'"error": ?\{"code"', answers), ran.stdout

    def leave(self):
        """Interrupts what runs, as Ctrl-C does; all of it must end well."""
        for process in reversed(self.running):
            process.send_signal(signal.SIGINT)
            assert process.wait(PATIENCE_S) == 0, process.args


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.fixture
def reader(tmp_path):
    if not PACKAGES.exists() or not shutil.which("node"):
        pytest.skip("the packages of tests/clients are not installed")
    reader = Reader(tmp_path)
    reader.follow(README)
    yield reader
    reader.leave()


@pytest.mark.parametrize("page", [page for page in PAGES if ("sh" in dict(blocks(page)))])
def test_the_commands_of_a_page_work(reader, page):
    if page != README:  # which was followed to come here
        reader.follow(page)


def test_the_readme_begins_with_the_demonstration():
    """Which `tests/it/demo.rs` runs."""
    assert blocks(README)[0] == ("sh", "cargo run --release -- demo\n")


def test_what_is_built_and_tested_by_name_exists():
    texts = "\n".join((REPOSITORY / page).read_text() for page in PAGES)
    parts = re.findall(r"^part_(\w+)\(\)", (REPOSITORY / "tests/run").read_text(), re.MULTILINE)
    for named in re.findall(r"^(?:\w+=\S+ )?tests/run +([a-z][a-z ]*[a-z])", texts, re.MULTILINE):
        assert set(named.split()) <= set(parts), named
    measurements = (REPOSITORY / "tests/measure/main.rs").read_text()
    for named in re.findall(r"measure -- (\w+)", texts):
        assert f'Some("{named}")' in measurements, named
