"""Delayed requests of real transactional clients: what they do to Apache Kafka, and that they do nothing to ours.

Neither client speaks KIP-890 part 2: librdkafka's EndTxn is v1, aiokafka's v0. Both send every request here again when
the connection of the first one is lost or its timeout passes, so each schedule exists for both.

A quick run has ours, and ours without its rule, where each schedule does its harm: so the scripts find it. `make mixed`
adds Apache Kafka 3.9.1, which has KIP-890 part 1 and, with ZooKeeper, no part 2; and clients that find out by a timeout.
"""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import pytest
from aiokafka.errors import OutOfOrderSequenceNumber, ProducerFenced
from confluent_kafka import KafkaError, KafkaException

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode
from tests.cluster.conftest import EVERYTHING, WANTED
from tests.cluster.delayed_schedules import (
    Begun,
    Proxied,
    Setting,
    delayed_begin,
    delayed_end,
    delayed_offset,
    delivered,
)
from tests.cluster.delaying_proxy import DelayingProxy, Fault, Notice
from tests.cluster.transactional_clients import Aiokafka, Librdkafka, TransactionalClient
from tests.outside.java import SHORT_LIVED, ApacheKafkaProcess
from tests.outside.processes import BrokerProcess, SordiniProcess
from tests.outside.versions import APACHE_KAFKA, BESIDE_OURS

WITHOUT_RULE = "ours without the rule"
UNGUARDED = [WITHOUT_RULE] + [APACHE_KAFKA] * (EVERYTHING and APACHE_KAFKA in BESIDE_OURS[WANTED])
CLIENTS = {"librdkafka": Librdkafka, "aiokafka": Aiokafka}
NOTICES = list(Notice) if EVERYTHING else [Notice.DISCONNECTED]
FIRST, SECOND = b"first", b"second"
SHORT_MS = 8_000
"""A transaction's timeout that a test waits for; a transaction of one record takes less on a busy machine, too."""
SETTINGS: dict[str, object] = {
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200,
    "group.initial.rebalance.delay.ms": 0,
}


def made(kind: str, request: pytest.FixtureRequest, proxy: DelayingProxy) -> BrokerProcess:
    """A broker behind the proxy, not started yet."""
    directory = request.getfixturevalue("tmp_path_factory").mktemp("delayed")
    settings = {**SETTINGS, "advertised.listeners": f"PLAINTEXT://{proxy.bootstrap}"}
    if kind == APACHE_KAFKA:
        zookeeper = request.getfixturevalue("zookeeper")
        return ApacheKafkaProcess(
            directory, f"{zookeeper}/{uuid4().hex}", settings, flags=("-Xms256m", "-Xmx512m", *SHORT_LIVED)
        )
    del settings["transaction.abort.timed.out.transaction.cleanup.interval.ms"]
    if kind == WITHOUT_RULE:
        settings["sordini.transactional.stale.connection.fencing.enable"] = "false"
    return SordiniProcess(directory, settings)


def served(kind: str, request: pytest.FixtureRequest) -> Iterator[Proxied]:
    proxy = DelayingProxy()
    broker = made(kind, request, proxy)
    proxy.behind = broker.port
    try:
        broker.start()
        found = Proxied(broker, proxy)
        found.ready()
        yield found
        broker.stop()
    finally:
        broker.kill()
        proxy.close()


@pytest.fixture(scope="module")
def guarded(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """Ours."""
    yield from served("ours", request)


@pytest.fixture(scope="module", params=UNGUARDED)
def unguarded(request: pytest.FixtureRequest) -> Iterator[Proxied]:
    """A broker that serves every request of the present producer epoch."""
    yield from served(request.param, request)


@pytest.fixture(params=CLIENTS.values(), ids=CLIENTS)
def make_client(request: pytest.FixtureRequest) -> type[TransactionalClient]:
    wanted: type[TransactionalClient] = request.param
    return wanted


@pytest.fixture(params=NOTICES, ids=[notice.name.lower() for notice in NOTICES])
def notice(request: pytest.FixtureRequest) -> Notice:
    wanted: Notice = request.param
    return wanted


@pytest.fixture
def ours(guarded: Proxied, make_client: type[TransactionalClient], notice: Notice) -> Setting:
    return Setting(guarded, make_client, notice)


@pytest.fixture
def theirs(unguarded: Proxied, make_client: type[TransactionalClient], notice: Notice) -> Setting:
    if not EVERYTHING and make_client is Librdkafka:
        pytest.skip("one client shows that the schedules do harm")
    return Setting(unguarded, make_client, notice)


@pytest.fixture
def apache(theirs: Setting) -> Setting:
    """An Apache Kafka."""
    if not isinstance(theirs.at.broker, ApacheKafkaProcess):
        pytest.skip("what the rule has no part in")
    return theirs


def next_transaction(begun: Begun) -> None:
    begun.client.begin()
    begun.client.write(begun.topic, 1, SECOND)
    begun.client.commit()


# Ours: the connection of the delayed request is ended, and nothing happens to the next transaction.


def test_a_delayed_commit_commits_nothing_that_its_client_aborts(ours: Setting) -> None:
    seen = delayed_end(ours, commits=True)
    assert seen.code is None
    assert seen.committed == [[FIRST], [FIRST]]


def test_a_delayed_abort_loses_nothing_that_its_client_commits(ours: Setting) -> None:
    seen = delayed_end(ours, commits=False)
    assert seen.code is None
    assert seen.committed == [[SECOND], [SECOND]]


def test_a_delayed_request_for_partitions_begins_no_transaction(ours: Setting) -> None:
    begun = delayed_begin(ours)
    assert begun.code is None
    assert begun.state == "CompleteCommit"
    next_transaction(begun)
    begun.client.close()
    assert ours.at.committed(begun.topic) == [[FIRST], [SECOND]]


def test_a_delayed_offset_is_not_committed_by_the_next_transaction(ours: Setting) -> None:
    assert delayed_offset(ours) == (None, 2)


# Others: each schedule does its harm.


def test_elsewhere_a_delayed_commit_tears_what_its_client_aborts(theirs: Setting) -> None:
    seen = delayed_end(theirs, commits=True)
    assert seen.code == ErrorCode.NONE
    assert seen.committed == [[FIRST, SECOND], [FIRST]], "one of two records that were aborted is committed"


def test_elsewhere_a_delayed_abort_loses_what_its_client_commits(theirs: Setting) -> None:
    seen = delayed_end(theirs, commits=False)
    assert seen.code == ErrorCode.NONE
    assert seen.committed == [[], [SECOND]], "one of two records that were committed is lost"


def test_elsewhere_a_delayed_request_for_partitions_begins_a_transaction_that_no_client_ends(theirs: Setting) -> None:
    begun = delayed_begin(theirs)
    assert (begun.code, begun.state) == (ErrorCode.NONE, "Ongoing")
    begun.client.close()


@pytest.mark.skipif(not EVERYTHING, reason="a transaction's timeout passes")
def test_elsewhere_that_transaction_fences_its_live_client_when_it_times_out(theirs: Setting) -> None:
    begun = delayed_begin(theirs, transaction_timeout_ms=SHORT_MS)
    theirs.at.wait_for_state(begun.name, "CompleteAbort")
    with pytest.raises((KafkaException, ProducerFenced)) as raised:
        next_transaction(begun)
    if isinstance(raised.value, KafkaException):
        assert raised.value.args[0].code() == KafkaError._FENCED
    begun.client.close()


def test_elsewhere_a_delayed_offset_is_committed_by_the_next_transaction(theirs: Setting) -> None:
    assert delayed_offset(theirs) == (ErrorCode.NONE, 1), "the records between are processed twice"


def test_elsewhere_a_delayed_batch_of_an_earlier_transaction_stops_its_live_client(apache: Setting) -> None:
    """The batch was sent again and is in the log. Apache Kafka refuses it, and then the client's next one."""
    topic = apache.at.topic()
    client, name = apache.client()
    client.begin()
    delayed = apache.delays(ApiKey.PRODUCE, name)
    client.write(topic, 0, FIRST)
    client.commit()
    client.begin()
    client.write(topic, 1, SECOND)
    assert delivered(delayed) == ErrorCode.INVALID_TXN_STATE
    with pytest.raises((AssertionError, SystemError, KafkaException, OutOfOrderSequenceNumber)) as raised:
        client.write(topic, 0, SECOND)
    if isinstance(raised.value, KafkaException):
        assert raised.value.args[0].code() == KafkaError.OUT_OF_ORDER_SEQUENCE_NUMBER
    client.close()


# Ours: a client that is not late is served, whatever the network does to one of its requests.

REQUESTS = [
    ApiKey.ADD_PARTITIONS_TO_TXN,
    ApiKey.PRODUCE,
    ApiKey.ADD_OFFSETS_TO_TXN,
    ApiKey.TXN_OFFSET_COMMIT,
    ApiKey.END_TXN,
]


@pytest.mark.parametrize("fault", Fault, ids=[fault.name.lower() for fault in Fault])
def test_whichever_request_is_sent_twice_every_transaction_ends_as_its_client_was_answered(
    ours: Setting, fault: Fault
) -> None:
    if not EVERYTHING and fault is Fault.ANSWER_LOST and ours.make_client is Librdkafka:
        pytest.skip("it connects again only after half a second, five times")
    topic = ours.at.topic()
    client, name = ours.client()
    planned = None
    for number, key in enumerate(REQUESTS):
        for end, value in ((client.abort, b"aborted %d"), (client.commit, b"committed %d")):
            client.begin()
            client.write(topic, 0, value % number)
            if planned is not None and fault is Fault.REQUEST_DELAYED:
                delivered(planned)
            planned = ours.at.proxy.plan(key, name, fault, ours.notice)
            client.write(topic, 1, value % number)
            client.send_offset(f"group-of-{name}", topic, number)
            end()
            assert planned.has_come
    client.close()
    assert ours.at.committed(topic) == [[b"committed %d" % number for number in range(len(REQUESTS))]] * 2
    assert ours.at.committed_offset(f"group-of-{name}", topic) == len(REQUESTS) - 1
