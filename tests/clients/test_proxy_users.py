"""A reverse proxy that names its users: believed from its own address, for the pages, and nowhere else."""

import pytest
import requests

from appliance import PATIENCE_S, Appliance
from test_hostile import From

# Both are this machine, and one of them is the proxy.
PROXY, STRANGER = "127.0.0.1", "127.0.0.2"


@pytest.fixture(scope="module")
def appliance(tmp_path_factory):
    folder = tmp_path_factory.mktemp("proxy_users")
    (folder / "password").write_text("a horse that staples batteries")
    proxy = ["--http-trusted-proxies", PROXY, "--sign-in-proxy-user-header", "X-Forwarded-User"]
    groups = ["--sign-in-admin-groups", "root", "--sign-in-viewer-groups", "staff"]
    account = ["--admin-user", "ann", "--admin-password-file", str(folder / "password")]
    with Appliance(folder / "data", *proxy, *groups, *account) as appliance:
        yield appliance


def browser(appliance, address):
    session = requests.Session()
    session.mount(appliance.url, From(address))
    return session


def ask(session, appliance, path, user=None, groups=None):
    headers = {"X-Forwarded-User": user, "X-Forwarded-Groups": groups}
    headers = {name: value for name, value in headers.items() if value}
    return session.get(appliance.url + path, headers=headers, timeout=PATIENCE_S, allow_redirects=False)


def users(appliance):
    return {user["name"]: user for user in appliance.manage("GET", "/everpost/users")["value"]}


def test_a_stranger_with_the_header_is_a_stranger(appliance):
    answer = ask(browser(appliance, STRANGER), appliance, "/admin/users", "mallory", "root")
    assert answer.status_code == 303 and answer.headers["location"].startswith("/admin/login")
    assert "mallory" not in users(appliance)


def test_whom_the_proxy_names_is_signed_in_with_the_role_of_the_groups(appliance):
    session = browser(appliance, PROXY)
    answer = ask(session, appliance, "/admin/users", "eve", "others,root")
    assert answer.status_code == 200 and "Reverse proxy" in answer.text
    assert (users(appliance)["eve"]["role"], users(appliance)["eve"]["source"]) == ("admin", "proxy")
    assert ask(session, appliance, "/admin/users", "eve", "staff").status_code == 403
    assert users(appliance)["eve"]["role"] == "viewer"
    answer = ask(session, appliance, "/admin/topics", "eve", "others")
    assert answer.status_code == 403 and "none of your groups has the role" in answer.text
    entry = appliance.manage("GET", "/everpost/audit?action=RejectSignIn")["value"][0]
    assert entry["actor"] == "eve" and "others" in entry["sentence"]

    # The session is the proxy's to give: without it, or by another way, the cookie opens nothing.
    ask(session, appliance, "/admin/topics", "eve", "root")
    stolen = browser(appliance, STRANGER)
    stolen.cookies.update(session.cookies)
    assert ask(stolen, appliance, "/admin/topics", "eve", "root").status_code == 303
    assert ask(session, appliance, "/admin/topics").status_code == 303


def test_the_api_knows_nothing_of_it(appliance):
    answer = ask(browser(appliance, PROXY), appliance, "/everpost/users", "eve", "root")
    assert answer.status_code == 401
