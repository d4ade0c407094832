"""Laws of a transactional id's machine for any events in any order.

Clients of transaction.version 2 come between those of 0, in a cluster whose records have version 1.

The simulation (`tests/support/transactions_world.py`) checks after every step that the invariants hold, that every
request is answered once, that the committed records are the transaction, and that markers are those of a decision.
"""

from __future__ import annotations

from itertools import pairwise

from hypothesis import example, given, settings
from hypothesis import strategies as st

from sordini.broker.requests.features import RAISES_EPOCH
from sordini.broker.transactions.machine.events import ProducerIdentity, TransactionLimits
from sordini.broker.transactions.machine.state import VALID_BEFORE, TransactionState
from sordini.broker.transactions.records import EMPTY_STATE, NO_PRODUCER_ID, TransactionValue
from sordini.protocol.errors import ErrorCode
from sordini.protocol.types import TopicPartition
from tests.support.parts import examples
from tests.support.transactions_world import World

CLIENTS = ("A", "B", "C")
PARTITIONS = tuple(TopicPartition("orders", index) for index in range(3))
PREPARED = (TransactionState.PREPARE_COMMIT, TransactionState.PREPARE_ABORT)
CLIENT = st.sampled_from(CLIENTS)
STEP = st.one_of(
    st.tuples(st.sampled_from(("init", "raise", "add", "add", "add", "commit", "commit", "abort")), CLIENT),
    st.tuples(st.just("wait"), st.sampled_from((1, 900, 30_000, 61_000))),
    st.tuples(st.sampled_from(("log", "markers")), st.sampled_from(("waits", "works", "answers", "fails"))),
    st.tuples(st.sampled_from(("restart", "expire")), st.just("")),
)
STEP_OF_2 = st.one_of(
    STEP,
    st.tuples(st.just("speak"), st.sampled_from((0, RAISES_EPOCH, RAISES_EPOCH))),
    st.tuples(st.sampled_from(("late commit", "late abort")), CLIENT),
)
FIRST_EPOCHS = st.sampled_from((None, 0, 32_764, 32_766, 32_767))


class Judge:
    """A simulated transactional id, and what its clients were told."""

    def __init__(self, first_epoch: int | None, *, is_exclusive: bool) -> None:
        self.world = World(limits=TransactionLimits(expiration_ms=100_000), is_exclusive=is_exclusive)
        self.world.client_version = RAISES_EPOCH if is_exclusive else 0
        if first_epoch is not None:
            value = TransactionValue(1000, first_epoch, 60_000, EMPTY_STATE, (), self.world.now_ms)
            self.world.history.append(value)
            self.world.load(value)
        self.holders: dict[ProducerIdentity, str] = {}

    def carry_out(self, verb: str, what: str | int) -> None:
        world = self.world
        match verb, what:
            case "init", str(client):
                world.init(client)
            case "raise", str(client):
                world.init(client, keeps=True)
            case "add", str(client):
                world.add(client, PARTITIONS[world.requests % 3])
            case (("commit" | "abort"), str(client)):
                self.end(client, commits=verb == "commit")
            case (("late commit" | "late abort"), str(client)):
                self.end_late(client, commits=verb == "late commit")
            case "speak", int(version):
                world.client_version = version
            case "wait", int(duration):
                world.wait(duration)
            case "log", str(how):
                self.log(how)
            case "markers", str(how):
                self.markers(how)
            case "restart", _:
                world.restart()
            case _:
                world.expire()
        self.note_holders()

    def end(self, client: str, *, commits: bool) -> None:
        """A decision that is answered is in the log."""
        world = self.world
        producer, answered = world.producer(client), len(world.errors)
        world.end(client, commits=commits)
        if world.errors[answered:] == [ErrorCode.NONE] and not world.log_waits:
            states = {TransactionState.PREPARE_COMMIT} if commits else {TransactionState.PREPARE_ABORT}
            decided = [value for value in world.history if value is not None and value.state in PREPARED]
            assert decided[-1].producer_id == producer.producer_id
            assert decided[-1].state in states
            if world.client_version:
                assert decided[-1].producer_epoch == producer.epoch + 1

    def end_late(self, client: str, *, commits: bool) -> None:
        """An end with an epoch that its producer has replaced changes nothing: it is late, or repeated."""
        world = self.world
        former = [one for one in world.former.get(client, ()) if one != world.producer(client)]
        if not former or not world.client_version:
            return
        producer = former[world.requests % len(former)]
        before, count = world.transaction, len(world.history)
        world.end(client, commits=commits, producer=producer)
        assert world.transaction == before
        assert len(world.history) == count
        if world.errors[-1] is not ErrorCode.NONE:
            return
        # Repeated: the answer is what the producer has now.
        assert world.producer(client) == ProducerIdentity(before.producer_id, before.producer_epoch)

    def log(self, how: str) -> None:
        if how in ("waits", "works"):
            self.world.log_waits = how == "waits"
        elif self.world.write is not None:
            self.world.log_answers(None if how == "answers" else ErrorCode.COORDINATOR_NOT_AVAILABLE)

    def markers(self, how: str) -> None:
        if how in ("waits", "works"):
            self.world.markers_wait = how == "waits"
        elif self.world.markers is not None:
            self.world.write_markers()

    def note_holders(self) -> None:
        """No two clients have the same id with the same epoch."""
        for client, producer in self.world.producers.items():
            assert self.holders.setdefault(producer, client) == client

    def settle(self) -> None:
        """All works from now on: every request is answered, and a decided transaction is completed."""
        world = self.world
        world.log_waits = world.markers_wait = False
        if world.write is not None:
            world.log_answers()
        if world.markers is not None:
            world.write_markers()
        world.wait(120_000)
        assert not world.waiting
        assert world.write is None
        assert world.transaction.state.is_idle


@settings(max_examples=examples(400))
@given(FIRST_EPOCHS, st.lists(STEP, max_size=50))
@example(None, [("init", "A"), ("add", "A"), ("log", "waits"), ("commit", "A"), ("restart", ""), ("abort", "A")])
@example(32_766, [("init", "A"), ("add", "A"), ("init", "B"), ("init", "B"), ("raise", "A")])
def test_whatever_happens_the_records_are_the_state_and_each_transaction_ends_one_way(
    first_epoch: int | None, steps: list[tuple[str, str | int]]
) -> None:
    run(Judge(first_epoch, is_exclusive=False), steps)


@settings(max_examples=examples(600))
@given(FIRST_EPOCHS, st.lists(STEP_OF_2, max_size=60))
@example(32_765, [("init", "A"), ("add", "A"), ("commit", "A"), ("late commit", "A"), ("add", "A"), ("abort", "A")])
@example(0, [("init", "A"), ("add", "A"), ("commit", "A"), ("restart", ""), ("late commit", "A"), ("late abort", "A")])
@example(32_764, [("init", "A"), ("add", "A"), ("wait", 61_000), ("abort", "A"), ("commit", "A")])
@example(32_765, [("init", "A"), ("add", "A"), ("wait", 61_000), ("abort", "A"), ("commit", "A")])
@example(0, [("init", "A"), ("speak", 0), ("init", "B"), ("add", "B"), ("commit", "B"), ("speak", 2), ("commit", "A")])
@example(None, [("init", "A"), ("abort", "A"), ("speak", 0), ("abort", "A")])
@example(
    32_765, [("init", "A"), ("add", "A"), ("markers", "waits"), ("commit", "A"), ("add", "A"), ("markers", "answers")]
)
def test_epochs_rise_with_each_end_and_an_end_of_an_earlier_epoch_changes_nothing(
    first_epoch: int | None, steps: list[tuple[str, str | int]]
) -> None:
    run(Judge(first_epoch, is_exclusive=True), steps)


def run(judge: Judge, steps: list[tuple[str, str | int]]) -> None:
    for verb, what in steps:
        judge.carry_out(verb, what)
    judge.settle()
    check_history(judge.world.history)


def check_history(history: list[TransactionValue | None]) -> None:
    """The committed records in order: each follows from the one before."""
    producer_ids = [value.producer_id for value in history if value is not None]
    assert producer_ids == sorted(producer_ids), "an earlier producer id came back"
    for before, after in pairwise(history):
        if before is None or after is None:
            assert before is not after, "a tombstone of nothing"
            continue
        assert TransactionState(before.state) in VALID_BEFORE[TransactionState(after.state)]
        if before.producer_id == after.producer_id:
            assert before.producer_epoch <= after.producer_epoch
        if TransactionState(after.state) in PREPARED:
            assert after.partitions == before.partitions
            if after.client_version >= RAISES_EPOCH:
                assert after.producer_epoch > before.producer_epoch
        if TransactionState(before.state) in PREPARED:
            kept = before.producer_id, before.producer_epoch
            is_replaced = before.next_producer_id != NO_PRODUCER_ID
            assert (after.producer_id, after.producer_epoch) == ((before.next_producer_id, 0) if is_replaced else kept)
        if after.state == TransactionState.ONGOING == before.state:
            assert set(before.partitions) < set(after.partitions)
