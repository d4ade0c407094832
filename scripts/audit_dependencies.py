"""Known vulnerabilities of the locked libraries: `make audit-dependencies`.

pip-audit asks the package index about each version in requirements/*.lock. Exit codes: 0 nothing is known, or the
index cannot be reached, which is printed; 1 something is known. So a build without a network does not fail for that,
and does not say either that all is well.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
SECONDS_MAX = 60.0


class Audit(NamedTuple):
    """What is known of one lock."""

    asked: int
    """Versions about which there was an answer."""
    skipped: int
    vulnerable: list[str]
    """A line for each: name, version, the vulnerability and the versions that mend it."""


def judged(output: str) -> Audit | None:
    """What pip-audit's JSON says; None where there is none."""
    try:
        rows: list[dict[str, Any]] = json.loads(output)["dependencies"]
    except (ValueError, KeyError, TypeError):
        return None
    asked = [row for row in rows if "skip_reason" not in row]
    lines = [
        f"{row['name']} {row['version']}: {found['id']}, mended in {', '.join(found['fix_versions']) or 'no version'}"
        for row in asked
        for found in row["vulns"]
    ]
    return Audit(len(asked), len(rows) - len(asked), lines)


def audit(lock: Path) -> Audit | str:
    """Ask about one lock; the reason where that is not possible."""
    command = [sys.executable, "-m", "pip_audit", "--disable-pip", "--require-hashes", "--format", "json"]
    try:
        ended = subprocess.run(  # noqa: S603 - a fixed command.
            [*command, "--progress-spinner", "off", "--requirement", str(lock)],
            capture_output=True,
            text=True,
            check=False,
            timeout=SECONDS_MAX,
        )
    except subprocess.TimeoutExpired:
        return f"no answer within {SECONDS_MAX:.0f} s"
    found = judged(ended.stdout)
    return (ended.stderr.strip().splitlines() or ["no answer"])[-1] if found is None else found


def report(name: str, found: Audit | str) -> int:
    """Print what is known; 1 for a vulnerability."""
    if isinstance(found, str):
        print(f"{name}: not audited: {found}")
        return 0
    for line in found.vulnerable:
        print(f"{name}: {line}")
    known = f"{len(found.vulnerable)} vulnerabilities are known of {found.asked} libraries"
    print(f"{name}: {known}{f'; not audited: {found.skipped} that the index does not know' if found.skipped else ''}")
    return 1 if found.vulnerable else 0


def main() -> int:
    locks = sorted((ROOT / "requirements").glob("*.lock"))
    return max([report(lock.name, audit(lock)) for lock in locks])


if __name__ == "__main__":
    sys.exit(main())
