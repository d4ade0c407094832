"""What an attack is: the bytes that both brokers are sent, and their answers in words.

A case is made in two sizes: the one whose figures are printed, and a small one for the test of the cases themselves.
"""

from __future__ import annotations

import struct
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, Final, NamedTuple

from sordini.broker.requests.decoding_costs import cost_max_of
from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import ErrorCode, WireError
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.offset_fetch import OffsetFetchRequest
from sordini.protocol.served_apis import APIS
from tests.support.largest_bodies import KNOWN_GROUPS, KNOWN_PARTITIONS, KNOWN_TOPICS, Shape, largest
from tests.support.wire_client import Client
from tests.support.worst_batches import MIB

ANSWER_S_MAX: Final = 30.0
LEADER_S_MAX: Final = 10.0
ANNOUNCED_S: Final = 0.5
"""So long a connection is open whose request is not whole."""


class Size(NamedTuple):
    """How large the attacks are."""

    body_bytes: int
    bomb_bytes: int
    bombs: int
    records: int
    """Of the smallest kind, in a batch that is compressed with zstd."""
    announced: int
    """Connections that announce more than they send."""
    ordinary: int
    """Usual requests. The small form has more, so that they last long enough for a neighbour to be served meanwhile."""


FULL: Final = Size(MIB, 62 * MIB, 20, 900_000, 8, 300)
SMALL: Final = Size(64 * 1024, 4 * MIB, 3, 60_000, 4, 6_000)


class Sent(NamedTuple):
    """A request as it is sent, length and header included; without a key it is no whole request."""

    key: ApiKey | None
    version: int
    frame: bytes


Answer = bytes | str
"""A frame, or what came in its place."""
CLOSED, SILENCE, NOT_DUE = "closed", f"no answer in {ANSWER_S_MAX:.0f} s", "kept waiting"


def _nothing(_client: Client, _size: Size) -> None:
    pass


class Case(NamedTuple):
    """One attack: requests on one connection, each after the answer to the one before."""

    name: str
    title: str
    frames: Callable[[Size], list[Sent]]
    ours: frozenset[str]
    """What Sordini may answer: names of error codes, or CLOSED."""
    prepare: Callable[[Client, Size], None] = _nothing
    is_long: bool = False
    """It takes so long, in its small form as well, that others are served before it is answered."""
    spoils: bool = False
    """The broker is started again after it to see whether it can be, and then replaced."""
    on_a_small_disk: bool = False

    @property
    def cell(self) -> str:
        """What the table calls it."""
        return f"`{self.name}`: {self.title}"

    def send(self, port: int, frames: list[Sent]) -> list[Answer]:
        """Send them all; the last of what is not due is still open when this returns."""
        if frames and frames[0].key is None:
            return _announce(port, frames)
        answers: list[Answer] = []
        try:
            with Client("127.0.0.1", port, ANSWER_S_MAX) as client:
                for sent in frames:
                    client.socket.sendall(sent.frame)
                    answers.append(_received(client))
        except OSError:
            answers.append(CLOSED)
        return answers

    def outcome(self, frames: list[Sent], answers: list[Answer]) -> str:
        """The codes of all answers in words, with how often each came."""
        codes: Counter[str] = Counter()
        for sent, answer in zip(frames, answers, strict=False):
            if isinstance(answer, str):
                codes[answer] += 1
            else:
                codes.update(_codes(sent, answer))
        return ", ".join(f"{code} x {count:,}" if count > 1 else code for code, count in codes.most_common())


def _received(client: Client) -> Answer:
    try:
        (size,) = struct.unpack(">i", client.receive(4))
        return client.receive(size)
    except TimeoutError:
        return SILENCE
    except OSError:
        return CLOSED


def _announce(port: int, frames: list[Sent]) -> list[Answer]:
    """Each on its own connection; all stay open until the last one was examined."""
    clients = [Client("127.0.0.1", port, ANSWER_S_MAX) for _ in frames]
    try:
        for client, sent in zip(clients, frames, strict=True):
            client.socket.sendall(sent.frame)
        time.sleep(ANNOUNCED_S)
        for client in clients:
            client.socket.settimeout(0.01)
        answers = [_received(client) for client in clients]
        return [NOT_DUE if answer == SILENCE else answer for answer in answers]
    finally:
        for client in clients:
            client.socket.close()


def _codes(sent: Sent, frame: bytes) -> Iterator[str]:
    assert sent.key is not None
    api = APIS[sent.key]
    try:
        _, position = read_response_header(api, sent.version, memoryview(frame))
        message = codecs.decode(api.response, sent.version, memoryview(frame), position)[0]
    except WireError:
        yield f"{len(frame):,} bytes"
        return
    found = Counter(_codes_in(message))
    for code, count in found.items():
        yield from [_name_of(code)] * count
    if not found:
        yield f"an answer of {len(frame):,} bytes"


def _codes_in(message: Any) -> Iterator[int]:
    """Every error code of a message; a row's counts, that of the whole only where it is an error or has no rows."""
    rows = [row for name in message.__slots__ for row in _rows(getattr(message, name))]
    inner = [code for row in rows for code in _codes_in(row)]
    own = getattr(message, "error_code", None)
    if own is not None and (own != 0 or not inner):
        yield own
    yield from inner


def _rows(value: Any) -> list[Any]:
    if isinstance(value, list | tuple) and value and hasattr(value[0], "__slots__") and not isinstance(value[0], bytes):
        return list(value)
    return []


def _name_of(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)


def a_request(key: ApiKey, version: int, request: Any) -> Sent:
    body = request_header(APIS[key], version, 1, "attack") + codecs.encode(request, version)
    return Sent(key, version, struct.pack(">i", len(body)) + body)


def largest_of(key: ApiKey, version: int, path: str, names: str, inner: int = 0) -> Callable[[Size], list[Sent]]:
    """The request of `make stall` with this shape, as large as Sordini still serves it."""
    shape = Shape(APIS[key], version, tuple(path.split(".")), names, inner)

    def frames(size: Size) -> list[Sent]:
        return [a_request(key, version, largest(shape, size.body_bytes, cost_max_of(APIS[key])))]

    return frames


def prepared(client: Client, topic: str, partitions: int = 1, **configs: str) -> None:
    """Make a topic that an attack is about, unless it is there."""
    code = create(client, topic, partitions, **configs)
    assert code in (0, ErrorCode.TOPIC_ALREADY_EXISTS), f"{topic} cannot be made: {_name_of(code)}"


def create(client: Client, topic: str, partitions: int = 1, **configs: str) -> int:
    """The error code; when there is none, or the topic is there, its partitions have leaders by now."""
    rows = [CreatableTopicConfig(name=name.replace("_", "."), value=value) for name, value in configs.items()]
    wanted = [CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=rows)]
    answer = client.ask(ApiKey.CREATE_TOPICS, 5, CreateTopicsRequest(topics=wanted, timeout_ms=20_000))
    code: int = answer.topics[0].error_code
    if code in (0, ErrorCode.TOPIC_ALREADY_EXISTS):
        await_leader(client, topic)
    return code


def await_leader(client: Client, topic: str) -> bool:
    """Whether every partition of a topic has a leader within LEADER_S_MAX."""
    named = [MetadataRequestTopic(name=topic)]
    deadline = time.monotonic() + LEADER_S_MAX
    while time.monotonic() < deadline:
        request = MetadataRequest(topics=named, allow_auto_topic_creation=False)
        (row,) = client.ask(ApiKey.METADATA, 9, request).topics
        if row.error_code == 0 and row.partitions and all(part.error_code == 0 for part in row.partitions):
            return True
        time.sleep(0.05)
    return False


def coordinated_groups(client: Client, size: Size) -> None:
    """Topics as above, and a coordinator that has read its partition of the topic of offsets."""
    known_topics(client, size)
    deadline = time.monotonic() + LEADER_S_MAX
    while time.monotonic() < deadline:
        found = client.ask(ApiKey.FIND_COORDINATOR, 2, FindCoordinatorRequest(key=KNOWN_GROUPS[0]))
        if found.error_code == 0:
            request = OffsetFetchRequest(group_id=KNOWN_GROUPS[0], topics=[])
            if client.ask(ApiKey.OFFSET_FETCH, 5, request).error_code == 0:
                return
        time.sleep(0.05)


def known_topics(client: Client, _size: Size) -> None:
    """Topics of the names that the largest requests call known."""
    for topic in KNOWN_TOPICS:
        prepared(client, topic, KNOWN_PARTITIONS)
