"""A slice of the soak (`make soak`): some hundred requests of all APIs and versions, and what must hold after them."""

from __future__ import annotations

import os
from pathlib import Path

from tests.soak.run import Wanted, run
from tests.soak.watch import GROWTH_BYTES_MAX, LogLines, Sample, growth, strangers

REQUESTS = 400


async def test_random_requests_of_all_apis_have_no_effect_on_an_honest_client_or_on_the_files(tmp_path: Path) -> None:
    lines: list[str] = []
    seed = os.environ.get("SORDINI_SOAK_SEED", "1")
    outcome = await run(Wanted(seed, seconds=60, requests=REQUESTS), tmp_path / "broker", lines.append)
    assert outcome.findings == [], f"seed {seed}"
    assert outcome.tally["requests"] >= REQUESTS
    assert outcome.records > 0
    assert lines


def test_what_a_soak_calls_a_finding(tmp_path: Path) -> None:
    path = tmp_path / "log"
    path.write_text(
        '{"level": "warning", "event": "connection closed"}\n{"level": "error", "event": "request failed"}\n'
        '{"level": "warning", "event": "log recovery finding"}\nTraceback (most recent call last):\n{"level": "err'
    )
    lines = LogLines(path)
    lines.read()
    assert len(lines.findings) == 3
    with path.open("a") as file:
        file.write('or", "event": "log directory is offline"}\n')
    lines.read()
    assert len(lines.findings) == 4
    for name in ("orders-0", "a.b-1.0123456789abcdef0123456789abcdef-delete", "-x", "x", "orders--5"):
        (tmp_path / "logs" / name).mkdir(parents=True)
    for name in ("meta.properties", "recovery-point-offset-checkpoint", "coordination.sqlite-wal", "other"):
        (tmp_path / "logs" / name).touch()
    assert strangers(tmp_path / "logs") == ["-x", "other", "x"]
    flat = [Sample(number, 50_000_000, 40) for number in range(100)]
    assert growth(flat) == 0
    leaking = [Sample(number, 50_000_000 + number * 1_000_000, 40) for number in range(100)]
    assert growth(leaking) > GROWTH_BYTES_MAX
