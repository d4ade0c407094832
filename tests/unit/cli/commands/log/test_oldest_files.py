"""`log dump` of Kafka 0.7's files: bytes written by hand as document 002 describes them, and what is damaged in them."""

from __future__ import annotations

import gzip
import json
import struct
import zlib
from pathlib import Path
from typing import Any, Final

import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from sordini.cli.__main__ import main
from sordini.cli.commands.log.files.oldest_messages import DEPTH_MAX, Fault, inner_messages, messages

NAME: Final = "00000000000000000000.kafka"

# Length 14, magic 0, CRC-32 of the payload, the payload "page-view".
MAGIC_0: Final = bytes.fromhex("0000000e 00 fa2b04fb 706167652d76696577")
# Length 12, magic 1, attributes 0 (no codec), CRC-32, the payload "search".
MAGIC_1: Final = bytes.fromhex("0000000c 01 00 b4f0dba7 736561726368")
# Length 10, magic 0, CRC-32, the payload "click".
CLICK: Final = bytes.fromhex("0000000a 00 baf6c220 636c69636b")
# Length 58, magic 1, attributes 2 (snappy), CRC-32, the header of snappy-java, and a block of 32 bytes: the size 30,
# a literal of 30 bytes, CLICK and MAGIC_1.
SNAPPY: Final = bytes.fromhex(
    "0000003a 01 02 fd094419  82534e4150505900 00000001 00000001  00000020 1e 74"
    "0000000a00baf6c220636c69636b 0000000c0100b4f0dba7736561726368"
)
# Length 59, magic 1, attributes 1 (gzip), CRC-32, gzip's header, a stored block of the same 30 bytes, their CRC and size.
GZIP: Final = bytes.fromhex(
    "0000003b 01 01 60ccc557  1f8b08000000000000ff 01 1e00 e1ff"
    "0000000a00baf6c220636c69636b 0000000c0100b4f0dba7736561726368 fc130781 1e000000"
)


def dumped(path: Path, *options: str) -> Result:
    result = CliRunner().invoke(main, ["log", "dump", str(path), *options])
    assert result.exit_code in {0, 1}, result.exception
    return result


def a_file(tmp_path: Path, data: bytes, name: str = NAME) -> Path:
    path = tmp_path / name
    path.write_bytes(data)
    return path


def items(path: Path) -> list[dict[str, Any]]:
    """What the command prints as JSON, without the file's name."""
    lines = dumped(path, "--json", "--print-data-log").stdout.splitlines()
    return [{name: value for name, value in json.loads(line).items() if name != "file"} for line in lines]


def damages(path: Path) -> list[tuple[int, str]]:
    """Where and what; the command ends with 1."""
    assert dumped(path).exit_code == 1
    return [(one["position"], one["reason"]) for one in items(path) if one["kind"] == "damage"]


def a_message(payload: bytes, attributes: int = 0) -> bytes:
    return struct.pack(">ibBI", 6 + len(payload), 1, attributes, zlib.crc32(payload)) + payload


def test_messages_of_both_formats_have_byte_positions_as_offsets(tmp_path: Path) -> None:
    plain = {"kind": "message", "compression": "uncompressed"}
    assert items(a_file(tmp_path, MAGIC_0 + MAGIC_1 + CLICK)) == [
        {**plain, "offset": 0, "position": 0, "size": 18, "format": 0, "payload": "page-view"},
        {**plain, "offset": 18, "position": 18, "size": 16, "format": 1, "payload": "search"},
        {**plain, "offset": 34, "position": 34, "size": 14, "format": 0, "payload": "click"},
    ]


@pytest.mark.parametrize("name", ["00000000000536870912.kafka", "00536870912.kafka"])
def test_a_file_s_name_is_the_offset_of_its_first_message(tmp_path: Path, name: str) -> None:
    path = a_file(tmp_path, MAGIC_0 + CLICK, name)
    assert [one["offset"] for one in items(path)] == [536_870_912, 536_870_930]


@pytest.mark.parametrize(("message", "codec"), [(GZIP, "gzip"), (SNAPPY, "snappy")])
def test_the_payload_of_a_compressed_message_is_a_set_of_messages(tmp_path: Path, message: bytes, codec: str) -> None:
    assert items(a_file(tmp_path, MAGIC_0 + message))[1:] == [
        {"kind": "message", "offset": 18, "position": 18, "size": len(message), "format": 1, "compression": codec},
        {"kind": "inner message", "offset": 18, "format": 0, "payload": "click"},
        {"kind": "inner message", "offset": 18, "format": 1, "payload": "search"},
    ]


def test_compressed_sets_nest_to_a_bounded_depth() -> None:
    nested = CLICK
    for depth in range(1, DEPTH_MAX + 2):
        nested = a_message(gzip.compress(nested), attributes=1)
        (outer,) = messages(lambda position, size, data=nested: data[position : position + size], 0, len(nested))
        assert not isinstance(outer, Fault)
        (found,) = inner_messages(outer)
        if depth <= DEPTH_MAX:
            assert not isinstance(found, Fault)
            assert found.payload == b"click"
    assert isinstance(found, Fault)
    assert f"more than {DEPTH_MAX} compressed sets in each other" in found.reason


def test_the_text_is_one_line_for_each_message_and_has_payloads_when_they_are_asked_for(tmp_path: Path) -> None:
    path = a_file(tmp_path, MAGIC_0 + SNAPPY)
    plain = "message  offset 0  position 0  size 18  format 0  compression uncompressed"
    outer = "message  offset 18  position 18  size 62  format 1  compression snappy"
    assert dumped(path).stdout == f"Dumping {path}\n{plain}\n{outer}\n"
    inner = [
        "  inner message  offset 18  format 0  payload click",
        "  inner message  offset 18  format 1  payload search",
    ]
    shown = [f"{plain}  payload page-view", outer, *inner]
    assert dumped(path, "--print-data-log").stdout == "\n".join([f"Dumping {path}", *shown, ""])
    assert dumped(path, "--print-data-log", "--format", "people").stdout == "\n".join([f"{path}:", *shown, ""])


def test_a_message_with_a_wrong_crc_is_reported_and_the_next_is_read(tmp_path: Path) -> None:
    path = a_file(tmp_path, MAGIC_0 + MAGIC_1.replace(b"search", b"sEarch") + CLICK)
    assert damages(path) == [(18, "the CRC is wrong")]
    assert [one["payload"] for one in items(path) if one["kind"] == "message"] == ["page-view", "sEarch", "click"]
    assert f"{path}: byte 18: the CRC is wrong" in dumped(path).stderr


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (CLICK[:4], "4 bytes are left, too few for a message"),
        (CLICK[:-1], "a message of 14 bytes begins, and 13 are left"),
        (bytes(6), "a length of 0, where magic 0 takes 5; 6 bytes are not read"),
        (bytes.fromhex("00000004 00 000000"), "a length of 4, where magic 0 takes 5; 8 bytes are not read"),
        (bytes.fromhex("00000005 01 000000"), "a length of 5, where magic 1 takes 6; 8 bytes are not read"),
        (bytes.fromhex("ffffffff 00 000000"), "a length of -1, where magic 0 takes 5; 8 bytes are not read"),
        (bytes.fromhex("00000005 02 000000"), "magic 2, where 0.7 has 0 or 1; 8 bytes are not read"),
    ],
)
def test_what_cannot_be_read_is_named_with_its_byte(tmp_path: Path, tail: bytes, reason: str) -> None:
    path = a_file(tmp_path, MAGIC_0 + tail)
    assert damages(path) == [(18, reason)]
    assert f"{path} is damaged" in dumped(path).stderr


@pytest.mark.parametrize(
    ("payload", "attributes", "reason"),
    [
        (b"no gzip", 1, "in the gzip set: "),
        (
            gzip.compress(CLICK + MAGIC_0[:7], mtime=0),
            1,
            "in the gzip set, at byte 14: a message of 18 bytes begins, and 7 are left",
        ),
        (gzip.compress(CLICK.replace(b"click", b"clock"), mtime=0), 1, "in the gzip set, at byte 0: the CRC is wrong"),
        (gzip.compress(a_message(b"?", 1), mtime=0), 1, "in the gzip set, in the gzip set: "),
        (CLICK, 3, "codec 3, where 0.7 has 1 (gzip) and 2 (snappy)"),
    ],
)
def test_damage_in_a_compressed_set_is_reported_at_its_message(
    tmp_path: Path, payload: bytes, attributes: int, reason: str
) -> None:
    path = a_file(tmp_path, MAGIC_0 + a_message(payload, attributes) + CLICK)
    ((position, found),) = damages(path)
    assert position == 18
    assert found.startswith(reason)
    assert items(path)[-1]["payload"] == "click"


def test_a_fetch_result_ends_where_its_length_says_and_perhaps_inside_a_message(tmp_path: Path) -> None:
    # MessageSetSend: length 24, error code 0, CLICK and half of MAGIC_0; then one of length 2 with error code 1.
    data = bytes.fromhex("00000019 0000") + CLICK + MAGIC_0[:9] + bytes.fromhex("00000002 0001")
    assert items(a_file(tmp_path, data, "fetched.messagesetsend")) == [
        {"kind": "fetch result", "position": 0, "length": 25, "error_code": 0},
        {"kind": "message", "position": 6, "size": 14, "format": 0, "compression": "uncompressed", "payload": "click"},
        {"kind": "part of a message", "position": 20, "bytes": 9},
        {"kind": "fetch result", "position": 29, "length": 2, "error_code": 1},
    ]


def test_a_multi_fetch_result_holds_fetch_results(tmp_path: Path) -> None:
    inside = bytes.fromhex("00000010 0000") + CLICK + bytes.fromhex("00000002 ffff")
    data = bytes.fromhex("0000001c 0000") + inside
    assert items(a_file(tmp_path, data, "fetched.multimessagesetsend")) == [
        {"kind": "multi-fetch result", "position": 0, "length": 28, "error_code": 0},
        {"kind": "fetch result", "position": 6, "length": 16, "error_code": 0},
        {"kind": "message", "position": 12, "size": 14, "format": 0, "compression": "uncompressed", "payload": "click"},
        {"kind": "fetch result", "position": 26, "length": 2, "error_code": -1},
    ]


@pytest.mark.parametrize(
    ("tail", "reason"),
    [
        (bytes(5), "5 bytes are left, too few for a fetch result"),
        (bytes.fromhex("00000001 0000"), "a length of 1, where a fetch result takes 2; 6 bytes are not read"),
        (bytes.fromhex("00000010 0000") + CLICK[:-1], "a fetch result of 20 bytes begins, and 19 are left"),
        (bytes.fromhex("00000008 0000 00000005 02 00"), None),
    ],
)
def test_a_damaged_fetch_result_is_named_with_its_byte(tmp_path: Path, tail: bytes, reason: str | None) -> None:
    path = a_file(tmp_path, bytes.fromhex("00000010 0000") + CLICK + tail, "fetched.messagesetsend")
    inside = (26, "magic 2, where 0.7 has 0 or 1; 6 bytes are not read")
    assert damages(path) == [inside if reason is None else (20, reason)]


@given(st.binary(max_size=200), st.sampled_from([NAME, "x.messagesetsend", "x.multimessagesetsend"]))
def test_any_bytes_are_read_to_an_end(tmp_path_factory: pytest.TempPathFactory, data: bytes, name: str) -> None:
    path = a_file(tmp_path_factory.mktemp("any"), MAGIC_0 + data, name)
    found = items(path)
    assert all(0 <= one.get("position", 0) <= path.stat().st_size for one in found)
    assert dumped(path).exit_code == (1 if any(one["kind"] == "damage" for one in found) else 0)
