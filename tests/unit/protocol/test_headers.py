"""Request and response headers."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.api_keys import ApiKey
from sordini.protocol.errors import WireError
from sordini.protocol.headers import (
    RequestHeader,
    read_request_header,
    read_response_header,
    request_header,
    request_header_version,
)
from sordini.protocol.served_apis import APIS
from tests.support.response_headers import response_header

PRODUCE, FETCH, API_VERSIONS = APIS[ApiKey.PRODUCE], APIS[ApiKey.FETCH], APIS[ApiKey.API_VERSIONS]
SHUTDOWN = APIS[ApiKey.CONTROLLED_SHUTDOWN]
SERVED = [
    (api, version)
    for api in APIS.values()
    for version in range(api.min_version, api.max_version + 1)
    if (api, version) != (SHUTDOWN, 0)
]


def read(text: str) -> tuple[RequestHeader, int]:
    return read_request_header(memoryview(bytes.fromhex(text)))


def test_a_classic_header_ends_with_the_client_id() -> None:
    assert read("00 00 00 08 00 00 00 07 00 02 6d 65 ff ff") == (RequestHeader(0, 8, 7, "me"), 12)


def test_a_flexible_header_ends_with_its_tags_which_are_skipped() -> None:
    assert read("00 00 00 09 00 00 00 07 00 02 6d 65 00 ff") == (RequestHeader(0, 9, 7, "me"), 13)
    assert read("00 00 00 09 00 00 00 07 00 02 6d 65 01 63 02 aa bb ff") == (RequestHeader(0, 9, 7, "me"), 17)


def test_the_client_id_may_be_null_or_empty() -> None:
    assert read("00 00 00 09 ff ff ff ff ff ff 00") == (RequestHeader(0, 9, -1, None), 11)
    assert read("00 00 00 09 ff ff ff ff 00 00 00") == (RequestHeader(0, 9, -1, ""), 11)


def test_the_first_controlled_shutdown_is_older_than_client_ids() -> None:
    frame = request_header(SHUTDOWN, 0, 7, "me")
    assert frame == bytes.fromhex("00 07 00 00 00 00 00 07")
    assert read_request_header(memoryview(frame)) == (RequestHeader(7, 0, 7, None), 8)
    for size in range(len(frame)):
        with pytest.raises(WireError):
            read_request_header(memoryview(frame)[:size])
    assert [request_header_version(SHUTDOWN, version) for version in range(4)] == [0, 1, 1, 2]
    assert {request_header_version(api, version) for api, version in SERVED} == {1, 2}


@given(
    served=st.sampled_from(SERVED),
    correlation_id=st.integers(-(2**31), 2**31 - 1),
    client_id=st.none() | st.text(max_size=99),
)
def test_a_header_that_was_written_is_read_back(served: tuple, correlation_id: int, client_id: str | None) -> None:
    api, version = served
    frame = request_header(api, version, correlation_id, client_id)
    assert read_request_header(memoryview(frame)) == (
        RequestHeader(api.key, version, correlation_id, client_id),
        len(frame),
    )
    for size in range(len(frame)):
        with pytest.raises(WireError):
            read_request_header(memoryview(frame)[:size])
    answer = response_header(api, version, correlation_id)
    assert read_response_header(api, version, memoryview(answer)) == (correlation_id, len(answer))


@given(st.binary(max_size=40))
def test_any_bytes_are_a_header_or_a_wire_error(frame: bytes) -> None:
    for start in (b"", b"\0\0\0\x09\0\0\0\x07"):
        try:
            _, position = read_request_header(memoryview(start + frame))
        except WireError:
            continue
        assert position <= len(start + frame)


def test_api_versions_of_any_version_has_a_header_that_can_be_read() -> None:
    assert read("00 12 00 63 00 00 00 07 00 02 6d 65 00") == (RequestHeader(18, 99, 7, "me"), 13)
    assert read("00 12 ff ff 00 00 00 07 00 02 6d 65") == (RequestHeader(18, -1, 7, "me"), 12)


def test_api_versions_of_a_new_version_behind_a_classic_header_is_a_wire_error() -> None:
    with pytest.raises(WireError):
        read("00 12 00 63 00 00 00 07 00 02 6d 65")


@pytest.mark.parametrize(
    ("head", "named"),
    [
        ("00 00 00 0e", "PRODUCE v14"),
        ("00 00 ff ff", "PRODUCE v-1"),
        ("00 01 00 13", "FETCH v19"),
        ("00 26 00 00", "CREATE_DELEGATION_TOKEN"),
        ("03 e7 00 00", "API 999"),
        ("ff ff 00 00", "API -1"),
    ],
)
def test_what_is_not_served_closes_the_connection_and_is_named(head: str, named: str) -> None:
    with pytest.raises(WireError, match=f"^{named} is not served"):
        read(head + " 00 00 00 07 ff ff 00")


def test_a_hostile_header_is_a_wire_error() -> None:
    for rest in (
        "7f ff 6d 65",  # A client id longer than the frame.
        "00 01 ff 00",  # A client id that is no text.
        "ff ff ff ff ff ff ff ff ff ff ff ff ff",  # A varint that does not end.
        "ff ff 01 00 ff ff ff ff 0f",  # A tag of 4 GiB.
        "ff ff ff ff ff ff 0f",  # 2^32 - 1 tags.
    ):
        with pytest.raises(WireError):
            read("00 00 00 09 00 00 00 07 " + rest)


def test_a_response_header_has_tags_in_flexible_versions_but_never_for_api_versions() -> None:
    assert response_header(FETCH, 11, 7) == bytes.fromhex("00 00 00 07")
    assert response_header(FETCH, 12, 7) == bytes.fromhex("00 00 00 07 00")
    assert response_header(API_VERSIONS, 4, 7) == bytes.fromhex("00 00 00 07")


def test_a_response_header_that_is_cut_short_is_a_wire_error() -> None:
    for frame in (b"", b"\0\0\0", b"\0\0\0\7", b"\0\0\0\7\1"):
        with pytest.raises(WireError):
            read_response_header(FETCH, 12, memoryview(frame))
