"""What a run came to, as a few lines, as a file per seed, and as the table of all files."""

from __future__ import annotations

import json
from typing import Any, Final

from tests.cluster.chaos.outage_laws import Service
from tests.cluster.chaos.run import Outcome
from tests.cluster.chaos.schedule import Kind
from tests.cluster.chaos.transaction_laws import Tally
from tests.outside.needs import ROOT

FOLDER: Final = ROOT / "docs" / "evidence" / "chaos"
COMMAND: Final = "python -m tests.cluster.chaos --seeds {seed}-{seed} --minutes {minutes:g} --report"
_TOP: Final = """# Chaos: what it did, and what was found

Three brokers, a real ZooKeeper and twelve clients as processes, each group in a network namespace of its own; a fault
every eleven seconds, of the kinds that `tests/cluster/chaos/schedule.py` lists, and ZooKeeper away for a minute twice:
once with all brokers up, once with a broker killed in the middle. At the end every record and every file is held
against the laws of `tests/cluster/chaos/checker.py`. Each row is one run, its file beside this page has every fault of
it: `make chaos ARGS="--seeds 1-1 --minutes 10 --report"`. Rewritten by that command;
[findings](findings.md) says what was found.

Two idempotent producers and one that resends nothing write topics `t0` to `t3`; two transactional producers write
`t3`, `x0` and `x1`, some partitions of each in a transaction, commit two of three and abort the third; two members of
a group copy `x0` to `y0` with their offsets in the transactions; and one producer has an EndTxn of its last transaction
arrive in each second one, by hand, on an older connection. All readers read committed records, one of them begins anew
every few seconds. Eight of the faults are for transactions:

| faults | what is done |
| --- | --- |
| 2 | a transactional client is killed in the middle of a transaction; its successor begins when the fault ends |
| 1 | a transactional client is stopped in the middle, and continued when its successor is at work |
| 1 | the coordinator of an open transaction is killed |
| 1 | the coordinator of an open transaction is stopped for longer than its session with ZooKeeper |
| 2 | the leader of a partition with an open transaction is killed |
| 1 | what clients send to a coordinator, or what it responds, is held back for longer than clients wait: both they and what they send again arrive |

The laws of transactions: no reader is given a record that was aborted, is not committed yet or whose producer failed
(I5); a committed transaction is there as a whole, one that was not committed not at all, and nothing is committed for a
producer whose successor had begun (I6); a reader leaves nothing out (I7); the last stable offset does not fall in a
leader epoch (I8); the replicas of `__transaction_state` and `__consumer_offsets` are equal (I9, I13); each
transactional id commits again after the last fault (I14); the copy has each record once and in order, and the group's
offset says how many (I16); no transaction is open in the end (I17).

With `--secured` all connections are TLS with a SCRAM login, those between brokers, too; access control entries say what
the clients may do; a broker gets another certificate after each fault; and an unauthorized client sends ten requests a
second, without TLS, without a login, with a wrong password or name, as a user without rights, to write, to read, to
change the cluster, and in a broker's name: none is served (I18), and no record of it is in a log (I11).

*acknowledged* are all records that were, those of committed transactions included, which are *in transactions*;
*transactions* are committed, aborted and unknown ones, the last of which may be either, but whole; *between commits* is
the longest time between two commits of one transactional id. The rest is of the producers without transactions:
*unclear* are writes without an answer; *first ack* is the time from the end of a fault, restarts included, to the first
acknowledged record of each partition: median, 99th percentile, longest; *in sync* is the time from the last fault until
every replica was; *silence* is the longest time, during a fault and its heal, without an acknowledged record of some
partition: median and longest of the faults. *ZooKeeper away* is the minute without ZooKeeper in which all brokers are
up: the fewest acknowledged writes, reads that brought records and group commits of any partition in its second half,
each of which must not be 0, and the longest silence of a partition in all of it. *cores* is how many of the machine's
two all processes of the run kept busy on average, clients, ZooKeeper and starts of brokers included.

| {head} |
|{lines}
"""
_HEAD: Final = (
    "seed",
    "minutes",
    "faults",
    "offered",
    "acknowledged",
    "in transactions",
    "transactions",
    "between commits, s",
    "unclear",
    "read along",
    "first ack, s",
    "silence, s",
    "in sync, s",
    "ZooKeeper away",
    "cores",
    "violations",
)


def summary(outcome: Outcome) -> str:
    """For the terminal."""
    first = summary_of(outcome.first_acks)
    counts = (
        f"{len(outcome.slots)} faults, {outcome.offered:,} writes offered, {outcome.acknowledged:,} acknowledged, "
        f"{outcome.unclear:,} unclear, {outcome.refused:,} refused, {outcome.polled:,} read along, "
        f"{outcome.duplicates_allowed} allowed duplicates"
    )
    silence = _middle_and_most(outcome.silences)
    lines = [
        f"seed {outcome.seed}: {counts}",
        f"first acknowledgement after a heal: {first} s; silence {silence} s; in sync after {outcome.full:.1f} s",
        _transactions(outcome.transactions),
        f"{outcome.cores:.1f} cores busy on average",
        *(f"{count:,} requests {way} were refused" for way, count in sorted(outcome.refusals.items())),
        *(
            f"ZooKeeper {one.outage.way} for {one.outage.t1 - one.outage.t0:.1f} s: {_service(one)}"
            for one in outcome.outages
        ),
        *(f"client: {line}" for line in outcome.clients),
        *outcome.broken,
        f"{len(outcome.broken)} violations",
    ]
    return "\n".join(lines)


def _transactions(done: Tally) -> str:
    return (
        f"{done.committed:,} transactions committed, {done.aborted:,} aborted, {done.unknown:,} unknown; "
        f"{done.records:,} records committed, {done.copied:,} of them copies; {done.initialised} producers initialised, {done.late} late requests; "
        f"at most {done.wait:.1f} s between two commits of an id"
    )


def summary_of(seconds: list[float]) -> str:
    """Median, 99th percentile and longest."""
    if not seconds:
        return "-"
    chosen = (seconds[len(seconds) // 2], seconds[min(len(seconds) - 1, len(seconds) * 99 // 100)], seconds[-1])
    return " / ".join(f"{one:.1f}" for one in chosen)


def _middle_and_most(seconds: list[float]) -> str:
    ranked = sorted(seconds)
    return f"{ranked[len(ranked) // 2]:.1f} / {ranked[-1]:.1f}" if ranked else "-"


def _service(one: Service) -> str:
    hit = f"broker {one.outage.hit[0]} killed; " if one.outage.hit else ""
    counts = f"{one.writes:,} writes, {one.reads:,} reads, {one.commits:,} commits"
    return f"{hit}in its second half at least {counts} of each partition; silence {one.silence:.1f} s"


def _with_all_up(outages: list[Service]) -> str:
    """Of the outages with all brokers up, the one with the longest silence."""
    ranked = sorted((one for one in outages if not one.outage.hit), key=lambda one: one.silence)
    return (
        " / ".join(f"{one.writes:,}, {one.reads:,}, {one.commits:,}; {one.silence:.1f} s" for one in ranked[-1:]) or "-"
    )


def write(outcome: Outcome) -> None:
    """The run's file, and the table of all."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    row = _row(outcome)
    (FOLDER / _file_of(row)).write_text(json.dumps(row, indent=1) + "\n")
    rows = [json.loads(path.read_text()) for path in FOLDER.glob("*seed-*.json")]
    rows.sort(key=lambda row: (bool(row.get("refusals")), row["seed"]))
    (FOLDER / "README.md").write_text(_top() + "".join(_line(row) for row in rows))


def _top() -> str:
    return _TOP.format(head=" | ".join(_HEAD), lines=" --- |" * len(_HEAD))


def _file_of(row: dict[str, Any]) -> str:
    return f"{'secured-' if row.get('refusals') else ''}seed-{row['seed']}.json"


def _row(outcome: Outcome) -> dict[str, Any]:
    began = outcome.slots[0].t0 if outcome.slots else 0.0
    return {
        "seed": outcome.seed,
        "minutes": outcome.minutes,
        "command": COMMAND.format(seed=outcome.seed, minutes=outcome.minutes)
        + (" --secured" if outcome.refusals else ""),
        "offered": outcome.offered,
        "acknowledged": outcome.acknowledged,
        "unclear": outcome.unclear,
        "refused": outcome.refused,
        "read_along": outcome.polled,
        "allowed_duplicates": outcome.duplicates_allowed,
        "first_ack_seconds": summary_of(outcome.first_acks),
        "silence_seconds": _middle_and_most(outcome.silences),
        "in_sync_seconds": round(outcome.full, 1),
        "transactions": {**outcome.transactions._asdict(), "wait": round(outcome.transactions.wait, 1)},
        "cores": round(outcome.cores, 1),
        "zookeeper_away": _with_all_up(outcome.outages),
        "outages": [f"{one.outage.way}: {_service(one)}" for one in outcome.outages],
        "refusals": outcome.refusals,
        "client_incidents": len(outcome.clients),
        "violations": outcome.broken,
        "faults": [
            f"{one.t0 - began:.1f} s, {one.t1 - one.t0:.1f} s long, {silence:.1f} s of silence: "
            f"{Kind[one.kind].value}: {one.detail}"
            for one, silence in zip(outcome.slots, outcome.silences, strict=True)
        ],
    }


def _line(row: dict[str, Any]) -> str:
    done = row["transactions"]
    cells = (
        f"[{row['seed']}{', secured' if row.get('refusals') else ''}]({_file_of(row)})",
        f"{row['minutes']:g}",
        len(row["faults"]),
        f"{row['offered']:,}",
        f"{row['acknowledged']:,}",
        f"{done['records']:,}",
        f"{done['committed']:,} / {done['aborted']:,} / {done['unknown']:,}",
        f"{done['wait']:.1f}",
        f"{row['unclear']:,}",
        f"{row['read_along']:,}",
        row["first_ack_seconds"],
        row["silence_seconds"],
        row["in_sync_seconds"],
        row["zookeeper_away"],
        row["cores"],
        len(row["violations"]),
    )
    return "| " + " | ".join(str(cell) for cell in cells) + " |\n"
