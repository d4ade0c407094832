"""Laws that hold for every version of every message."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sordini.protocol import codecs
from sordini.protocol.errors import MessageTooCostly, WireError
from sordini.protocol.messages.create_topics import CreatableReplicaAssignment, CreatableTopic, CreateTopicsRequest
from sordini.protocol.messages.find_coordinator import FindCoordinatorRequest
from sordini.protocol.primitives import COST_MAX, ROW_COST, varint
from tests.support.alone import Alone, traced_peak_bytes
from tests.support.message_samples import MESSAGES, every_version, messages, sample

LAW = settings(
    max_examples=12,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)
by_class = pytest.mark.parametrize("cls", MESSAGES, ids=lambda cls: cls.__name__)


def versions(cls: type) -> st.SearchStrategy[int]:
    return st.sampled_from([version for known, version in every_version() if known is cls])


@by_class
@LAW
@given(data=st.data())
def test_what_was_written_is_read_back(cls: type, data: st.DataObject) -> None:
    version = data.draw(versions(cls))
    message = data.draw(messages(cls, version))
    written = codecs.encode(message, version)
    behind = data.draw(st.binary(max_size=3))
    read, end = codecs.decode(cls, version, memoryview(b"\x55" + written + behind), 1)
    assert read == message
    assert end == 1 + len(written)


@by_class
@LAW
@given(data=st.data())
def test_bytes_that_were_damaged_are_a_message_or_a_wire_error(cls: type, data: st.DataObject) -> None:
    version = data.draw(versions(cls))
    frame = bytearray(codecs.encode(sample(cls, version), version))
    if frame:
        for _ in range(data.draw(st.integers(1, 4))):
            frame[data.draw(st.integers(0, len(frame) - 1))] = data.draw(st.integers(0, 255))
    read_or_refuse(cls, version, bytes(frame))


@by_class
@LAW
@given(data=st.data())
def test_any_bytes_are_a_message_or_a_wire_error(cls: type, data: st.DataObject) -> None:
    read_or_refuse(cls, data.draw(versions(cls)), data.draw(st.binary(max_size=200)))


def read_or_refuse(cls: type, version: int, frame: bytes) -> None:
    try:
        _, end = codecs.decode(cls, version, memoryview(frame))
    except WireError:
        return
    assert 0 <= end <= len(frame)


@by_class
def test_a_message_cut_anywhere_is_a_wire_error(cls: type) -> None:
    for known, version in every_version():
        if known is cls:
            written = memoryview(codecs.encode(sample(cls, version), version))
            for size in range(len(written)):
                with pytest.raises(WireError):
                    codecs.decode(cls, version, written[:size])


@by_class
def test_a_default_message_can_be_written_in_every_version(cls: type) -> None:
    for known, version in every_version():
        if known is cls:
            written = codecs.encode(cls(), version)
            assert codecs.decode(cls, version, memoryview(written)) == (cls(), len(written))


def read_with_claims(cls: type, version: int, frame: bytes) -> None:
    """At many places, a count or length as large as a field of its kind can say."""
    claims = [b"\x7f\xff\xff\xff", b"\x02\xfa\xf0\x80", b"\xff\xff\xff\xff\x0f", b"\xff\xff\xff\xff\x07", b"\x7f\xff"]
    for at in range(0, len(frame), 1 + len(frame) // 60):
        for claim in claims:
            read_or_refuse(cls, version, frame[:at] + claim + frame[at + len(claim) :])


def claims_peak_bytes(cls: type, version: int) -> int:
    frame = codecs.encode(sample(cls, version), version)
    codecs.decoder(cls, version)
    return traced_peak_bytes(read_with_claims, cls, version, frame)


@by_class
def test_a_hostile_count_costs_no_memory(cls: type, alone: Alone) -> None:
    own = [version for known, version in every_version() if known is cls]
    for version in {own[0], own[-1]}:
        assert alone(claims_peak_bytes, cls, version) < 200_000


def test_a_message_has_a_bounded_number_of_elements_in_all_its_arrays_together() -> None:
    count = COST_MAX // ROW_COST + 1
    frame = memoryview(b"\x00" + varint(count + 1) + b"\x01" * count + b"\x00")
    with pytest.raises(MessageTooCostly, match="coordinator_keys: the elements of one message are too many"):
        codecs.decode(FindCoordinatorRequest, 4, frame)


@pytest.mark.parametrize("in_steps", [False, True])
def test_elements_count_by_what_they_cost_objects_as_much_as_ten_numbers(in_steps: bool) -> None:
    def decode(message: Any, left: int) -> Any:
        frame = memoryview(codecs.encode(message, 7))
        if in_steps:
            return finished(codecs.decoder_in_steps(CreateTopicsRequest, 7)(frame, 0, left))[0]
        return codecs.decoder(CreateTopicsRequest, 7)(frame, 0, left)[0]

    nested = CreateTopicsRequest(topics=[CreatableTopic(assignments=[CreatableReplicaAssignment()] * 4)] * 3)
    assert decode(nested, (3 + 3 * 4) * ROW_COST) == nested
    with pytest.raises(MessageTooCostly, match=r"topics.assignments: "):
        decode(nested, (3 + 3 * 4) * ROW_COST - 1)
    row = CreatableReplicaAssignment(broker_ids=[1] * 39)
    numbers = CreateTopicsRequest(topics=[CreatableTopic(assignments=[row])])
    assert decode(numbers, 2 * ROW_COST + 3) == numbers
    with pytest.raises(MessageTooCostly, match=r"broker_ids: "):
        decode(numbers, 2 * ROW_COST + 2)


@by_class
def test_in_steps_messages_are_read_and_written_as_in_one_go(cls: type) -> None:
    own = [version for known, version in every_version() if known is cls]
    for version in {own[0], own[-1]}:
        frame = codecs.encode(sample(cls, version), version)
        message, end = finished(codecs.decoder_in_steps(cls, version)(memoryview(frame), 0, COST_MAX))
        assert (message, end) == codecs.decode(cls, version, memoryview(frame))
        out = bytearray()
        slices: codecs.Slices = []
        finished(codecs.encoder_in_steps(cls, version)(message, out, slices))
        assert (bytes(out), slices) == (frame, [])


def finished(steps: Generator[int, None, Any]) -> Any:
    """What work in steps returns."""
    try:
        while True:
            next(steps)
    except StopIteration as end:
        return end.value
