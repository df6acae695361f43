"""The programs of docs/clients.md, compiled and run as they stand there, without TLS, with TLS and over WebSockets."""

import os
import pathlib
import re
import shutil
import subprocess

import pytest

from appliance import REPOSITORY, Appliance, environment

HERE = pathlib.Path(__file__).parent / "languages"

# A compiler on a busy machine, which may have packages to download.
PATIENCE_S = 300


def programs(language):
    """Each block of a language by a word that is in it alone: the messages, and the administration."""
    page = (REPOSITORY / "docs/clients.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", page, re.DOTALL | re.MULTILINE)
    (messages,) = [block for block in blocks if "hello" in block]
    (administration,) = [block for block in blocks if "hello" not in block]
    return messages, administration


def ran(command, folder, **variables):
    ran = subprocess.run(
        [str(word) for word in command],
        cwd=folder,
        env={**environment(), **variables},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_S,
    )
    assert ran.returncode == 0, f"{command}\n{ran.stdout}\n{ran.stderr}"
    return ran.stdout


class Go:
    def __init__(self, folder):
        self.folder = folder
        for name, text in zip(["messages", "administration"], programs("go")):
            (folder / name).mkdir()
            (folder / name / "main.go").write_text(text)
        for file in ("go.mod", "go.sum"):
            shutil.copy(HERE / file, folder)
        for name in ("messages", "administration"):
            ran(["go", "build", "-o", f"{name}.bin", f"./{name}"], folder)

    def run(self, name, authority=None, **variables):
        trusted = {"SSL_CERT_FILE": str(authority)} if authority else {}
        return ran([self.folder / f"{name}.bin"], self.folder, **trusted, **variables)


class Java:
    def __init__(self, folder):
        self.folder = folder
        shutil.copy(HERE / "pom.xml", folder)
        ran(["mvn", "-q", "-B", "dependency:build-classpath", "-Dmdep.outputFile=classpath"], folder)
        self.path = f"{(folder / 'classpath').read_text()}:."
        for name, text in zip(["Jobs", "Administration"], programs("java")):
            (folder / f"{name}.java").write_text(text)
            ran(["javac", "-cp", self.path, f"{name}.java"], folder)

    def run(self, name, authority=None, **variables):
        store = self.folder / "trust.p12"
        trusted = []
        if authority:
            store.unlink(missing_ok=True)
            imported = ["keytool", "-importcert", "-noprompt", "-alias", "everpost", "-file", authority]
            ran([*imported, "-keystore", store, "-storepass", "changeit"], self.folder)
            trusted = [f"-Djavax.net.ssl.trustStore={store}", "-Djavax.net.ssl.trustStorePassword=changeit"]
        of = {"messages": "Jobs", "administration": "Administration"}
        return ran(["java", *trusted, "-cp", self.path, of[name]], self.folder, **variables)


class DotNet:
    def __init__(self, folder):
        self.folder = folder
        for name, text in zip(["messages", "administration"], programs("csharp")):
            project = folder / name
            project.mkdir()
            (project / "Program.cs").write_text(text)
            shutil.copy(HERE / "program.csproj", project / f"{name}.csproj")
            ran(["dotnet", "build", "--nologo", "--output", "out"], project)

    def run(self, name, authority=None, **variables):
        trusted = {"SSL_CERT_FILE": str(authority)} if authority else {}
        return ran(["dotnet", self.folder / name / "out" / f"{name}.dll"], self.folder, **trusted, **variables)


LANGUAGES = [(Go, ["go"]), (Java, ["java", "javac", "mvn"]), (DotNet, ["dotnet"])]


@pytest.fixture(scope="module", params=LANGUAGES, ids=["go", "java", "dotnet"])
def language(request, tmp_path_factory):
    made, needed = request.param
    missing = [program for program in needed if not shutil.which(program)]
    if missing:
        pytest.skip(f"{', '.join(missing)} is missing")
    return made(tmp_path_factory.mktemp(made.__name__))


@pytest.fixture(scope="module")
def plain(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("plain") / "data") as appliance:
        yield appliance


@pytest.fixture(scope="module")
def secure(tmp_path_factory):
    with Appliance(tmp_path_factory.mktemp("secure") / "data", "--tls-dev") as appliance:
        yield appliance


def connection(appliance):
    """As docs/clients.md has them."""
    port = appliance.url.rpartition(":")[2]
    text = f"Endpoint=sb://localhost:{port};SharedAccessKeyName=RootManageSharedAccessKey;SharedAccessKey={appliance.token}"
    if appliance.url.startswith("https:"):
        return {"CONNECTION_STRING": text, "ENDPOINT": f"https://localhost:{port}", "PORT": port}
    return {"CONNECTION_STRING": f"{text};UseDevelopmentEmulator=true"}


def test_messages_without_tls(language, plain):
    plain.manage("PUT", "/queues/jobs", {})
    assert language.run("messages", **connection(plain)) == "hello\n"


def test_everything_with_tls(language, secure):
    variables, authority = connection(secure), secure.authority
    secure.request("DELETE", "/queues/jobs")
    language.run("administration", authority, **variables)
    assert language.run("messages", authority, **variables) == "hello\n"
    assert language.run("messages", authority, WEBSOCKETS="1", **variables) == "hello\n"


def test_a_certificate_that_is_not_trusted_has_a_line_in_the_log(language, secure):
    with pytest.raises((AssertionError, subprocess.TimeoutExpired)):
        language.run("administration", **connection(secure))
    assert "trust the certificate authority" in secure.log()
