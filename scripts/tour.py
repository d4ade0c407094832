"""README.md's tour against an existing broker, which is stopped and started by given commands.

    python3 scripts/tour.py "docker compose stop" "docker compose up --detach --wait"
    python3 scripts/tour.py "sordini stop server.properties" "sordini serve server.properties --daemon" 127.0.0.1:19092

The first argument stops it, the second starts it, the third is its address (default 127.0.0.1:9092). They replace the
lines of the tour that start and stop a broker; all others are run unchanged, in one shell that ends at the first
failing command. The tour leaves the broker stopped. `sordini` and `kcat` have to be on the path.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SECTION = re.compile(r"^## A tour in three minutes\n(.*?)^## ", re.MULTILINE | re.DOTALL)
BLOCK = re.compile(r"^```sh\n(.*?)^```$", re.MULTILINE | re.DOTALL)
ADDRESS = "127.0.0.1:9092"
STARTS = "make run ARGS=--daemon\n"
STOPS = "sordini stop --override log.dirs=data\n"
OWN_PATH = 'export PATH="$PWD/.venv/bin:$PATH"\n'


def blocks(readme: str) -> list[str]:
    """What a reader of the tour pastes."""
    section = SECTION.search(readme)
    assert section is not None, "README.md has no tour"
    found: list[str] = BLOCK.findall(section[1])
    return found


def tour(stop: str, start: str, address: str) -> str:
    """The shell script."""
    script = "\n".join(blocks((ROOT / "README.md").read_text(encoding="utf-8")))
    assert script.count(STARTS) == script.count(STOPS) == 2, "the tour starts and stops a broker twice"
    assert script.count(OWN_PATH) == 1
    script = script.replace(OWN_PATH, "")
    script = script.replace(STARTS, "", 1).replace(STARTS, f"{start}\n").replace(STOPS, f"{stop}\n")
    return script.replace(ADDRESS, address)


def main(arguments: list[str]) -> int:
    if len(arguments) not in (2, 3):
        print(__doc__, file=sys.stderr)
        return 2
    stop, start, address = [*arguments, ADDRESS][:3]
    command = ["bash", "-e", "-x", "-o", "pipefail", "-c", tour(stop, start, address)]
    return subprocess.run(command, cwd=ROOT, check=False).returncode  # noqa: S603 - our own words, and the user's.


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
