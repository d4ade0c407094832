"""The schedules of docs/delayed-requests.md, for a real client, a real broker and the network between them.

Each has two transactions. A request of the first one is delayed; the client sends it again, completes the transaction and
begins the next one, and the broker receives what was delayed in the middle of that one.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple
from uuid import uuid4

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from sordini.protocol.headers import read_response_header
from sordini.protocol.messages.describe_transactions import DescribeTransactionsRequest, TransactionState
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest, OffsetFetchRequestTopic
from sordini.protocol.served_apis import APIS
from tests.cluster.delaying_proxy import DelayingProxy, Notice, Planned
from tests.cluster.loads import read_all
from tests.cluster.transactional_clients import TransactionalClient
from tests.outside.processes import BrokerProcess
from tests.support.wire_client import Client

PARTITIONS: Final = 2
SECONDS_MAX: Final = 60.0
_LENGTH_BYTES: Final = 4
"""Of a frame, before its header."""

MakeClient = Callable[..., TransactionalClient]


class Proxied(NamedTuple):
    """A broker that advertises the address of the proxy before it."""

    broker: BrokerProcess
    proxy: DelayingProxy

    def ready(self) -> None:
        """Wait until the broker has both coordinators."""
        for kind in range(2):
            request = FindCoordinatorRequest(key="anything", key_type=kind)
            self._wait(
                lambda wanted=request: not self._asked(ApiKey.FIND_COORDINATOR, 2, wanted).error_code, "coordinate"
            )

    def topic(self) -> str:
        """A new topic, all partitions of which are led."""
        name = f"topic-{uuid4().hex[:8]}"
        with Client("127.0.0.1", self.broker.port) as client:
            assert client.create(name, partitions=PARTITIONS) == [ErrorCode.NONE]
            self._wait(
                lambda: [one.error_code for one in client.metadata(name).topics[0].partitions] == [0] * PARTITIONS,
                f"lead {name}",
            )
        return name

    def committed(self, topic: str) -> list[list[bytes]]:
        """The values that a read_committed reader gets, by partition."""
        partitions = [(topic, number) for number in range(PARTITIONS)]
        found = read_all(self.broker.bootstrap, partitions, "read_committed")
        return [[value for _, value in found[one]] for one in partitions]

    def committed_offset(self, group: str, topic: str) -> int:
        """What the group has committed of partition 0, once no offset of a transaction is pending."""
        row = OffsetFetchRequestTopic(name=topic, partition_indexes=[0])
        request = OffsetFetchRequest(group_id=group, topics=[row], require_stable=True)
        found = []

        def is_stable() -> bool:
            partition = self._asked(ApiKey.OFFSET_FETCH, 7, request).topics[0].partitions[0]
            found.append(partition.committed_offset)
            return partition.error_code == ErrorCode.NONE

        self._wait(is_stable, f"have no pending offset of {group}")
        return found[-1]

    def transaction(self, name: str) -> TransactionState:
        asked = self._asked(ApiKey.DESCRIBE_TRANSACTIONS, 0, DescribeTransactionsRequest(transactional_ids=[name]))
        found: TransactionState = asked.transaction_states[0]
        return found

    def wait_for_state(self, name: str, state: str) -> None:
        self._wait(lambda: self.transaction(name).transaction_state == state, f"have {name} in {state}")

    def _asked(self, key: ApiKey, version: int, request: object) -> Any:
        with Client("127.0.0.1", self.broker.port) as client:
            return client.ask(key, version, request)

    def _wait(self, condition: Callable[[], bool], what: str) -> None:
        self.broker.wait_until(condition, SECONDS_MAX, what)


class Setting(NamedTuple):
    """Where a schedule happens, and how its client finds out that a request is not answered."""

    at: Proxied
    make_client: MakeClient
    notice: Notice

    def client(self, **settings: int) -> tuple[TransactionalClient, str]:
        """A client, and its name."""
        name = f"client-{uuid4().hex[:8]}"
        return self.make_client(self.at.proxy.bootstrap, name, **settings), name

    def delays(self, key: ApiKey, client_id: str) -> Planned:
        return self.at.proxy.plan(key, client_id, notice=self.notice)


class Seen(NamedTuple):
    """What came of it."""

    code: ErrorCode | None
    """The answer to the delayed request; None when the broker ended its connection."""
    committed: list[list[bytes]]
    """What read_committed readers get, by partition."""


def delayed_end(setting: Setting, *, commits: bool) -> Seen:
    """A delayed EndTxn of the first transaction; the second ends the other way, which its client is answered."""
    topic = setting.at.topic()
    client, name = setting.client()
    first, second = (client.commit, client.abort) if commits else (client.abort, client.commit)
    client.begin()
    for partition in range(PARTITIONS):
        client.write(topic, partition, b"first")
    delayed = setting.delays(ApiKey.END_TXN, name)
    first()
    client.begin()
    client.write(topic, 0, b"second")
    code = delivered(delayed)
    client.write(topic, 1, b"second")
    second()
    client.close()
    return Seen(code, setting.at.committed(topic))


class Begun(NamedTuple):
    """A client after its first transaction, and what became of the delayed AddPartitionsToTxn of that one."""

    client: TransactionalClient
    name: str
    topic: str
    code: ErrorCode | None
    state: str
    """Of the transactional id, when the broker has received the request."""


def delayed_begin(setting: Setting, **settings: int) -> Begun:
    """A delayed AddPartitionsToTxn, received when its transaction is committed and the client does nothing."""
    topic = setting.at.topic()
    client, name = setting.client(**settings)
    delayed = setting.delays(ApiKey.ADD_PARTITIONS_TO_TXN, name)
    client.begin()
    client.write(topic, 0, b"first")
    client.commit()
    setting.at.wait_for_state(name, "CompleteCommit")
    code = delivered(delayed)
    return Begun(client, name, topic, code, setting.at.transaction(name).transaction_state)


def delayed_offset(setting: Setting) -> tuple[ErrorCode | None, int]:
    """A delayed TxnOffsetCommit of offset 1, when the second transaction has sent offset 2; what is committed then."""
    topic = setting.at.topic()
    client, name = setting.client()
    group = f"group-of-{name}"
    delayed = setting.delays(ApiKey.TXN_OFFSET_COMMIT, name)
    for offset in (1, 2):
        client.begin()
        client.write(topic, 0, b"%d" % offset)
        client.send_offset(group, topic, offset)
        code = delivered(delayed) if offset > 1 else None
        client.commit()
    client.close()
    return code, setting.at.committed_offset(group, topic)


def delivered(delayed: Planned) -> ErrorCode | None:
    """Let the broker receive the delayed request; the error code of its answer, None when it ends the connection."""
    frame = delayed.deliver()
    if frame is None:
        return None
    api, body = APIS[delayed.key], memoryview(frame)[_LENGTH_BYTES:]
    _, position = read_response_header(api, delayed.version, body)
    answer: Any = codecs.decode(api.response, delayed.version, body, position)[0]
    match delayed.key:
        case ApiKey.ADD_PARTITIONS_TO_TXN:
            code = answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code
        case ApiKey.TXN_OFFSET_COMMIT:
            code = answer.topics[0].partitions[0].error_code
        case ApiKey.PRODUCE:
            code = answer.responses[0].partition_responses[0].error_code
        case _:
            code = answer.error_code
    return ErrorCode(code)
