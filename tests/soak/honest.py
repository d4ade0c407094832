"""The honest client beside: it produces, fetches what it produced, compares, and notes how long each took."""

from __future__ import annotations

import asyncio
import struct
import time
from typing import Any, Final, NamedTuple

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_response_header, request_header
from sordini.protocol.messages.create_topics import CreatableTopic, CreatableTopicConfig, CreateTopicsRequest
from sordini.protocol.messages.delete_topics import DeleteTopicsRequest
from sordini.protocol.messages.fetch import FetchPartition, FetchRequest, FetchTopic
from sordini.protocol.messages.metadata import MetadataRequest, MetadataRequestTopic
from sordini.protocol.messages.produce import PartitionProduceData, ProduceRequest, TopicProduceData
from sordini.protocol.records.batch import read_header, read_records
from sordini.protocol.served_apis import APIS
from tests.support.builders import a_batch, some_records

TOPIC: Final = "honest"
"""In no list of the generator's."""
ROWS: Final = 5
"""Records in a batch."""
PAUSE_S: Final = 0.01
ANSWER_S_MAX: Final = 20.0
ERRORS_MAX: Final = 10
ASK_BYTES: Final = 1 << 20


class Took(NamedTuple):
    """One round of the client; `at` is monotonic seconds."""

    at: float
    produce_ms: float
    fetch_ms: float


class Line:
    """One connection, one request at a time."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer
        self._number = 0

    @classmethod
    async def open(cls, port: int) -> Line:
        return cls(*await asyncio.open_connection("127.0.0.1", port))

    def close(self) -> None:
        self._writer.transport.abort()

    async def ask(self, key: ApiKey, version: int, request: Any) -> Any:
        """The answer's message. Raises OSError, EOFError and TimeoutError."""
        api, self._number = APIS[key], self._number + 1
        body = request_header(api, version, self._number, "honest") + codecs.encode(request, version)
        self._writer.write(struct.pack(">i", len(body)) + body)
        async with asyncio.timeout(ANSWER_S_MAX):
            (size,) = struct.unpack(">i", await self._reader.readexactly(4))
            frame = memoryview(await self._reader.readexactly(size))
        number, position = read_response_header(api, version, frame)
        assert number == self._number, f"{key.name}: the answer is to request {number}, not {self._number}"
        return codecs.decode(api.response, version, frame, position)[0]

    async def create(self, topic: str, partitions: int = 1, **settings: str) -> int:
        """The error code."""
        configs = [CreatableTopicConfig(name=name.replace("_", "."), value=text) for name, text in settings.items()]
        wanted = CreatableTopic(name=topic, num_partitions=partitions, replication_factor=1, configs=configs)
        answer = await self.ask(ApiKey.CREATE_TOPICS, 7, CreateTopicsRequest(topics=[wanted], timeout_ms=20_000))
        return int(answer.topics[0].error_code)

    async def delete(self, topic: str) -> int:
        """The error code."""
        answer = await self.ask(ApiKey.DELETE_TOPICS, 5, DeleteTopicsRequest(topic_names=[topic], timeout_ms=20_000))
        return int(answer.responses[0].error_code)

    async def topic_id(self, topic: str) -> bytes:
        named = [MetadataRequestTopic(name=topic)]
        answer = await self.ask(ApiKey.METADATA, 12, MetadataRequest(topics=named, allow_auto_topic_creation=False))
        return bytes(answer.topics[0].topic_id)

    async def produce(self, topic: str, values: list[bytes]) -> tuple[int, int]:
        """The error code and the offset of the first."""
        records = [
            record._replace(value=value) for record, value in zip(some_records(len(values)), values, strict=True)
        ]
        rows = [PartitionProduceData(index=0, records=a_batch(records))]
        data = [TopicProduceData(name=topic, partition_data=rows)]
        answer = await self.ask(ApiKey.PRODUCE, 9, ProduceRequest(acks=-1, timeout_ms=20_000, topic_data=data))
        row = answer.responses[0].partition_responses[0]
        return row.error_code, row.base_offset

    async def fetch(self, topic: str, offset: int) -> tuple[int, list[bytes | None]]:
        """The error code, and values from this offset on, as many as come at once."""
        partition = FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=ASK_BYTES)
        request = FetchRequest(
            topics=[FetchTopic(topic=topic, partitions=[partition])], max_wait_ms=1000, min_bytes=1, max_bytes=ASK_BYTES
        )
        (row,) = (await self.ask(ApiKey.FETCH, 12, request)).responses[0].partitions
        return row.error_code, _values(bytes(row.records or b""), offset)


def _values(data: bytes, start: int) -> list[bytes | None]:
    """The values of the whole batches, from an offset on."""
    values: list[bytes | None] = []
    position = 0
    while len(data) - position >= 61:
        header = read_header(memoryview(data)[position:])
        if len(data) - position < header.size:
            break
        batch = data[position : position + header.size]
        values += [record.value for record in read_records(batch, header) if record.offset >= start]
        position += header.size
    return values


def value_of(number: int) -> bytes:
    """The value of the record at an offset."""
    return b"record %012d" % number


class Honest:
    """The client. What was acknowledged to it is `end`; what it was refused is in `errors`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self.end = 0
        """How many records are acknowledged: the offset behind the last."""
        self.took: list[Took] = []
        self.errors: list[str] = []
        self.is_over = False
        """Set when no further round is to begin."""

    async def prepare(self) -> None:
        """Make the topic, which keeps all."""
        line = await Line.open(self._port)
        code = await line.create(TOPIC, retention_ms="-1", retention_bytes="-1", cleanup_policy="delete")
        assert code == 0, f"the topic could not be made: {code}"
        line.close()

    async def run(self) -> None:
        """Produce and fetch until it is over, or until too much has gone wrong."""
        line = await Line.open(self._port)
        try:
            while not self.is_over and len(self.errors) < ERRORS_MAX:
                try:
                    await self._round(line)
                except (OSError, EOFError, TimeoutError) as error:
                    self.errors.append(f"at offset {self.end}: {type(error).__name__} {error}")
                    line.close()
                    line = await Line.open(self._port)
                await asyncio.sleep(PAUSE_S)
        except OSError as error:
            self.errors.append(f"no connection: {error}")
        finally:
            line.close()

    async def _round(self, line: Line) -> None:
        wanted: list[bytes | None] = [value_of(number) for number in range(self.end, self.end + ROWS)]
        began = time.monotonic()
        code, offset = await line.produce(TOPIC, wanted)  # type: ignore[arg-type]
        produced = time.monotonic()
        if (code, offset) != (0, self.end):
            self.errors.append(f"produced at offset {self.end}: error {code}, offset {offset}")
            self.end = max(self.end, offset + ROWS if code == 0 else self.end)
            return
        self.end += ROWS
        code, values = await line.fetch(TOPIC, offset)
        self.took.append(Took(began, (produced - began) * 1000, (time.monotonic() - produced) * 1000))
        if (code, values) != (0, wanted):
            self.errors.append(f"fetched from offset {offset}: error {code}, {len(values)} records")

    async def read_all(self) -> int:
        """How many records are there, from the first on without a gap or a wrong one."""
        line = await Line.open(self._port)
        offset = 0
        while offset < self.end:
            code, values = await line.fetch(TOPIC, offset)
            if code or not values or values != [value_of(offset + number) for number in range(len(values))]:
                self.errors.append(f"read again from offset {offset}: error {code}, {len(values)} records")
                break
            offset += len(values)
        line.close()
        return offset

    async def administer(self) -> list[str]:
        """Make a topic, use it, delete it: what of that did not work."""
        wrong = []
        line = await Line.open(self._port)
        try:
            for step, done in (
                ("create", lambda: line.create("honest-after")),
                ("produce", lambda: _code(line.produce("honest-after", [b"x"]))),
                ("fetch", lambda: _code(line.fetch("honest-after", 0))),
                ("delete", lambda: line.delete("honest-after")),
            ):
                code = await done()
                if code:
                    wrong.append(f"to {step} a topic is refused with {code}")
        except (OSError, EOFError, TimeoutError) as error:
            wrong.append(f"administration: {type(error).__name__} {error}")
        line.close()
        return wrong


async def _code(asked: Any) -> int:
    return int((await asked)[0])
