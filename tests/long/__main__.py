"""Requests made from the served openapi.json by schemathesis: none may be answered with 5xx, or not at all.

    python tests/long [seconds]
"""

import pathlib
import subprocess
import sys
import tempfile

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "clients"))

from appliance import Appliance  # noqa: E402  (the folder has to be named first)

# Longer than the longest wait of a receiver, which is 120 s.
ANSWER_S = 130
SECONDS = sys.argv[1] if len(sys.argv) > 1 else "600"

with tempfile.TemporaryDirectory() as folder, Appliance(pathlib.Path(folder) / "data") as appliance:
    # The first one must be, or the others cannot.
    admin = {"name": "root", "role": "admin", "password": "correct horse battery"}
    appliance.manage("POST", "/everpost/users", admin)
    command = [
        pathlib.Path(sys.executable).with_name("schemathesis"),
        "run",
        appliance.url + "/openapi.json",
        f"--header=Authorization: Bearer {appliance.token}",
        "--checks=not_a_server_error",
        "--phases=examples,coverage,fuzzing",
        f"--max-time={SECONDS}",
        f"--request-timeout={ANSWER_S}",
        "--continue-on-failure",
        "--warnings=off",
        "--no-color",
    ]
    status = subprocess.run(command).returncode
    print("".join(line for line in appliance.printed if "ERROR" in line or "panic" in line))
sys.exit(status)
