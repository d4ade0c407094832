"""Generates the decoder of one message in one version: straight-line Python, without a schema at run time.

What makes the text fast: neighbouring fixed-width fields, and the length or tag count behind them, are taken
by one `struct.Struct` straight into the slots of the new object; a varint's first byte belongs to that run,
and only the rare long one is read on by a function.

What makes it safe: reading a number past the end raises inside `unpack_from`. A slice past the end is only
short, so the position is compared with the end once, at the end of the function: a truncated string is never
returned. Counts are compared with the bytes left, and with the cost limit of all elements, before the first
element is decoded. Every exception that malformed bytes can cause is turned into WireError.

A message that is too long for one slice is decoded by the same text as a generator, which yields after each
element of an array how many rows (see `ROW_COST`) it has decoded.

Names in the text: `b` buffer, `p` position, `end` its length, `n` the length or count just read, `q` the end
of the value with that length, `left` the cost that further elements may have, `m0 m1 ...` the objects being
filled, by depth.
"""

from __future__ import annotations

import struct

from sordini.protocol.codec_source import CodecSource
from sordini.protocol.declare import ArrayOf, Field, Kind, Struct, fields_of
from sordini.protocol.errors import MessageTooCostly, WireError
from sordini.protocol.primitives import (
    COST_MAX,
    NUMBER_COST,
    NUMBERS_PER_ROW,
    ROW_COST,
    STRING_BYTES_MAX,
    TAGS_MAX,
    Blob,
    Fixed,
    Text,
    finish_varint,
    read_varint,
    skip_tags,
)


def decoder_source(cls: type, version: int, *, flexible: bool, in_steps: bool = False) -> CodecSource:
    """Generate `decode(b, p=0, left=COST_MAX) -> (message, end position)` for one version of a message.

    `in_steps`: as a generator that returns the same, see above.
    """
    writer = _DecoderWriter(version, flexible=flexible, in_steps=in_steps)
    source = writer.source
    source.line(f"def decode(b, p=0, left={COST_MAX}):")
    with source.block("try:"):
        source.line("end = len(b)")
        writer.structure(cls, "m0", cls.__name__)
        writer.flush()
        with source.block("if p > end:"):
            source.line('raise WireError("a value ends after the frame")')
        if in_steps:
            source.line("yield 0")  # Makes a message without arrays a generator, too.
        source.line("return m0, p")
    with source.block("except (struct_error, IndexError, ValueError) as problem:"):
        source.line(f'raise WireError(f"{cls.__name__} v{version}: {{problem}}") from problem')
    return source


class _DecoderWriter:
    def __init__(self, version: int, *, flexible: bool, in_steps: bool) -> None:
        self.source = CodecSource(
            {
                "WireError": WireError,
                "MessageTooCostly": MessageTooCostly,
                "struct_error": struct.error,
                "unpack_from": struct.unpack_from,
                "new": object.__new__,
                "finish_varint": finish_varint,
                "read_varint": read_varint,
                "skip_tags": skip_tags,
            }
        )
        self._version = version
        self._flexible = flexible
        self._in_steps = in_steps
        self._run: list[tuple[str, str]] = []  # Fixed-width values not yet taken: (target, letter).

    def structure(self, cls: type, owner: str, path: str) -> None:
        """Fill a new object; its last run of fixed-width values is not taken yet."""
        self.source.line(f"{owner} = new({self.source.name(cls.__name__, cls)})")
        known: list[Field] = []
        for field in fields_of(cls):
            target = f"{owner}.{field.name}"
            if not field.spec.is_in(self._version):
                self._default(target, field)
            elif field.spec.tag is not None:
                self._default(target, field)
                known.append(field)
            else:
                nullable = field.is_nullable_in(self._version)
                self._value(field.kind, target, f"{path}.{field.name}", nullable=nullable)
        if self._flexible:
            self._tags(known, owner, path)

    def flush(self) -> None:
        """Take the current run of fixed-width values."""
        if not self._run:
            return
        if len(self._run) == 1 and self._run[0][1] == "B":
            self.source.line(f"{self._run.pop()[0]} = b[p]")
            self.source.line("p += 1")
            return
        targets = ", ".join(target for target, _ in self._run)
        form = struct.Struct(">" + "".join(letter for _, letter in self._run))
        unpack = self.source.constant("unpack", form.unpack_from)
        self.source.line(f"{targets}{',' if len(self._run) == 1 else ''} = {unpack}(b, p)")
        self.source.line(f"p += {form.size}")
        self._run.clear()

    def _default(self, target: str, field: Field) -> None:
        self.source.line(f"{target} = {self.source.default(field)}")

    def _value(self, kind: Kind, target: str, path: str, *, nullable: bool) -> None:
        if isinstance(kind, Fixed):
            self._run.append((target, kind.letter))
        elif isinstance(kind, Struct):
            self._struct(kind, target, path, nullable=nullable)
        else:
            self._length("h" if isinstance(kind, Text) else "i")
            with self.source.block(f"if n < {int(self._flexible)}:"):
                self.source.line(f"{target} = None" if nullable else f'raise WireError("{path} is null")')
            with self.source.block("else:" if nullable else ""):
                self._present(kind, target, path)

    def _struct(self, kind: Struct, target: str, path: str, *, nullable: bool, is_tagged: bool = False) -> None:
        if nullable:
            self._run.append(("n", "B"))
        self.flush()
        if nullable:
            # A negative byte; 0 where a tagged field has none.
            with self.source.block("if n > 127 or n == 0:" if is_tagged else "if n > 127:"):
                self.source.line(f"{target} = None")
        with self.source.block("else:" if nullable else ""):
            inner = self.source.fresh("m")
            self.structure(kind.cls, inner, path)
            self.flush()
            self.source.line(f"{target} = {inner}")

    def _present(self, kind: Kind, target: str, path: str) -> None:
        """Read a value whose length is in `n` (in flexible versions: length + 1)."""
        if isinstance(kind, ArrayOf):
            self._array(kind.element, target, path)
            return
        if isinstance(kind, Text) and self._flexible:
            with self.source.block(f"if n > {STRING_BYTES_MAX + 1}:"):
                self.source.line(f'raise WireError(f"{path} has {{n - 1}} bytes")')
        self.source.line("q = p + n - 1" if self._flexible else "q = p + n")
        if isinstance(kind, Text):
            self.source.line(f'{target} = str(b[p:q], "utf-8")')
        elif isinstance(kind, Blob):
            self.source.line(f"{target} = bytes(b[p:q])")
        else:
            self.source.line(f"{target} = b[p:q]")
        self.source.line("p = q")

    def _length(self, classic_letter: str) -> None:
        self._run.append(("n", "B" if self._flexible else classic_letter))
        self.flush()
        if self._flexible:
            with self.source.block("if n > 127:"):
                self.source.line("n, p = finish_varint(b, p, n)")

    def _array(self, element: Kind, target: str, path: str) -> None:
        if self._flexible:
            self.source.line("n -= 1")
        size = smallest_size(element, self._version, flexible=self._flexible)
        assert size > 0, f"{path}: elements without bytes cannot be counted against the frame"
        with self.source.block(f"if n * {size} > end - p:"):
            self.source.line(f'raise WireError(f"{path} claims {{n}} elements, {{end - p}} bytes are left")')
        cost = cost_of(element)
        self.source.line(f"left -= n // {NUMBERS_PER_ROW}" if cost == NUMBER_COST else f"left -= n{_times(cost)}")
        with self.source.block("if left < 0:"):
            self.source.line(f'raise MessageTooCostly("{path}: the elements of one message are too many")')
        if isinstance(element, Fixed) and len(element.letter) == 1:
            self.source.line(f'{target} = list(unpack_from(f">{{n}}{element.letter}", b, p))')
            self.source.line(f"p += n * {size}")
            return
        items = self.source.fresh("items")
        self.source.line(f"{items} = {target} = []")
        with self.source.block("for _ in range(n):"):
            self._element(element, items, path)
            if self._in_steps:
                self.source.line("yield 1")

    def _element(self, element: Kind, items: str, path: str) -> None:
        if isinstance(element, Struct):
            inner = self.source.fresh("m")
            self.structure(element.cls, inner, path)
        else:
            inner = "value"
            self._value(element, inner, path, nullable=False)
        self.flush()
        self.source.line(f"{items}.append({inner})")

    def _tags(self, known: list[Field], owner: str, path: str) -> None:
        tags = "n" if not known else self.source.fresh("tags")
        self._run.append((tags, "B"))
        self.flush()
        with self.source.block(f"if {tags}:"):
            if known:
                self._known_tags(known, tags, owner, path)
            else:
                self.source.line("p = skip_tags(b, p, n)")

    def _known_tags(self, known: list[Field], tags: str, owner: str, path: str) -> None:
        line, block = self.source.line, self.source.block
        tag, stop = self.source.fresh("tag"), self.source.fresh("stop")
        with block(f"if {tags} > 127:"):
            line(f"{tags}, p = finish_varint(b, p, {tags})")
        with block(f"if {tags} > {TAGS_MAX}:"):
            line(f'raise WireError(f"{path} has {{{tags}}} tagged fields, {TAGS_MAX} are allowed")')
        with block(f"for _ in range({tags}):"):
            line(f"{tag}, p = read_varint(b, p)")
            line("n, p = read_varint(b, p)")
            line(f"{stop} = p + n")
            for index, field in enumerate(known):
                with block(f"{'el' if index else ''}if {tag} == {field.spec.tag}:"):
                    nullable = field.is_nullable_in(self._version)
                    target, name = f"{owner}.{field.name}", f"{path}.{field.name}"
                    if isinstance(field.kind, Struct):
                        self._struct(field.kind, target, name, nullable=nullable, is_tagged=True)
                    else:
                        self._value(field.kind, target, name, nullable=nullable)
                    self.flush()
            with block("else:"):
                line(f"p = {stop}")
            with block(f"if p != {stop}:"):
                line(f'raise WireError(f"tagged field {{{tag}}} of {path} has another size than it says")')


def _times(cost: int) -> str:
    return "" if cost == 1 else f" * {cost}"  # Structs are on the hot path.


def cost_of(element: Kind) -> int:
    """The cost of an array's element, against the limit of a message."""
    return element.cost if isinstance(element, Fixed) else ROW_COST


def smallest_size(kind: Kind, version: int, *, flexible: bool) -> int:
    """The fewest bytes of a value of this kind; a count is checked with it against the bytes left."""
    if isinstance(kind, Fixed):
        return kind.size
    if isinstance(kind, Struct):
        if kind.nullable:
            return 1
        fields = fields_of(kind.cls)
        present = [field.kind for field in fields if field.spec.is_in(version) and field.spec.tag is None]
        return int(flexible) + sum(smallest_size(held, version, flexible=flexible) for held in present)
    if flexible:
        return 1
    return 2 if isinstance(kind, Text) else 4
