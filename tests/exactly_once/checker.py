"""Whether a consume-transform-produce program did its work exactly once. Pure: evidence in, broken laws out.

A lane is what has an order: a partition for a program that copies records, a word for one that counts words. Each output
names the input it was made of; where the program is ours it also names its transaction, and how many outputs that has.

The laws, each with the letter that its violations begin with:

  E1  every committed input has an output (none is skipped);
  E2  it has no second one;
  E3  there is no output of anything else: an aborted input is never read;
  E4  outputs of a lane have the order of their inputs;
  E5  a transaction is there with all its outputs or with none (none is torn);
  E6  nothing of a transaction that was aborted is ever shown to a reader of committed records;
  E7  a transaction whose commit was answered is there;
  E8  what a reader of committed records was shown once is in the end where it was, and nothing before it is missing;
  E9  the group's offsets are behind the last input of each partition;
  E10 no transaction is left open: the last stable offset is the end of the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from enum import Enum
from itertools import pairwise
from typing import NamedTuple

_SHOWN_MAX = 3
"""Examples in one line."""


class Output(NamedTuple):
    """One record of the sink, as a reader of committed records got it."""

    offset: int
    of: str
    by: str = ""
    """The transaction; empty where the program does not say."""
    size: int = 0
    """How many outputs the transaction has on all lanes."""


class Ending(Enum):
    """What the program was answered when it ended a transaction; of others nothing is known."""

    COMMITTED = "committed"
    ABORTED = "aborted"


Lanes = Mapping[str, Sequence[Output]]


class Evidence(NamedTuple):
    """All that is known at the end of a run."""

    inputs: Mapping[str, Sequence[str]]
    """By lane, what is committed in the source, in its order."""
    outputs: Lanes
    """What is committed in the sink."""
    watched: Sequence[Lanes] = ()
    """What readers of committed records saw meanwhile, each from the beginning on."""
    endings: Mapping[str, Ending] = {}
    unread: Mapping[str, int] = {}
    """By lane, how many inputs are behind the group's offset: the program would read them again."""
    open_lanes: Sequence[str] = ()
    """Where the last stable offset is before the end of the log."""


def violations(evidence: Evidence) -> list[str]:
    """Every broken law as one line."""
    return [
        *_skipped_and_doubled(evidence),
        *_disordered(evidence),
        *_torn(evidence),
        *_aborted_but_shown(evidence),
        *_committed_but_missing(evidence),
        *_changed(evidence),
        *(f"E9 lane {lane}: {count} inputs would be read again" for lane, count in evidence.unread.items() if count),
        *(f"E10 lane {lane} has an open transaction" for lane in evidence.open_lanes),
    ]


def _skipped_and_doubled(evidence: Evidence) -> list[str]:
    expected = {one for lane in evidence.inputs.values() for one in lane}
    found = Counter(one.of for lane in evidence.outputs.values() for one in lane)
    return [
        *_line("E1 inputs without an output", expected - found.keys()),
        *_line("E2 inputs with several outputs", (one for one, times in found.items() if times > 1)),
        *_line("E3 outputs of what is not committed in the source", found.keys() - expected),
    ]


def _disordered(evidence: Evidence) -> list[str]:
    problems = []
    for lane, outputs in evidence.outputs.items():
        place = {one: number for number, one in enumerate(evidence.inputs.get(lane, ()))}
        known = [one for one in outputs if one.of in place]
        for one, following in pairwise(known):
            if place[following.of] < place[one.of]:
                problems.append(f"E4 lane {lane}: {following.of} at {following.offset} comes after {one.of}")
        strangers = [one.of for one in outputs if one.of not in place]
        problems += _line(f"E4 lane {lane} has outputs of other lanes", strangers)
    return problems


def _torn(evidence: Evidence) -> list[str]:
    found: Counter[str] = Counter()
    sizes: dict[str, int] = {}
    for one in _all(evidence.outputs):
        if one.by:
            found[one.by] += 1
            sizes[one.by] = one.size
    return [
        f"E5 transaction {name} has {count} of {sizes[name]} outputs"
        for name, count in found.items()
        if count != sizes[name]
    ]


def _aborted_but_shown(evidence: Evidence) -> list[str]:
    shown = {one.by for lanes in (evidence.outputs, *evidence.watched) for one in _all(lanes)}
    return _line("E6 aborted transactions are shown", _ended(evidence, Ending.ABORTED) & shown)


def _committed_but_missing(evidence: Evidence) -> list[str]:
    there = {one.by for one in _all(evidence.outputs)}
    return _line("E7 committed transactions are missing", _ended(evidence, Ending.COMMITTED) - there)


def _changed(evidence: Evidence) -> list[str]:
    """A reader from the beginning on has seen a prefix of what is there in the end."""
    problems = []
    for number, lanes in enumerate(evidence.watched):
        for lane, seen in lanes.items():
            final = evidence.outputs.get(lane, ())[: len(seen)]
            if list(seen) != list(final):
                differing = next((pair for pair in zip(seen, final, strict=False) if pair[0] != pair[1]), None)
                problems.append(f"E8 reader {number} of lane {lane} saw {len(seen)} outputs, differing at {differing}")
    return problems


def _all(lanes: Lanes) -> Iterable[Output]:
    return (one for lane in lanes.values() for one in lane)


def _ended(evidence: Evidence, ending: Ending) -> set[str]:
    return {name for name, one in evidence.endings.items() if one is ending}


def _line(law: str, those: Iterable[str]) -> list[str]:
    found = sorted(those)
    return [f"{law}: {len(found)}, such as {found[:_SHOWN_MAX]}"] if found else []
