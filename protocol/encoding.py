"""Generates the encoder of one message in one version: straight-line Python, without a schema at run time.

As in the decoder, neighbouring fixed-width fields and the length or tag count behind them are packed by one
`struct.Struct`. A value that does not fit (a string of 40,000 bytes, null where the version has none) is a bug
of the broker and raises any exception; only bytes of a peer need a checked error.

Records in a file are not copied: their position in the output is recorded in `slices`, and their size is the
length in front of them.

A message that is too long for one slice is encoded by the same text as a generator, which yields after each element of
an array how many it has encoded.

Names in the text: `m0 m1 ...` the objects being written, `out` the bytes so far, `n` the length or count
about to be written, `v` the value behind it.
"""

from __future__ import annotations

import struct

from sordini.protocol.codec_source import CodecSource
from sordini.protocol.declare import ArrayOf, Field, Kind, Struct, fields_of
from sordini.protocol.primitives import ABSENT, PRESENT, Blob, Fixed, Packed, Text, varint

PACKED_BYTES_PER_STEP = 16_384
"""Copied bytes that count as one step."""

_BYTES_LIKE = frozenset({bytes, bytearray, memoryview})


def encoder_source(cls: type, version: int, *, flexible: bool, in_steps: bool = False) -> CodecSource:
    """Generate `encode(m0, out, slices)` for one version of a message; `in_steps`: as a generator, see above."""
    writer = _EncoderWriter(version, flexible=flexible, in_steps=in_steps)
    writer.source.line("def encode(m0, out, slices):")
    writer.structure(cls, "m0")
    writer.flush()
    writer.source.line("yield 1" if in_steps else "return")  # Needed where a version has no fields.
    return writer.source


def array_encoder_source(array: ArrayOf, version: int, *, flexible: bool) -> CodecSource:
    """Generate `encode(m0, out, slices)` for an array, its length and its elements."""
    writer = _EncoderWriter(version, flexible=flexible, in_steps=False)
    writer.source.line("def encode(m0, out, slices):")
    writer.array(array, "m0", nullable=False)
    writer.flush()
    writer.source.line("return")
    return writer.source


class _EncoderWriter:
    def __init__(self, version: int, *, flexible: bool, in_steps: bool) -> None:
        self._in_steps = in_steps
        self.source = CodecSource({"pack": struct.pack, "varint": varint, "BYTES_LIKE": _BYTES_LIKE, "Packed": Packed})
        self._version = version
        self._flexible = flexible
        self._run: list[tuple[str, str]] = []  # Fixed-width values not yet written: (expression, letter).
        self._out = "out"

    def structure(self, cls: type, owner: str) -> None:
        """Encode an object's fields; its last run of fixed-width values is not written yet."""
        present = [field for field in fields_of(cls) if field.spec.is_in(self._version)]
        for field in present:
            if field.spec.packable:
                self._packable(field, f"{owner}.{field.name}")
            elif field.spec.tag is None:
                self._value(field.kind, f"{owner}.{field.name}", nullable=field.is_nullable_in(self._version))
        if self._flexible:
            self._tags([field for field in present if field.spec.tag is not None], owner)

    def flush(self, last: tuple[str, str] | None = None) -> None:
        """Write the current run of fixed-width values, with one more at its end if given."""
        run = [*self._run, last] if last else self._run
        if not run:
            return
        if len(run) == 1 and run[0][1] in "Bx":  # One byte alone needs no packing.
            self.source.line(f"{self._out}.append({run[0][0] or 0})")
            return
        form = struct.Struct(">" + "".join(letter for _, letter in run))
        expressions = ", ".join(expression for expression, _ in run if expression)
        self.source.line(f"{self._out} += {self.source.constant('pack', form.pack)}({expressions})")

    def _flush_all(self) -> None:
        self.flush()
        self._run.clear()

    def _value(self, kind: Kind, value: str, *, nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self._run.append((value, kind.letter))
        elif isinstance(kind, Struct):
            self._struct(kind, value, nullable=nullable)
        elif isinstance(kind, Text):
            self._text(value, nullable=nullable)
        elif isinstance(kind, ArrayOf):
            self.array(kind, value, nullable=nullable)
        else:
            self._bytes(value, by_reference=not isinstance(kind, Blob), nullable=nullable)

    def _struct(self, kind: Struct, value: str, *, nullable: bool) -> None:
        inner = self.source.fresh("m")
        self.source.line(f"{inner} = {value}")
        if not nullable:
            self.structure(kind.cls, inner)
            return
        with self.source.block(f"if {inner} is None:"):
            self.flush((str(ABSENT), "B"))
        with self.source.block("else:"):
            self.flush((str(PRESENT), "B"))
            self._run.clear()
            self.structure(kind.cls, inner)
            self._flush_all()

    def _text(self, value: str, *, nullable: bool) -> None:
        line = self.source.line
        line(f"v = {value}")
        if nullable:
            with self.source.block("if v is None:"):
                line(f"n = {int(self._flexible) - 1}")
                line('v = b""')
            with self.source.block("else:"):
                line("v = v.encode()")
                line(f"n = len(v){' + 1' if self._flexible else ''}")
        else:
            line("v = v.encode()")
            line(f"n = len(v){' + 1' if self._flexible else ''}")
        self._length("h")
        line(f"{self._out} += v")

    def _bytes(self, value: str, *, by_reference: bool, nullable: bool) -> None:
        line, block = self.source.line, self.source.block
        plus = " + 1" if self._flexible else ""
        line(f"v = {value}")
        if nullable:
            with block("if v is None:"):
                line(f"n = {int(self._flexible) - 1}")
            with block("else:"):
                line(f"n = (len(v) if type(v) in BYTES_LIKE else v.size){plus}")
        elif by_reference:
            line(f"n = (len(v) if type(v) in BYTES_LIKE else v.size){plus}")
        else:
            line(f"n = len(v){plus}")
        self._length("i")
        with block("if type(v) in BYTES_LIKE:"):
            line(f"{self._out} += v")
        if by_reference:
            assert self._out == "out", "records are never in a tagged field"
            with block("elif v is not None:"):
                line("slices.append((len(out), v))")

    def _length(self, classic_letter: str) -> None:
        """Write the run and `n` behind it."""
        if not self._flexible:
            self.flush(("n", classic_letter))
            self._run.clear()
            return
        with self.source.block("if n < 128:"):
            self.flush(("n", "B"))
        with self.source.block("else:"):
            self.flush()
            self.source.line(f"{self._out} += varint(n)")
        self._run.clear()

    def _packable(self, field: Field, value: str) -> None:
        """An array that may be encoded already."""
        assert isinstance(field.kind, ArrayOf), f"{field.name} is no array"
        self._flush_all()
        with self.source.block(f"if type({value}) is Packed:"):
            self.source.line(f"{self._out} += {value}")
            if self._in_steps:
                self.source.line(f"yield 1 + len({value}) // {PACKED_BYTES_PER_STEP}")
        with self.source.block("else:"):
            self.array(field.kind, value, nullable=field.is_nullable_in(self._version))

    def array(self, kind: ArrayOf, value: str, *, nullable: bool) -> None:
        """Write an array's length and its elements."""
        line, block = self.source.line, self.source.block
        items = self.source.fresh("items")
        line(f"{items} = {value}")
        length = f"n = len({items}){' + 1' if self._flexible else ''}"
        if nullable:
            with block(f"if {items} is None:"):
                line(f"n = {int(self._flexible) - 1}")
                line(f"{items} = ()")
            with block("else:"):
                line(length)
        else:
            line(length)
        self._length("i")
        if isinstance(kind.element, Fixed) and len(kind.element.letter) == 1:
            line(f'{self._out} += pack(f">{{len({items})}}{kind.element.letter}", *{items})')
            return
        inner = self.source.fresh("m")
        with block(f"for {inner} in {items}:"):
            if isinstance(kind.element, Struct):
                self.structure(kind.element.cls, inner)
            else:
                self._value(kind.element, inner, nullable=False)
            self._flush_all()
            if self._in_steps:
                line("yield 1")

    def _tags(self, known: list[Field], owner: str) -> None:
        if not known:
            self._run.append(("", "x"))  # A pad byte is a zero: no tagged fields.
            return
        tests = [self._differs(field, f"{owner}.{field.name}") for field in known]
        # Nearly always nothing is sent, and then no count is worth computing.
        with self.source.block(f"if {' or '.join(tests)}:"):
            self.source.line("n = " + " + ".join(f"bool({test})" for test in tests))
            self.flush(("n", "B"))
            for field, test in zip(known, tests, strict=True):
                with self.source.block(f"if {test}:"):
                    gathered, self._run = self._run, []
                    self._tagged(field, f"{owner}.{field.name}")
                    self._run = gathered
        with self.source.block("else:"):
            self.flush(("", "x"))
        self._run.clear()

    def _differs(self, field: Field, value: str) -> str:
        if field.spec.default is None:
            return f"{value} is not None"
        return f"{value} != {self.source.default(field)}"

    def _tagged(self, field: Field, value: str) -> None:
        """Write one tagged field into a buffer first: its size precedes it."""
        outer, self._out = self._out, self.source.fresh("aside")
        self.source.line(f"{self._out} = bytearray()")
        self._value(field.kind, value, nullable=field.is_nullable_in(self._version))
        self._flush_all()
        self.source.line(f"{outer} += varint({field.spec.tag}) + varint(len({self._out})) + {self._out}")
        self._out = outer
