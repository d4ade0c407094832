"""docs/rolling-restart.svg, the picture of docs/consumer-groups.md: one rolling restart under both protocols of groups.

    .venv/bin/python -m scripts.rolling_restart_picture           records it anew, and draws it: a minute
    .venv/bin/python -m scripts.rolling_restart_picture --draw    draws what docs/rolling-restart.json has

A broker of its own runs, and four consumers of librdkafka in one group. Two of them are stopped and started again, one
after the other; what is drawn is what `sordini groups history --json` says afterwards. A partition of a consumer group
has no owner from its release until it is given to a member, which is in the history. In a classic group with the
assignor `range` all members stop: a partition has none from its owner's JoinGroup, or from its leaving, until the
rebalance has ended.
"""

from __future__ import annotations

import html
import json
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from statistics import median
from typing import Any, Final, NamedTuple

from tests.outside.processes import SordiniProcess

ROOT = Path(__file__).resolve().parents[1]
RECORDED = ROOT / "docs" / "rolling-restart.json"
PICTURE = ROOT / "docs" / "rolling-restart.svg"

PROTOCOLS: Final = ("classic", "consumer")
MEMBERS, RESTARTED, PARTITIONS = 4, 2, 12
HEARTBEAT_MS: Final = 1_000
"""Of both protocols, so that their members learn of a change equally soon."""
DOWN_S, BETWEEN_S, BEFORE_S = 2.0, 5.0, 1.0
SETTINGS: Final[dict[str, object]] = {
    "group.consumer.heartbeat.interval.ms": HEARTBEAT_MS,
    "group.consumer.min.heartbeat.interval.ms": HEARTBEAT_MS,
    "offsets.topic.num.partitions": 1,
}
START_S_MAX: Final = 60

TITLES: Final = {
    "classic": "classic protocol, assignor range: each change stops all members",
    "consumer": "consumer protocol (KIP-848): only partitions that move pause",
}
LEFT_PX, RIGHT_PX, WIDTH_PX, ROW_PX, HEAD_PX, PANEL_GAP_PX = 70, 120, 900, 15, 46, 34
COLOURS: Final = ("#4c78a8", "#72b7b2", "#b6992d", "#9d76b0")
GAP, TEXT, PALE, PAPER = "#d62728", "#24292f", "#8c959f", "#ffffff"


class Span(NamedTuple):
    """A partition has one owner, or None, from `began_ms` to `ended_ms` (wall clock)."""

    owner: str | None
    began_ms: int
    ended_ms: int


class Run(NamedTuple):
    """One rolling restart: when it began and ended, and the history of the group after it."""

    began_ms: int
    ended_ms: int
    history: dict[str, Any]


# What a history says.


def spans(run: Run) -> dict[int, list[Span]]:
    """The owners of each partition during a run, by client id."""
    names = {
        member["member_id"]: member["client_id"]
        for row in run.history["rebalances"]
        for member in (*row["members"], *row["causes"])
    }
    owners: dict[int, str | None] = {}
    changes: dict[int, list[tuple[int, str | None]]] = {}
    for row in run.history["rebalances"]:
        for partition, at_ms, owner in _changes(row, owners):
            changes.setdefault(partition, []).append((at_ms, owner))
        owners.update((move["partition"], move["to"]) for move in row["moves"])
    return {
        partition: [Span(None if owner is None else names[owner], *times) for owner, *times in _clipped(found, run)]
        for partition, found in sorted(changes.items())
    }


def _changes(row: Mapping[str, Any], owners: Mapping[int, str | None]) -> Iterator[tuple[int, int, str | None]]:
    """Partition, time, and the owner from then on."""
    if row["protocol"] == "consumer":
        for move in row["moves"]:
            released_ms = None if move["released"] is None else _ms(move["released"])
            if released_ms is not None:
                yield move["partition"], released_ms, None
            if move["to"] is not None:
                yield (
                    move["partition"],
                    (released_ms or _ms(row["ended"])) + (move["without_owner_ms"] or 0),
                    move["to"],
                )
        return
    ended_ms = _ms(row["ended"])
    stopped_ms = {member["member_id"]: ended_ms - (member["waited_ms"] or 0) for member in row["members"]}
    gone_ms = {cause["member_id"]: _ms(cause["at"]) for cause in reversed(row["causes"])}
    after = {**owners, **{move["partition"]: move["to"] for move in row["moves"]}}
    for partition, owner in after.items():
        before = owners.get(partition)
        if before is not None:
            yield partition, stopped_ms.get(before, gone_ms.get(before, _ms(row["began"]))), None
        yield partition, ended_ms, owner


def _clipped(changes: list[tuple[int, str | None]], run: Run) -> Iterator[tuple[str | None, int, int]]:
    ends = [*(at_ms for at_ms, _ in changes[1:]), run.ended_ms]
    for (at_ms, owner), end_ms in zip(changes, ends, strict=True):
        if end_ms > run.began_ms and at_ms < run.ended_ms and end_ms > at_ms:
            yield owner, max(at_ms, run.began_ms), min(end_ms, run.ended_ms)


def without_owner_ms(run: Run) -> dict[int, int]:
    """How long each partition had no owner in the run."""
    return {
        partition: sum(span.ended_ms - span.began_ms for span in found if span.owner is None)
        for partition, found in spans(run).items()
    }


def figures(run: Run) -> tuple[float, float]:
    """The median and the worst partition's time without an owner, in seconds."""
    found = without_owner_ms(run).values()
    return median(found) / 1000, max(found) / 1000


def _ms(text: str) -> int:
    return round(datetime.fromisoformat(text).timestamp() * 1000)


# The picture.


def picture(runs: Mapping[str, Run]) -> str:
    """Both runs one above the other, with the same scale of time."""
    length_ms = max(run.ended_ms - run.began_ms for run in runs.values())
    panel_px = HEAD_PX + PARTITIONS * ROW_PX + PANEL_GAP_PX
    height = panel_px * len(runs) + 30
    drawn = [
        line
        for number, (protocol, run) in enumerate(runs.items())
        for line in _panel(protocol, run, length_ms, number * panel_px)
    ]
    drawn += _legend(height - 16)
    body = "\n".join(drawn)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height}" width="{WIDTH_PX}" '
        f'height="{height}" font-family="sans-serif" font-size="12">\n'
        f'<rect width="{WIDTH_PX}" height="{height}" fill="{PAPER}"/>\n{body}\n</svg>\n'
    )


def _panel(protocol: str, run: Run, length_ms: int, top: float) -> Iterator[str]:
    scale = (WIDTH_PX - LEFT_PX - RIGHT_PX) / length_ms
    first, bottom = top + HEAD_PX, top + HEAD_PX + PARTITIONS * ROW_PX
    middle, worst = figures(run)
    yield _text(LEFT_PX, top + 20, TITLES[protocol], is_bold=True)
    yield _text(LEFT_PX, top + 36, f"without an owner: median {middle:.2f} s a partition, worst {worst:.2f} s", PALE)
    totals = without_owner_ms(run)
    for number, (partition, found) in enumerate(spans(run).items()):
        y = first + number * ROW_PX
        yield _text(LEFT_PX - 8, y + 11, f"orders:{partition}", anchor="end")
        for span in found:
            colour = GAP if span.owner is None else COLOURS[int(span.owner[-1]) - 1]
            x, width = LEFT_PX + (span.began_ms - run.began_ms) * scale, (span.ended_ms - span.began_ms) * scale
            yield f'<rect x="{x:.1f}" y="{y + 1:.1f}" width="{width:.1f}" height="{ROW_PX - 2}" fill="{colour}"/>'
        yield _text(WIDTH_PX - RIGHT_PX + 8, y + 11, f"{totals[partition] / 1000:.2f} s", PALE)
    for second in range(0, length_ms // 1000 + 1, 2):
        x = LEFT_PX + second * 1000 * scale
        yield f'<line x1="{x:.1f}" y1="{bottom}" x2="{x:.1f}" y2="{bottom + 4}" stroke="{PALE}"/>'
        yield _text(x, bottom + 16, f"{second} s", PALE, anchor="middle")


def _legend(y: float) -> Iterator[str]:
    rows = [(f"worker-{number + 1}", colour) for number, colour in enumerate(COLOURS)] + [("no owner", GAP)]
    for number, (name, colour) in enumerate(rows):
        x = LEFT_PX + number * 110
        yield f'<rect x="{x}" y="{y - 10}" width="12" height="12" fill="{colour}"/>'
        yield _text(x + 18, y, name)


def _text(x: float, y: float, text: str, colour: str = TEXT, *, anchor: str = "start", is_bold: bool = False) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    return f'<text x="{x:.1f}" y="{y:.1f}" fill="{colour}" text-anchor="{anchor}"{weight}>{html.escape(text)}</text>'


# The recording.


class _Worker:
    """A consumer in a thread, until it is stopped."""

    def __init__(self, bootstrap: str, protocol: str, name: str) -> None:
        from confluent_kafka import Consumer

        own = {"heartbeat.interval.ms": HEARTBEAT_MS, "partition.assignment.strategy": "range"}
        self._consumer = Consumer(
            {
                "bootstrap.servers": bootstrap,
                "group.id": protocol,
                "group.protocol": protocol,
                "client.id": name,
                **(own if protocol == "classic" else {}),
            }
        )
        self._consumer.subscribe(["orders"])
        self.owned = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def stop(self) -> None:
        """It leaves the group."""
        self._ended.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._ended.is_set():
            self._consumer.poll(0.05)
            self.owned = len(self._consumer.assignment())
        self._consumer.close()


def record(broker: SordiniProcess, protocol: str) -> Run:
    """Restart some members of a group, one after the other."""
    names = [f"worker-{number + 1}" for number in range(MEMBERS)]
    workers = {name: _Worker(broker.bootstrap, protocol, name) for name in names}
    try:
        _await_shared(workers)
        time.sleep(BEFORE_S)
        began_ms = round(time.time() * 1000)
        time.sleep(BEFORE_S)
        for name in names[:RESTARTED]:
            workers.pop(name).stop()
            time.sleep(DOWN_S)
            workers[name] = _Worker(broker.bootstrap, protocol, name)
            time.sleep(BETWEEN_S)
        _await_shared(workers)
        time.sleep(BEFORE_S)
        ended_ms = round(time.time() * 1000)
        return Run(began_ms, ended_ms, json.loads(_sordini(broker, "groups", "history", protocol, "--json")))
    finally:
        for worker in workers.values():
            worker.stop()


def _await_shared(workers: Mapping[str, _Worker]) -> None:
    end = time.monotonic() + START_S_MAX
    while [worker.owned for worker in workers.values()] != [PARTITIONS // MEMBERS] * MEMBERS:
        if time.monotonic() > end:
            raise TimeoutError(f"the members have not shared the partitions in {START_S_MAX} s")
        time.sleep(0.05)


def _sordini(broker: SordiniProcess, *words: str) -> str:
    command = [sys.executable, "-m", "sordini", *words, "--bootstrap", broker.bootstrap]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout  # noqa: S603 - our own command.


def main() -> None:
    if sys.argv[1:] != ["--draw"]:
        with tempfile.TemporaryDirectory(prefix="rolling-") as name, SordiniProcess(Path(name), SETTINGS) as broker:
            _sordini(broker, "topics", "create", "orders", "--partitions", str(PARTITIONS))
            runs = {protocol: record(broker, protocol)._asdict() for protocol in PROTOCOLS}
        RECORDED.write_text(json.dumps(runs, indent=1) + "\n", encoding="utf-8")
    runs_read = {protocol: Run(**run) for protocol, run in json.loads(RECORDED.read_text(encoding="utf-8")).items()}
    PICTURE.write_text(picture(runs_read), encoding="utf-8")
    for protocol, run in runs_read.items():
        middle, worst = figures(run)
        print(f"{protocol}: without an owner, median {middle:.2f} s a partition, worst {worst:.2f} s")


if __name__ == "__main__":
    main()
