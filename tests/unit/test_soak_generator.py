"""The soak's requests, before any broker gets them."""

from __future__ import annotations

import struct

import pytest

from sordini.protocol import codecs
from sordini.protocol.api_keys import ApiKey
from sordini.protocol.headers import read_request_header
from sordini.protocol.served_apis import APIS, INTER_BROKER_APIS
from tests.soak.generator import BETWEEN, HOSTILE, Generator
from tests.soak.honest import TOPIC


@pytest.mark.parametrize("key", sorted(APIS), ids=lambda key: ApiKey(key).name)
def test_every_message_that_is_made_can_be_written_and_is_read_back(key: int) -> None:
    api, generator = APIS[key], Generator(f"law {key}")
    for version in range(api.min_version, api.max_version + 1):
        for _ in range(3):
            written = codecs.encode(generator.message(api, version), version)
            read, end = codecs.decode(api.request, version, memoryview(bytearray(written)))
            assert end == len(written)
            assert codecs.encode(read, version) == written


def test_a_seed_always_makes_the_same_frames_and_another_makes_others() -> None:
    def frames(seed: str) -> list[bytes]:
        generator = Generator(seed)
        return [generator.frame(number).data for number in range(100)]

    assert frames("1") == frames("1") != frames("2")


def test_a_whole_frame_says_what_it_is_and_most_are_whole() -> None:
    generator = Generator("whole")
    whole = [frame for frame in map(generator.frame, range(400)) if frame.is_whole]
    assert 330 < len(whole) < 395
    for frame in whole:
        assert struct.unpack_from(">i", frame.data) == (len(frame.data) - 4,)
        header, position = read_request_header(memoryview(frame.data)[4:])
        assert (header.api_key, header.api_version) == (frame.api, frame.version)
        _, end = codecs.decode(APIS[frame.api].request, frame.version, memoryview(frame.data), 4 + position)
        assert end == len(frame.data)


def test_every_api_comes_and_only_what_brokers_ask_where_that_is_wanted() -> None:
    assert {frame.api for frame in map(Generator("all").frame, range(600))} == set(APIS)
    only = {frame.api for frame in map(Generator("brokers", only=BETWEEN).frame, range(150))}
    assert INTER_BROKER_APIS < only == BETWEEN


def test_hostile_names_come_and_the_honest_clients_topic_never_does() -> None:
    generator = Generator("names")
    data = b"".join(generator.frame(number).data for number in range(800))
    assert all(name.encode() in data for name in HOSTILE)
    assert TOPIC.encode() not in data
