"""The set-up of docs/security.md, pasted block by block into one shell, as its readers do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.outside.needs import need_program
from tests.outside.ports import free_port
from tests.support.pasted import paste, reader_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
REFUSAL = re.compile(r"^```text\n(sordini: .*\n)```$", re.MULTILINE)
BLOCK_S_MAX = 60
PORTS = (9093, 9094, 9095)
FILES = ("server.properties", "secured.properties", "tokens.properties")


def test_each_block_of_the_set_up_does_what_the_page_says(tmp_path: Path) -> None:
    need_program("openssl", "openssl")
    addresses = {f"127.0.0.1:{port}": f"127.0.0.1:{free_port()}" for port in PORTS}
    text = re.sub("|".join(addresses), lambda found: addresses[found[0]], PAGE.read_text())
    # Groups that do not wait for more members, and keys that are made sooner.
    changed = text.replace("log.dirs=", "group.initial.rebalance.delay.ms=0\nlog.dirs=").replace("rsa:3072", "rsa:2048")
    environment = reader_environment()
    try:
        outputs = paste(BLOCK.findall(changed), tmp_path, environment, BLOCK_S_MAX)
    finally:
        for properties in FILES:
            stop = ["sordini", "stop", properties, "--force", "--timeout", "10"]
            subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)
    authority, served, client, stranger, renewed, secured, operator, user, quotas, _, tokens, bearer, stopped = outputs
    assert re.findall(r"^subject=CN ?= ?(\S+)$", authority, re.MULTILINE) == ["broker-1", "alice"]
    assert "is ready" in served
    assert client.endswith("3 figs\n")
    assert re.findall(r"^subject=CN ?= ?(\S+)$", renewed, re.MULTILINE) == ["broker-1"]
    assert "is ready" in secured
    assert "topic  ledger  literal  User:alice  *     Write      allow" in operator
    assert "\n3 figs\n" in user
    assert "user alice         producer_byte_rate        1,000,000 bytes/s" in quotas
    assert "is ready" in tokens
    assert "\n3 figs\n" in bearer
    assert re.findall(r"^.*stopped.*$", stopped, re.MULTILINE) != []
    # Each refusal is the one that the page shows, and the last thing that its block prints.
    refusals = [without_line_of_openssl(refusal) for refusal in REFUSAL.findall(text)]
    assert len(refusals) == 3
    for printed, refusal in zip((stranger, user, bearer), refusals, strict=True):
        assert without_line_of_openssl(printed).endswith(refusal), printed


def without_line_of_openssl(printed: str) -> str:
    """It names a line of Python's `_ssl.c`, another in each release."""
    return re.sub(r"\(_ssl\.c:\d+\)", "(_ssl.c)", printed)
