"""The set-up of docs/security.md, pasted block by block into a shell, as its readers do."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

from tests.outside.needs import need_program
from tests.outside.ports import free_port
from tests.support.pasted import paste, reader_environment

PAGE = Path(__file__).resolve().parents[2] / "docs" / "security.md"
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
BLOCK_S_MAX = 60


def test_each_block_of_the_set_up_does_what_the_page_says(tmp_path: Path) -> None:
    need_program("openssl", "openssl")
    # Groups that do not wait for more members, and keys that are made sooner.
    text = PAGE.read_text().replace("log.dirs=", "group.initial.rebalance.delay.ms=0\nlog.dirs=")
    blocks = BLOCK.findall(text.replace("rsa:3072", "rsa:2048"))
    for port in (9093, 9094, 9095):
        address = f"127.0.0.1:{free_port()}"
        blocks = [block.replace(f"127.0.0.1:{port}", address) for block in blocks]
    environment = reader_environment()
    try:
        outputs = paste(blocks, tmp_path, environment, BLOCK_S_MAX)
    finally:
        for properties in ("server.properties", "secured.properties", "tokens.properties"):
            stop = ["sordini", "stop", properties, "--force", "--timeout", "10"]
            subprocess.run(stop, cwd=tmp_path, env=environment, capture_output=True, check=False, timeout=BLOCK_S_MAX)
    authority, served, client, stranger, renewed, secured, operator, user, quotas, _, tokens, bearer = outputs
    assert "CN = alice" in authority or "CN=alice" in authority
    assert "is ready" in served
    assert client.endswith("3 figs\n")
    assert stranger.endswith("refused\n")
    assert "CN = broker-1" in renewed or "CN=broker-1" in renewed
    assert "is ready" in secured
    assert "topic  ledger  literal  User:alice  *     Write      allow" in operator
    assert "\n3 figs\n" in user
    assert "topic 'secrets': topic authorization failed" in user
    assert user.endswith("refused\n")
    assert "user alice         producer_byte_rate        1,000,000 bytes/s" in quotas
    assert "is ready" in tokens
    assert "\n3 figs\n" in bearer
    assert "refuses the token (OAUTHBEARER)" in bearer
    assert bearer.endswith("refused\n")
