"""All kinds of clients at work on topics of their own, and the judgement of what they saw."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Self

from tests.cluster.cluster import Cluster, Partition
from tests.cluster.history import History, broken_transactions, violations
from tests.cluster.loads import Reader, Transactor, Writer, read_all

SAFE = {"min.insync.replicas": "2"}


class Work:
    """A writer, a transactional one and readers of both kinds on two topics; leaving it judges what they saw."""

    def __init__(self, cluster: Cluster, name: str, assignment: list[list[int]]) -> None:
        self._cluster = cluster
        self.plain: list[Partition] = cluster.create(name, assignment, SAFE)
        self.money: list[Partition] = cluster.create(f"{name}-money", assignment, SAFE)
        self._history, self._sums = History(), History()
        bootstrap = cluster.bootstrap
        self.writer = Writer(bootstrap, self.plain, self._history)
        self.transactor = Transactor(bootstrap, self.money, self._sums, name)
        self._readers = [Reader(bootstrap, self.plain), Reader(bootstrap, self.money, "read_committed")]
        self._running = ExitStack()

    def __enter__(self) -> Self:
        for worker in (self.writer, self.transactor, *self._readers):
            self._running.enter_context(worker)
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        self._running.close()
        if kind is None:
            self._judge()

    def go_on(self, records: int = 60, transactions: int = 2) -> None:
        """Wait until so many more records of every partition, and transactions, are acknowledged."""
        before, settled = dict(self.writer.acknowledged), self.transactor.settled

        def enough() -> bool:
            assert not self.writer.has_failed
            assert not self.transactor.has_failed
            acknowledged = self.writer.acknowledged
            return (
                all(acknowledged[one] >= count + records for one, count in before.items())
                and self.transactor.settled >= settled + transactions
            )

        what = f"{records} more records beyond {before} and {transactions} more transactions beyond {settled}"
        self._cluster.wait(enough, f"{what} are acknowledged")

    @property
    def partitions(self) -> list[Partition]:
        return self.plain + self.money

    def _judge(self) -> None:
        plain, money = self._readers
        final = read_all(self._cluster.bootstrap, self.plain)
        assert violations(self._history, final, [plain.seen]) == []
        committed = read_all(self._cluster.bootstrap, self.money, "read_committed")
        assert broken_transactions(self._sums, committed, [money.seen]) == []
        assert self._history.acknowledged
        assert any(self._sums.transactions)
