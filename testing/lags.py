"""How far groups are behind."""

from __future__ import annotations

from collections.abc import Sequence

from sordini.testing.groups import Groups
from sordini.testing.own_client import KitError, OwnClient
from sordini.testing.partitions import END, START, Partitions


class Lags:
    """The records that groups have not committed."""

    def __init__(self, client: OwnClient, groups: Groups, partitions: Partitions) -> None:
        self._client = client
        self._groups = groups
        self._partitions = partitions

    def of(self, group: str, topic: str) -> int:
        """As `Kafka.lag`."""
        committed, starts = self._groups.committed(group), self._partitions.offsets(topic, START)
        return sum(
            max(0, end - committed.get((topic, partition), starts[partition]))
            for partition, end in self._partitions.offsets(topic, END).items()
        )

    def wait(self, group: str, topics: Sequence[str] | None, lag: int, timeout_s: float) -> None:
        """As `Kafka.wait_until_consumed`."""
        left: dict[str, int] = {}

        def consumed() -> bool | None:
            names = sorted({name for name, _ in self._groups.committed(group)}) if topics is None else topics
            left.clear()
            left.update({name: self.of(group, name) for name in names})
            return True if names and all(behind <= lag for behind in left.values()) else None

        try:
            self._client.wait(consumed, f"group {group!r} is at most {lag} records behind", timeout_s)
        except KitError as error:
            shown = (
                ", ".join(f"{behind} of topic {name!r}" for name, behind in left.items()) or "no offset is committed"
            )
            raise KitError(f"{error}; left are {shown}") from None
