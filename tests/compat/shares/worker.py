"""A worker of a share group in a process of its own: what it acquires and acknowledges, a line of JSON for each.

    python -m tests.compat.shares.worker PORT GROUP TOPIC NUMBER

The value of a record is its number, and says what becomes of it (`fate_of`). Times are in seconds by the machine's
monotonic clock, which all processes share: `sent` before a request, `at` behind its answer. The worker is to be killed;
when the broker is, it connects again, as another member.
"""

from __future__ import annotations

import json
import random
import sys
import time
from enum import Enum
from typing import Any, Final

from sordini.protocol.records.returned_records import returned_batches
from tests.support.share_group import (
    ACCEPT,
    REJECT,
    RELEASE,
    RENEW,
    NotCoordinated,
    ShareMember,
    ShareTopic,
    find_topic,
)
from tests.support.wire_client import Client

CYCLE: Final = 50
RECORDS_MAX: Final = 10
BEAT_S: Final = 1.0
PAUSE_S: Final = 0.1
PATIENCE_S: Final = 10.0


class Fate(Enum):
    """What workers do with a record."""

    RELEASED = "always released"
    REJECTED = "rejected"
    SLOW = "held beyond its lock, then accepted"
    RENEWED = "renewed, then accepted"
    ACCEPTED = "accepted"


def fate_of(number: int) -> Fate:
    """By the number of a record."""
    fates = {0: Fate.RELEASED, 1: Fate.REJECTED, 2: Fate.SLOW, 3: Fate.RENEWED}
    return fates.get(number % CYCLE, Fate.ACCEPTED)


def say(**fields: Any) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")  # In one piece: a worker is killed between two of them.
    sys.stdout.flush()


class Worker:
    """One membership, until the connection breaks."""

    def __init__(self, port: int, topic: ShareTopic, chance: random.Random) -> None:
        self._client = Client("127.0.0.1", port, PATIENCE_S)
        self._member = ShareMember(self._client, topic)
        self._chance = chance
        self._beat_s = 0.0

    def run(self) -> None:
        """Raises OSError, AssertionError."""
        self._member.join(PATIENCE_S)
        said: list[tuple[int, int, int]] = []
        while True:
            self._beat()
            said = self._round(said)

    def _beat(self) -> None:
        if time.monotonic() - self._beat_s > BEAT_S:
            self._beat_s = time.monotonic()
            self._member.beat()

    def _round(self, said: list[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
        """One fetch, with what is to be said of the one before; some is said at once instead."""
        sent, member = time.monotonic(), self._member.member_id
        for first, last, kind in said:
            say(what="says", member=member, first=first, last=last, kind=kind, sent=sent)
        answer = self._member.fetch(RECORDS_MAX, wait_ms=200, said=said, is_by_records=self._chance.random() < 0.5)
        at = time.monotonic()
        for first, last, kind in said:
            say(what="said", member=member, first=first, last=last, kind=kind, code=answer.code, sent=sent, at=at)
        numbers = {
            record.offset: int(record.value or b"0")
            for batch in returned_batches(answer.records, 0, ())
            for record in batch.records
        }
        later = []
        for held in answer.acquired:
            lock_s = answer.lock_ms / 1000
            say(
                what="acquired",
                member=member,
                first=held.first,
                last=held.last,
                deliveries=held.deliveries,
                lock=lock_s,
                sent=sent,
                at=at,
            )
            for offset in range(held.first, held.last + 1):
                kind = self._work(offset, fate_of(numbers[offset]), lock_s)
                if self._chance.random() < 0.5:
                    later.append((offset, offset, kind))
                else:
                    self._say_now(offset, kind)
        return later

    def _work(self, offset: int, fate: Fate, lock_s: float) -> int:
        if fate is Fate.SLOW and self._chance.random() < 0.5:
            time.sleep(lock_s * 1.2)
        elif fate is Fate.RENEWED:
            time.sleep(lock_s * 0.4)
            self._say_now(offset, RENEW)
        return {Fate.RELEASED: RELEASE, Fate.REJECTED: REJECT}.get(fate, ACCEPT)

    def _say_now(self, offset: int, kind: int) -> None:
        self._beat()
        sent = time.monotonic()
        fields = {"member": self._member.member_id, "first": offset, "last": offset, "kind": kind, "sent": sent}
        say(what="says", **fields)
        code = self._member.acknowledge([(offset, offset, kind)], is_renewing=kind == RENEW)
        say(what="said", **fields, code=code, at=time.monotonic())


def main() -> None:
    port, group, name, number = int(sys.argv[1]), *sys.argv[2:4], int(sys.argv[4])
    chance = random.Random(number)
    while True:
        try:
            with Client("127.0.0.1", port, PATIENCE_S) as client:
                topic = find_topic(client, group, name)
            Worker(port, topic, chance).run()
        except (OSError, AssertionError, NotCoordinated) as error:
            say(what="failed", why=str(error)[:300], at=time.monotonic())
            time.sleep(PAUSE_S)


if __name__ == "__main__":
    main()
