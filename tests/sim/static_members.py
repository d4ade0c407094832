"""Static members of the consumer protocol (KIP-848): what happened to them, and verdicts over it.

A process with an instance id that ends with epoch -2 is away: until its session ends, the next process with that instance
id takes its place, under another member id.

  K5  a static member that is back within its session finds its partitions, which no other member had meanwhile, and by
      itself in a group it is back in the same epoch; what its predecessor commits is refused from then on;
  K6  an instance id is not taken from a member that is alive, nor withheld from a process after it was released, and no
      member is fenced that no other process succeeded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator
from typing import NamedTuple, Protocol

from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition

MARGIN_S = 0.5
"""Above the delay of a link to the broker without faults."""


class Holder(NamedTuple):
    """The process that has an instance id, as far as its clients know."""

    member_id: str
    last_contact: float
    """When its last request was sent that was answered."""
    epoch: int = 0
    partitions: frozenset[TopicPartition] = frozenset()
    is_certain: bool = False
    """Whether the next process finds just that: nothing is under way, has to be given up, or is given up by leaving."""
    left: float | None = None
    """When its departure was answered; None: it has not left."""
    may_have_left: bool = False
    """A departure was sent, or another process has claimed the instance id without an answer."""


class Claim(NamedTuple):
    """A process sent its first heartbeat with an instance id, and got an answer."""

    group_id: str
    instance_id: str
    member_id: str
    began: float
    ended: float
    code: ErrorCode
    epoch: int
    partitions: frozenset[TopicPartition]
    former: Holder | None
    """None: the first process."""


class FencedInstance(NamedTuple):
    """A member was answered FENCED_INSTANCE_ID."""

    group_id: str
    member_id: str
    ended: float
    holder: Holder | None
    """The process that has the instance id, as far as is known."""


class Outlived(NamedTuple):
    """A process that has a successor sent a heartbeat, and was answered as a member."""

    group_id: str
    member_id: str
    ended: float
    holder: Holder


@dataclasses.dataclass(slots=True)
class StaticHistory:
    """Each list is in the order of time."""

    claims: list[Claim] = dataclasses.field(default_factory=list)
    fenced: list[FencedInstance] = dataclasses.field(default_factory=list)
    outlived: list[Outlived] = dataclasses.field(default_factory=list)
    lone_groups: set[str] = dataclasses.field(default_factory=set)
    """Groups of one member."""


class _Given(Protocol):
    @property
    def group_id(self) -> str: ...
    @property
    def partition(self) -> TopicPartition: ...
    @property
    def member_id(self) -> str: ...
    @property
    def began(self) -> float: ...


class _Committed(_Given, Protocol):
    @property
    def note(self) -> str: ...
    @property
    def ended(self) -> float: ...
    @property
    def outcome(self) -> str: ...


IsInterrupted = Callable[[str, float, float], bool]
"""Whether what a group wrote may have been lost between two moments."""


def check_static_members(
    history: StaticHistory,
    tenures: Iterable[_Given],
    commits: Iterable[_Committed],
    session_s: float,
    is_interrupted: IsInterrupted,
) -> Iterator[str]:
    """All findings of all checkers of static members."""
    tenures, commits = list(tenures), list(commits)
    for claim in history.claims:
        former = claim.former
        if former is None or former.member_id == claim.member_id:
            continue
        if is_interrupted(claim.group_id, former.last_contact, claim.ended):
            continue
        if claim.code == ErrorCode.UNRELEASED_INSTANCE_ID and former.left is not None:
            yield f"K6 {_text(claim)} was refused, and {former.member_id} had left at {former.left:.3f}"
        if claim.code:
            continue
        is_in_session = claim.ended < former.last_contact + session_s - MARGIN_S
        if is_in_session and former.is_certain and not former.may_have_left:
            yield f"K6 {_text(claim)} was granted, and {former.member_id} was alive at {former.last_contact:.3f}"
        if is_in_session and former.left is not None and former.is_certain:
            yield from _not_kept(history, claim, former, tenures)
        yield from _committed_by_former(claim, former, commits, is_interrupted)
    yield from _fenced_alone(history, is_interrupted)
    for late in history.outlived:
        if not is_interrupted(late.group_id, late.holder.last_contact, late.ended):
            yield f"K6 {late.member_id} had an answer at {late.ended:.3f}, and {late.holder.member_id} has its instance id"


def _not_kept(history: StaticHistory, claim: Claim, former: Holder, tenures: Iterable[_Given]) -> Iterator[str]:
    for tenure in tenures:
        is_other = tenure.group_id == claim.group_id and tenure.member_id not in (former.member_id, claim.member_id)
        if is_other and tenure.partition in former.partitions and former.last_contact < tenure.began < claim.ended:
            yield (
                f"K5 {tenure.partition} of {former.member_id} was given to {tenure.member_id} at {tenure.began:.3f}, "
                f"and {_text(claim)} was in time"
            )
    if claim.epoch == former.epoch and not former.partitions <= claim.partitions:
        lost = sorted(former.partitions - claim.partitions)
        yield f"K5 {_text(claim)} came back to epoch {claim.epoch} without {', '.join(map(str, lost))}"
    is_grown = len(claim.partitions) > len(former.partitions)
    if claim.group_id in history.lone_groups and claim.epoch != former.epoch and not is_grown:
        yield f"K5 {_text(claim)} came back to epoch {claim.epoch}, and had left in {former.epoch}"


def _committed_by_former(
    claim: Claim, former: Holder, commits: Iterable[_Committed], is_interrupted: IsInterrupted
) -> Iterator[str]:
    for commit in commits:
        is_of_former = commit.group_id == claim.group_id and commit.member_id == former.member_id
        is_late = is_of_former and commit.outcome == "ok" and commit.began > claim.ended
        if is_late and not is_interrupted(claim.group_id, claim.began, commit.ended):
            yield f"K5 {commit.note} of {former.member_id} was taken at {commit.ended:.3f}, after {_text(claim)}"


def _fenced_alone(history: StaticHistory, is_interrupted: IsInterrupted) -> Iterator[str]:
    for fenced in history.fenced:
        holder = fenced.holder
        if holder is None or holder.member_id != fenced.member_id or holder.may_have_left:
            continue
        if not is_interrupted(fenced.group_id, holder.last_contact, fenced.ended):
            yield f"K6 {fenced.member_id} was fenced at {fenced.ended:.3f}, and no other process was let in"


def _text(claim: Claim) -> str:
    return f"the claim of {claim.instance_id} by {claim.member_id} at {claim.ended:.3f}"
