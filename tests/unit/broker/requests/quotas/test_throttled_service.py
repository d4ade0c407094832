"""What a client above its quota gets: the response with the time to wait, and a connection that is muted for it."""

from __future__ import annotations

import struct
from typing import Any

import pytest

from sordini.broker.network.ports import DelayedResponse, Parts, Peer
from sordini.broker.network.principal import Principal
from sordini.broker.requests.quotas.client_quotas import ClientQuotas
from sordini.broker.requests.quotas.rates import RateWindows
from sordini.broker.requests.quotas.throttle_time_field import set_throttle_time
from sordini.broker.requests.quotas.throttled_fetches import is_followers
from sordini.broker.requests.quotas.throttled_service import ThrottledService
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import request_header
from sordini.protocol.messages.fetch import FetchRequest, FetchTopic, ReplicaState
from sordini.protocol.messages.metadata import MetadataRequest
from sordini.protocol.messages.produce import ProduceRequest
from sordini.protocol.messages.share_fetch import ShareFetchRequest
from sordini.protocol.served_apis import ALL_APIS
from tests.support.fake_ports import ListLog, StillClock
from tests.support.unit_broker import a_peer, read_answer

WINDOWS = RateWindows(11, 1000)


class Answering:
    """Answers each request with a message, or later."""

    def __init__(self) -> None:
        self.answer: Parts | DelayedResponse | None = None
        self.frames: list[bytes] = []

    def serve(self, peer: Peer, frame: memoryview) -> Parts | DelayedResponse | None:
        del peer
        self.frames.append(bytes(frame))
        return self.answer


class World:
    def __init__(self, **quotas: dict[str, str]) -> None:
        self.clock = StillClock()
        self.inner = Answering()
        self.quotas = ClientQuotas(WINDOWS, WINDOWS, ListLog())
        for path, settings in quotas.items():
            self.quotas.changed(path.replace("__", "/"), settings)
        self.spent_ns = 0
        self.service = ThrottledService(self.inner, self.quotas, self.clock, self._now_ns)
        self.peer = a_peer()
        self.peer.principal = Principal("User", "alice")
        self.muted: list[int] = []
        self.peer.mute = self.muted.append

    def _now_ns(self) -> int:
        self.spent_ns += 250_000_000
        return self.spent_ns

    def frame(self, key: ApiKey, version: int, body: Any, client: str | None = "app") -> memoryview:
        return memoryview(bytearray(request_header(ALL_APIS[key], version, 77, client) + codecs.encode(body, version)))

    def answers(self, key: ApiKey, version: int, **fields: Any) -> Parts:
        api = ALL_APIS[key]
        body = codecs.encode(api.response(**fields), version)
        header = struct.pack(">i", 77) + (b"\0" if version >= api.flexible_from and key != ApiKey.API_VERSIONS else b"")
        return [bytearray(struct.pack(">i", len(header) + len(body)) + header + body)]

    def ask(self, key: ApiKey, version: int, body: Any) -> Any:
        self.inner.answer = self.answers(key, version)
        parts = self.service.serve(self.peer, self.frame(key, version, body))
        assert isinstance(parts, list)
        return read_answer(key, version, parts)


def records(size: int) -> ProduceRequest:
    return ProduceRequest(acks=1, timeout_ms=1000, transactional_id="x" * size)


@pytest.mark.parametrize("version", [3, 8, 9, 12])
def test_a_producer_above_its_rate_is_answered_at_once_with_a_throttle_time_and_muted_for_it(version: int) -> None:
    world = World(users__alice={"producer_byte_rate": "1000"})
    assert world.ask(ApiKey.PRODUCE, version, records(5_000)).throttle_time_ms == 0
    answer = world.ask(ApiKey.PRODUCE, version, records(15_000))
    assert 10_000 <= answer.throttle_time_ms < 10_300
    assert world.muted == [answer.throttle_time_ms]


@pytest.mark.parametrize("version", [4, 11, 12, 15])
def test_a_consumer_above_its_rate_is_throttled(version: int) -> None:
    world = World(clients__app={"consumer_byte_rate": "1"})
    answer = world.ask(ApiKey.FETCH, version, FetchRequest())
    assert answer.throttle_time_ms > 0
    assert world.muted == [answer.throttle_time_ms]


@pytest.mark.parametrize("version", [1, 2])
def test_records_of_a_share_group_count_for_the_rate_of_a_consumer(version: int) -> None:
    world = World(clients__app={"consumer_byte_rate": "1"})
    answer = world.ask(ApiKey.SHARE_FETCH, version, ShareFetchRequest())
    assert answer.throttle_time_ms > 0
    assert world.muted == [answer.throttle_time_ms]


def test_a_producer_that_wants_no_response_is_muted_all_the_same() -> None:
    world = World(users__alice={"producer_byte_rate": "1000"})
    body = ProduceRequest(acks=0, timeout_ms=1000, transactional_id="x" * 20_000)
    assert world.service.serve(world.peer, world.frame(ApiKey.PRODUCE, 7, body)) is None
    assert len(world.muted) == 1


def test_a_response_that_comes_later_is_measured_when_it_comes() -> None:
    world = World(users__alice={"consumer_byte_rate": "1"})
    pending = DelayedResponse()
    world.inner.answer = pending
    assert world.service.serve(world.peer, world.frame(ApiKey.FETCH, 11, FetchRequest())) is pending
    assert world.muted == []
    pending.resolve(world.answers(ApiKey.FETCH, 11))
    assert pending.parts is not None
    assert read_answer(ApiKey.FETCH, 11, pending.parts).throttle_time_ms == world.muted[0] > 0


def test_a_response_that_was_complete_already_is_measured_too() -> None:
    world = World(users__alice={"producer_byte_rate": "1000"})
    pending = DelayedResponse()
    pending.resolve(world.answers(ApiKey.PRODUCE, 9))
    world.inner.answer = pending
    world.service.serve(world.peer, world.frame(ApiKey.PRODUCE, 9, records(20_000)))
    assert pending.parts is not None
    assert read_answer(ApiKey.PRODUCE, 9, pending.parts).throttle_time_ms == world.muted[0] > 0


def test_request_time_is_that_of_the_handler_and_throttles_for_one_window_at_most() -> None:
    world = World(users__alice={"request_percentage": "1"})
    answer = world.ask(ApiKey.METADATA, 9, MetadataRequest())
    # A quarter of a second is 25 % of a core for one second: 2.5 % of ten.
    assert answer.throttle_time_ms == 1_000
    assert world.muted == [1_000]


def test_clients_without_a_quota_and_requests_between_brokers_are_not_measured() -> None:
    world = World(users__bob={"producer_byte_rate": "1", "request_percentage": "1"})
    assert world.ask(ApiKey.PRODUCE, 9, records(20_000)).throttle_time_ms == 0
    world.quotas.changed("users/alice", {"request_percentage": "1", "consumer_byte_rate": "1"})
    world.inner.answer = world.answers(ApiKey.WRITE_TXN_MARKERS, 1)
    frame = world.frame(ApiKey.WRITE_TXN_MARKERS, 1, ALL_APIS[ApiKey.WRITE_TXN_MARKERS].request())
    world.service.serve(world.peer, frame)
    followers = FetchRequest(replica_id=3)
    assert world.ask(ApiKey.FETCH, 11, followers).throttle_time_ms == 0
    assert world.muted == []


@pytest.mark.parametrize("version", [4, 11, 12, 14, 15, 16])
def test_a_followers_fetch_is_distinguished_from_a_consumers(version: int) -> None:
    world = World()
    mark = (
        FetchRequest(replica_id=3)
        if version < 15
        else FetchRequest(replica_state=ReplicaState(replica_id=3, replica_epoch=9))
    )
    topics = [FetchTopic(topic="t")] if version < 13 else [FetchTopic(topic_id=b"\1" * 16)]
    mark.topics = topics
    assert is_followers(world.frame(ApiKey.FETCH, version, mark), version)
    plain = FetchRequest(topics=topics, rack_id="rack" if version >= 11 else "")
    assert not is_followers(world.frame(ApiKey.FETCH, version, plain), version)


def test_a_consumer_does_not_pass_for_a_follower_by_the_last_bytes_of_its_request() -> None:
    world = World()
    frame = world.frame(ApiKey.FETCH, 15, FetchRequest())
    forged = b"\x01\x05\x0f" + b"\x01\x0d" + struct.pack(">iq", 3, 9) + b"\0"
    # Tagged field 5, which is no follower's, has the bytes of one that is.
    assert not is_followers(memoryview(bytes(frame[:-1]) + forged), 15)
    assert not is_followers(memoryview(bytes(frame[:5])), 15)
    assert not is_followers(memoryview(bytes(frame[:12])), 12)


def test_one_response_has_no_more_than_the_quota_of_all_windows_but_one() -> None:
    world = World(users__alice={"consumer_byte_rate": "1000"})
    for version in (4, 11, 12, 16):
        world.ask(ApiKey.FETCH, version, FetchRequest(max_bytes=50_000_000))
        asked = world.frame(ApiKey.FETCH, version, FetchRequest(max_bytes=10_000))
        assert world.inner.frames[-1] == bytes(asked)
        world.ask(ApiKey.FETCH, version, FetchRequest(max_bytes=5_000))
        assert world.inner.frames[-1] == bytes(world.frame(ApiKey.FETCH, version, FetchRequest(max_bytes=5_000)))


@pytest.mark.parametrize("names", [("g", "m"), (None, None), ("g" * 200, "")])
def test_one_response_to_a_share_group_has_no_more_either(names: tuple[str | None, str | None]) -> None:
    world = World(users__alice={"consumer_byte_rate": "1000"})
    group, member = names
    for version in (1, 2):
        for wanted, served in ((50_000_000, 10_000), (5_000, 5_000)):
            request = ShareFetchRequest(group_id=group, member_id=member, max_records=7, max_bytes=wanted)
            world.ask(ApiKey.SHARE_FETCH, version, request)
            request.max_bytes = served
            assert world.inner.frames[-1] == bytes(world.frame(ApiKey.SHARE_FETCH, version, request))


def test_a_share_fetch_that_is_cut_off_is_left_to_the_one_who_decodes_it() -> None:
    world = World(users__alice={"consumer_byte_rate": "1000"})
    whole = world.frame(ApiKey.SHARE_FETCH, 2, ShareFetchRequest(group_id="g" * 200, member_id="m"))
    world.inner.answer = world.answers(ApiKey.SHARE_FETCH, 2)
    for length in range(13, len(whole)):
        world.service.serve(world.peer, memoryview(bytearray(whole[:length])))
    assert len(world.inner.frames) == len(whole) - 13


@pytest.mark.parametrize("key", sorted(ALL_APIS))
def test_the_throttle_time_is_set_in_every_response_that_has_the_field(key: int) -> None:
    api = ALL_APIS[key]
    world = World()
    for version in range(api.min_version, api.max_version + 1):
        before = world.answers(api.key, version)
        plain = read_answer(api.key, version, [bytearray(before[0])])  # type: ignore[arg-type]
        changed = read_answer(api.key, version, set_throttle_time(api, version, before, 1234))
        if hasattr(changed, "throttle_time_ms") and changed.throttle_time_ms:
            assert changed.throttle_time_ms == 1234
            changed.throttle_time_ms = plain.throttle_time_ms
        assert changed == plain, "nothing else has changed"


def test_a_longer_throttle_time_of_the_handler_stays() -> None:
    world = World()
    api = ALL_APIS[ApiKey.CREATE_TOPICS]
    parts = world.answers(api.key, 7, throttle_time_ms=5_000)
    assert read_answer(api.key, 7, set_throttle_time(api, 7, parts, 10)).throttle_time_ms == 5_000
