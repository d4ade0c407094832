"""The bytes of one message per API and version, spelled out field by field in tests/golden/.

The files are the truth: `UPDATE=1` rewrites them, and a review of the change shows what became of the
wire. They are written by a second, slow encoder that stands below and shares only the declarations with the
compiled one.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from sordini.protocol import codecs, primitives
from sordini.protocol.declare import ArrayOf, Field, Kind, Struct
from sordini.protocol.headers import request_header
from sordini.protocol.served_apis import ALL_APIS, Api
from tests.support.message_samples import present_fields, sample
from tests.support.response_headers import response_header

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = [(api, version) for api in ALL_APIS.values() for version in range(api.min_version, api.max_version + 1)]
Lines = Iterator[tuple[str, bytes]]


class Spelling:
    """One version's way of writing, as (name, bytes) pairs."""

    def __init__(self, version: int, *, flexible: bool) -> None:
        self.version = version
        self.flexible = flexible

    def message(self, message: Any, path: str = "") -> Lines:
        tagged = []
        for field in present_fields(type(message), self.version):
            value, name = getattr(message, field.name), f"{path}{field.name}"
            if field.spec.tag is None:
                if isinstance(field.kind, Struct) and field.is_nullable_in(self.version):
                    yield f"{name} (is there)", b"\x01"
                yield from self.value(field.kind, value, name)
            elif value != codecs.EMPTY and value != field.spec.default:
                tagged.append((field, value, name))
        if self.flexible:
            yield f"{path}(tags)", primitives.varint(len(tagged))
            for field, value, name in tagged:
                yield from self.tagged(field, value, name)

    def tagged(self, field: Field, value: Any, name: str) -> Lines:
        lines = list(self.value(field.kind, value, name))
        size = sum(len(part) for _, part in lines)
        assert field.spec.tag is not None
        yield f"{name} (tag, size)", primitives.varint(field.spec.tag) + primitives.varint(size)
        yield from lines

    def value(self, kind: Kind, value: Any, name: str) -> Lines:
        if isinstance(kind, Struct):
            yield from self.message(value, f"{name}.")
        elif isinstance(kind, primitives.Fixed):
            yield name, struct.pack(f">{kind.letter}", value)
        elif isinstance(kind, ArrayOf):
            yield f"{name} (count)", self.length(len(value), ">i")
            for index, item in enumerate(value):
                yield from self.value(kind.element, item, f"{name}[{index}]")
        else:
            text = isinstance(kind, primitives.Text)
            content = value.encode() if text else bytes(value)
            yield name, self.length(len(content), ">h" if text else ">i") + content

    def length(self, length: int, classic: str) -> bytes:
        return primitives.varint(length + 1) if self.flexible else struct.pack(classic, length)


def spelled(api: Api, version: int) -> str:
    """The text of a golden file."""
    spelling = Spelling(version, flexible=version >= api.flexible_from)
    text = []
    for cls, header in (
        (api.request, request_header(api, version, 7, "golden")),
        (api.response, response_header(api, version, 7)),
    ):
        lines = [("(header)", header), *spelling.message(sample(cls, version))]
        text += [f"{cls.__name__} v{version}", *(f"  {name:<54}  {part.hex(' ')}" for name, part in lines), ""]
    return "\n".join(text)


def golden_file(api: Api, version: int) -> Path:
    return GOLDEN / f"{api.key.name.lower()}_v{version:02}.txt"


def golden_bodies(text: str) -> list[bytes]:
    """The request's and the response's bytes as the file has them."""
    bodies = []
    for block in text.strip().split("\n\n"):
        lines = block.splitlines()[1:]
        assert lines[0].split()[0] == "(header)"
        bodies.append(b"".join(bytes.fromhex(line.rpartition("  ")[2]) for line in lines[1:]))
    return bodies


@pytest.mark.parametrize(("api", "version"), CASES, ids=lambda value: getattr(value, "key", value))
def test_the_wire_is_as_the_golden_file_spells_it(api: Api, version: int) -> None:
    path = golden_file(api, version)
    if os.environ.get("UPDATE") == "1":
        path.write_text(spelled(api, version))
    text = path.read_text()
    for cls, body in zip((api.request, api.response), golden_bodies(text), strict=True):
        message = sample(cls, version)
        assert codecs.encode(message, version) == body
        assert codecs.decode(cls, version, memoryview(body)) == (message, len(body))
    assert spelled(api, version) == text


def test_there_is_no_golden_file_of_a_version_that_is_not_served() -> None:
    assert {golden_file(*case) for case in CASES} == set(GOLDEN.glob("*.txt"))
