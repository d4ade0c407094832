"""Protobuf: values in its JSON mapping."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from sordini.schemas.codecs import Json, SchemaError, ValueRefused
from sordini.schemas.schema_files import read_schema

SHOP = """
syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
import "money.proto";
message Order {
  int64 id = 1;
  string note = 2;
  google.protobuf.Timestamp at = 3;
  Kind kind = 4;
  map<string, int32> counts = 5;
  Money price = 6;
  message Line { bytes raw = 1; }
  repeated Line lines = 7;
  enum Kind { A = 0; B = 1; }
}
message Item { string name = 1; }
"""
MONEY = 'syntax = "proto3"; package shop; message Money { int32 cents = 1; }'
ORDER = {
    "id": "5",
    "note": "hi",
    "at": "2026-11-29T12:00:00Z",
    "kind": "B",
    "counts": {"a": 1},
    "price": {"cents": 250},
    "lines": [{"raw": "AP8="}],
}


@pytest.fixture(scope="module")
def shop(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shop")
    (folder / "shop.proto").write_text(SHOP)
    (folder / "money.proto").write_text(MONEY)
    return folder / "shop.proto"


def test_what_was_encoded_is_decoded_as_it_was(shop: Path) -> None:
    made = read_schema("protobuf", f"{shop}:Order")
    encoded = made.encode(ORDER)
    assert encoded.startswith(b"\x08\x05\x12\x02hi")
    assert made.decode(encoded) == ORDER
    assert made.decode(b"") == {}


@pytest.mark.parametrize("name", ["Order", "shop.Order"])
def test_a_message_is_named_wholly_or_by_its_last_name(shop: Path, name: str) -> None:
    assert read_schema("protobuf", f"{shop}:{name}").encode({"id": 1}) == b"\x08\x01"


def test_a_message_inside_another_has_its_name_before_its_own(shop: Path) -> None:
    assert read_schema("protobuf", f"{shop}:Order.Line").encode({"raw": "AQ=="}) == b"\x0a\x01\x01"


def test_the_only_message_of_a_file_needs_no_name(shop: Path) -> None:
    assert read_schema("protobuf", str(shop.parent / "money.proto")).encode({"cents": 1}) == b"\x08\x01"


def test_descriptors_that_protoc_has_written_are_read_without_a_compiler(shop: Path, tmp_path: Path) -> None:
    target = tmp_path / "shop.desc"
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{shop.parent}", "--include_imports"]
    subprocess.run([*command, f"--descriptor_set_out={target}", "money.proto"], check=True, stderr=subprocess.DEVNULL)
    assert read_schema("protobuf", str(target)).encode({"cents": 1}) == b"\x08\x01"


@pytest.mark.parametrize(
    ("written", "why"),
    [
        ("", r"has 3 messages: name one as .*shop.proto:MESSAGE \(shop.Order, shop.Order.Line, shop.Item\)"),
        (":Sale", r"no message is called 'Sale' \(shop.Order, shop.Order.Line, shop.Item\)"),
    ],
)
def test_a_missing_or_wrong_message_is_refused_with_those_that_there_are(shop: Path, written: str, why: str) -> None:
    with pytest.raises(SchemaError, match=why):
        read_schema("protobuf", f"{shop}{written}")


@pytest.mark.parametrize(
    ("name", "text", "why"),
    [
        ("bad.proto", "syntax = oops;", "bad.proto:1:10"),
        ("lost.proto", 'import "nowhere.proto";', "nowhere.proto"),
        ("bad.desc", "no descriptors", "neither a .proto file nor a set of descriptors"),
    ],
)
def test_a_file_without_a_schema_is_refused_with_its_name(tmp_path: Path, name: str, text: str, why: str) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(SchemaError, match=f"{name}: .*{why}"):
        read_schema("protobuf", str(tmp_path / name))


@pytest.mark.parametrize(
    ("value", "why"),
    [([1], "not a JSON object"), ({"id": "x"}, "Failed to parse id"), ({"ids": 1}, 'no field named "ids"')],
)
def test_a_value_that_does_not_fit_is_refused(shop: Path, value: Json, why: str) -> None:
    with pytest.raises(ValueRefused, match=f"does not fit the Protobuf message shop.Order: .*{why}"):
        read_schema("protobuf", f"{shop}:Order").encode(value)


@pytest.mark.parametrize("data", [b"\xff\xff", b"\x12\x05hi", b"\x12\x02\xff\xff"])
def test_bytes_of_something_else_are_refused(shop: Path, data: bytes) -> None:
    with pytest.raises(ValueRefused, match=r"not a Protobuf message shop.Order"):
        read_schema("protobuf", f"{shop}:Order").decode(data)
