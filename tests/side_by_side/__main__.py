"""The same hostile bytes for Sordini and for Apache Kafka 3.9.1: `make hostile` prints the table.

Both run as processes with the same settings, one after the other for each attack, on loopback. Times are those of an
honest client beside, which sends ApiVersions every few milliseconds; CPU is that of the broker with its children, until
it is quiet again, the honest client's requests included; memory is the highest during the attack, less what it was
before. `python -m tests.side_by_side bombs epoch` has only these attacks, `--list` names all of them.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

import pytest

from tests.side_by_side import aftermath
from tests.side_by_side.brokers import OURS, THEIRS, Side, both
from tests.side_by_side.cases import FULL, SMALL, Case, Size
from tests.side_by_side.catalogue import CASES
from tests.side_by_side.measure import Figures, attack
from tests.support.worst_batches import MIB

HEAD = (
    "| attack | broker | answer | after s | CPU s | longest wait of a neighbour, ms | memory, MiB | afterwards |\n"
    "| --- | --- | --- | ---: | ---: | ---: | ---: | --- |"
)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.side_by_side", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="ATTACK", help="only these, by name")
    parser.add_argument("--list", action="store_true", help="name the attacks, and do nothing")
    parser.add_argument("--only", choices=[OURS, THEIRS], help="one of the two brokers")
    parser.add_argument("--small", action="store_true", help="attacks of the size that `make test` has")
    given = parser.parse_args()
    unknown = set(given.cases) - {case.name for case in CASES}
    if unknown:
        parser.error(f"no such attack: {', '.join(sorted(unknown))}; --list names them")
    if given.list:
        for case in CASES:
            _say(f"{case.name:14} {case.title}")
        return
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # So that the brokers are stopped too.
    wanted = [case for case in CASES if not given.cases or case.name in given.cases]
    try:
        with tempfile.TemporaryDirectory(prefix="hostile-") as directory, both(Path(directory), given.only) as sides:
            table(wanted, sides, SMALL if given.small else FULL)
    except pytest.skip.Exception as missing:
        raise SystemExit(str(missing)) from None


def table(wanted: list[Case], sides: list[Side], size: Size) -> None:
    _say(HEAD)
    for case in wanted:
        for side in sides:
            _say(row(case, side, size))


def row(case: Case, side: Side, size: Size) -> str:
    """Attack one broker, and examine it afterwards."""
    broker = side.ready(fresh=case.spoils, on_a_small_disk=case.on_a_small_disk)
    before = aftermath.partitions_of(broker) if case.spoils else None
    found = attack(broker, case, size)
    made = aftermath.of(side, before)
    if case.spoils:
        side.end()
    return line(case, side, found, made)


def line(case: Case, side: Side, found: Figures, made: str) -> str:
    cells = (
        case.cell,
        side.name,
        found.outcome or "-",
        f"{found.took_s:.2f}",
        f"{found.cpu_s:.2f}",
        f"{found.waited_s * 1000:,.0f}",
        f"{found.grown_bytes / MIB:,.0f}",
        made,
    )
    return f"| {' | '.join(cells)} |"


def _say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main()
