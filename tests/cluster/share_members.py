"""Members of a share group in a cluster: each finds coordinator and leader as a client does, and follows a leader that moves.

What a member sees is kept as the lines that `tests/compat/shares/deliveries.py` judges, and each refusal with the leader
that is named in it (KIP-951).
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.messages.common import AcknowledgementBatch
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.share_acknowledge import AcknowledgePartition, AcknowledgeTopic, ShareAcknowledgeRequest
from sordini.protocol.messages.share_fetch import FetchPartition, FetchTopic, ShareFetchRequest
from tests.support.share_group import Acknowledged, Acquired, ShareMember, ShareTopic
from tests.support.wire_client import Client

RECORDS_MAX: Final = 10
BEAT_S: Final = 0.5
PAUSE_S: Final = 0.05
WAIT_MS: Final = 200
ANSWER_S: Final = 10.0
LOST_SESSION: Final = frozenset({ErrorCode.SHARE_SESSION_NOT_FOUND, ErrorCode.INVALID_SHARE_SESSION_EPOCH})

Fate = Callable[[int, int], int]
"""What is said of a record, by its offset and its number of deliveries."""


class Refusal(NamedTuple):
    """A row with an error, and the leader that it names."""

    api: str
    code: int
    by: int
    """The broker that sent it."""
    leader: int
    """-1: none is named."""
    port: int
    """Of the named leader; -1 if its address is not there."""


class Unreached(OSError):
    """There is no leader or no coordinator now."""


class _Session:
    """A share session with one broker."""

    def __init__(self, client: Client) -> None:
        self.client = client
        self.epoch = 0


class RoutedMember:
    """One member on a thread of its own, from `start` until `stop`."""

    def __init__(self, ports: Mapping[int, int], topic: ShareTopic, fate: Fate, *, version: int, seed: int) -> None:
        """`ports`: of all brokers by their ids; `version`: of ShareFetch and ShareAcknowledge.

        The first record of each session is held until `finish`: what is done behind it has to be stored.
        """
        self.lines: list[str] = []
        self.refusals: list[Refusal] = []
        self._ports, self._topic, self._fate, self._version = ports, topic, fate, version
        self._chance = random.Random(seed)
        self._member: ShareMember | None = None
        self._beat_s = 0.0
        self._leader: int | None = None
        self._sessions: dict[int, _Session] = {}
        self._said: tuple[int, list[Acknowledged]] = (-1, [])
        """What is to be said to a broker with the next fetch."""
        self._held: tuple[int, list[Acknowledged]] = (-1, [])
        """What is to be said of held records, and to which broker."""
        self._is_finishing = threading.Event()
        self._is_stopped = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._run)

    def start(self) -> None:
        self._thread.start()

    def finish(self) -> None:
        """Hold nothing any more."""
        self._is_finishing.set()

    def stop(self) -> None:
        """Raises what has ended the member before."""
        self._is_stopped.set()
        self._thread.join()
        for session in self._sessions.values():
            session.client.socket.close()
        if self._member is not None:
            self._member.client.socket.close()
        if self._failure is not None:
            raise self._failure

    def waits_for_an_answer(self) -> bool:
        """Whether the last that it has done is to say something of records."""
        return bool(self.lines) and '"what": "says"' in self.lines[-1]

    def _run(self) -> None:
        try:
            while not self._is_stopped.is_set():
                try:
                    self._beat()
                    self._work()
                except OSError as error:
                    self._note(what="failed", why=f"{type(error).__name__}: {error}", at=time.monotonic())
                    self._leader = None
                    self._is_stopped.wait(PAUSE_S)
        except Exception as error:  # noqa: BLE001 - raised by `stop`.
            self._failure = error

    def _note(self, **fields: Any) -> None:
        self.lines.append(json.dumps(fields))

    # --- where to --------------------------------------------------------------------------------------

    def _anyone(self, ask: Callable[[Client], Any]) -> Any:
        """The answer of the first broker that has a good one. Raises Unreached."""
        for port in self._ports.values():
            with suppress(OSError), Client("127.0.0.1", port, ANSWER_S) as client:
                answer = ask(client)
                if answer is not None:
                    return answer
        raise Unreached("no broker knows")

    def _find_leader(self, client: Client) -> int | None:
        (row,) = client.metadata(self._topic.name).topics
        leader: int = row.partitions[0].leader_id if row.partitions else -1
        return leader if leader >= 0 else None

    def _find_coordinator(self, client: Client) -> int | None:
        request = FindCoordinatorRequest(key_type=0, coordinator_keys=[self._topic.group])
        found = client.ask(ApiKey.FIND_COORDINATOR, 4, request).coordinators[0]
        return None if found.error_code else int(found.node_id)

    def _beat(self) -> None:
        """A heartbeat if it is time. Raises OSError until the member has joined; later its work continues without."""
        if time.monotonic() < self._beat_s + BEAT_S:
            return
        member = self._member
        try:
            if member is None or member.client.socket.fileno() < 0:
                coordinator = self._anyone(self._find_coordinator)
                client = Client("127.0.0.1", self._ports[coordinator], ANSWER_S)
                if member is None:
                    member = self._member = ShareMember(client, self._topic)
                member.client = client
            if not member.beat():
                raise Unreached("no partition is assigned")
        except OSError:
            if member is not None:
                member.client.socket.close()  # Perhaps it does not coordinate any more.
            if member is None or not member.is_assigned:
                raise
        self._beat_s = time.monotonic()

    def _session(self) -> tuple[int, _Session]:
        if self._leader is None:
            self._leader = int(self._anyone(self._find_leader))
        broker = self._leader
        if broker not in self._sessions:
            self._sessions[broker] = _Session(Client("127.0.0.1", self._ports[broker], ANSWER_S))
        return broker, self._sessions[broker]

    def _ask(self, broker: int, key: ApiKey, request: Any) -> Any:
        """The answer, of a session that has advanced; None if there is none any more. Raises OSError."""
        session = self._sessions[broker]
        try:
            answer = session.client.ask(key, self._version, request)
        except OSError:
            session.client.socket.close()
            del self._sessions[broker]
            raise
        if answer.error_code:
            assert answer.error_code in LOST_SESSION, answer
            session.epoch = 0
            return None
        session.epoch += 1
        return answer

    # --- what it does ----------------------------------------------------------------------------------

    def _work(self) -> None:
        """One fetch, and what is said of its records: at once, or with the next one."""
        assert self._member is not None
        broker, session = self._session()
        self._finish_held(broker, session)
        is_same = self._said[0] == broker and session.epoch > 0
        said, self._said = self._said[1] if is_same else [], (-1, [])
        row = FetchPartition(partition_index=0, acknowledgement_batches=_batches(said))
        request = ShareFetchRequest(
            group_id=self._topic.group,
            member_id=self._member.member_id,
            share_session_epoch=session.epoch,
            max_wait_ms=WAIT_MS,
            min_bytes=1,
            max_bytes=1 << 20,
            max_records=RECORDS_MAX,
            batch_size=RECORDS_MAX,
            topics=[FetchTopic(topic_id=self._topic.topic_id, partitions=[row])],
        )
        sent = self._says(said)
        answer = self._ask(broker, ApiKey.SHARE_FETCH, request)
        if answer is None:
            return
        at = time.monotonic()
        rows = [row for topic in answer.responses for row in topic.partitions]
        self._was_said(said, rows[0].acknowledge_error_code if rows else 0, sent, at)
        for row in rows:
            if row.error_code or row.acknowledge_error_code:
                self._refused("ShareFetch", broker, row.error_code or row.acknowledge_error_code, row, answer)
        acquired = [one for row in rows for one in row.acquired_records]
        self._take(broker, [Acquired(*_fields(one)) for one in acquired], sent, answer.acquisition_lock_timeout_ms)

    def _take(self, broker: int, acquired: Sequence[Acquired], sent: float, lock_ms: int) -> None:
        assert self._member is not None
        at, later = time.monotonic(), []
        for one in acquired:
            self._note(
                what="acquired", member=self._member.member_id, **one._asdict(), lock=lock_ms / 1000, sent=sent, at=at
            )
        for one in acquired:
            for offset in range(one.first, one.last + 1):
                said = offset, offset, self._fate(offset, one.deliveries)
                if self._held[0] != broker and not self._is_finishing.is_set():
                    self._held = broker, [said]
                elif self._chance.random() < 0.5:
                    later.append(said)
                elif self._leader == broker:
                    self._acknowledge(broker, said)
        self._said = broker, later

    def _finish_held(self, broker: int, session: _Session) -> None:
        """Say what is to be said of what is held, if it is still."""
        if self._held[0] != broker or session.epoch == 0:
            self._held = (-1, [])
        elif self._is_finishing.is_set():
            held, self._held = self._held[1], (-1, [])
            for said in held:
                self._acknowledge(broker, said)

    def _acknowledge(self, broker: int, said: Acknowledged) -> None:
        assert self._member is not None
        row = AcknowledgePartition(partition_index=0, acknowledgement_batches=_batches([said]))
        request = ShareAcknowledgeRequest(
            group_id=self._topic.group,
            member_id=self._member.member_id,
            share_session_epoch=self._sessions[broker].epoch,
            topics=[AcknowledgeTopic(topic_id=self._topic.topic_id, partitions=[row])],
        )
        sent = self._says([said])
        answer = self._ask(broker, ApiKey.SHARE_ACKNOWLEDGE, request)
        if answer is None:
            raise Unreached("the session is lost")
        (found,) = answer.responses[0].partitions
        self._was_said([said], found.error_code, sent, time.monotonic())
        if found.error_code:
            self._refused("ShareAcknowledge", broker, found.error_code, found, answer)

    def _says(self, said: Sequence[Acknowledged]) -> float:
        assert self._member is not None
        sent = time.monotonic()
        for first, last, kind in said:
            self._note(what="says", member=self._member.member_id, first=first, last=last, kind=kind, sent=sent)
        return sent

    def _was_said(self, said: Sequence[Acknowledged], code: int, sent: float, at: float) -> None:
        assert self._member is not None
        for first, last, kind in said:
            span = {"member": self._member.member_id, "first": first, "last": last, "kind": kind}
            self._note(what="said", **span, code=code, sent=sent, at=at)

    def _refused(self, api: str, broker: int, code: int, row: Any, answer: Any) -> None:
        """Go to the leader that is named, or find it."""
        leader = row.current_leader.leader_id
        ports = {one.node_id: one.port for one in answer.node_endpoints}
        self.refusals.append(Refusal(api, code, broker, leader, ports.get(leader, -1)))
        self._note(what="failed", why=f"{api}: {code}", at=time.monotonic())
        self._leader = leader if leader in ports and leader != broker else None
        if self._leader is None:
            self._is_stopped.wait(PAUSE_S)


def _batches(said: Sequence[Acknowledged]) -> list[AcknowledgementBatch]:
    return [
        AcknowledgementBatch(first_offset=first, last_offset=last, acknowledge_types=[kind])
        for first, last, kind in said
    ]


def _fields(one: Any) -> tuple[int, int, int]:
    return one.first_offset, one.last_offset, one.delivery_count
