"""A .proto file in the form in which the known registry stores it. Pure.

Statements are sorted by what they are, and otherwise stay in their order; comments are gone. Names of types stay as
they are written.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final

from sordini.schemas.registered.protobuf.option_text import indented, split, unquoted, write_option, write_options
from sordini.schemas.registered.protobuf.statements import Statement, read_statements
from sordini.schemas.registered.types import InvalidSchema

_FILE: Final = (
    "syntax", "edition", "package", "import", "import public", "option", "message", "enum", "extend", "service",
)  # fmt: skip
_MESSAGE: Final = (
    "reserved", "option", "field", "oneof", "group", "extensions", "extend", "message", "enum",
)  # fmt: skip
_ENUM: Final = ("reserved", "option", "field")
_ONEOF: Final = ("option", "field", "group")
_SERVICE: Final = ("option", "rpc")
_LABELS: Final = frozenset({"optional", "required", "repeated"})
TAG_MAX: Final = (1 << 29) - 1


def canonical_proto(text: str) -> str:
    """Raises InvalidSchema for text that no compiler accepts."""
    parts = _sorted(read_statements(text), _file_part, _FILE)
    made = ""
    for statement in (*parts["syntax"], *parts["edition"]):
        made += f'{statement.head[0]} = "{unquoted(statement.head[-1])}";\n'
    made += "".join(f"package {''.join(statement.head[1:])};\n" for statement in parts["package"])
    made += _section(_write_import(statement) for statement in (*parts["import"], *parts["import public"]))
    made += _section(map(_write_option_statement, parts["option"]))
    made += _section(map(_write_type, (*parts["message"], *parts["enum"])))
    made += _section(map(_write_extend, parts["extend"]))
    return made + _section(map(_write_service, parts["service"]))


def _file_part(statement: Statement) -> str:
    head = statement.head
    return "import public" if head[:2] == ("import", "public") else head[0]


def _member_part(statement: Statement) -> str:
    head = statement.head
    if statement.body is not None:
        return "group" if "group" in head[:2] else head[0]
    return head[0] if head[0] in {"option", "reserved", "extensions"} else "field"


def _sorted(
    statements: Iterable[Statement], part_of: Callable[[Statement], str], known: tuple[str, ...]
) -> dict[str, list[Statement]]:
    """By part. A statement of a later edition that is not known would be lost: it is refused."""
    parts: dict[str, list[Statement]] = {part: [] for part in known}
    for statement in statements:
        part = part_of(statement)
        if part not in parts:
            raise InvalidSchema(f"a statement that is not known: {' '.join(statement.head)[:100]}")
        parts[part].append(statement)
    return parts


def _section(written: Iterable[str]) -> str:
    joined = "".join(written)
    return f"\n{joined}" if joined else ""


def _inside(written: Iterable[str]) -> str:
    return _section(map(indented, written))


def _write_import(statement: Statement) -> str:
    *words, path = statement.head
    return f'{" ".join(words)} "{unquoted(path)}";\n'


def _write_option_statement(statement: Statement) -> str:
    return f"option {write_option(statement.head[1:])};\n"


def _write_type(statement: Statement) -> str:
    return _write_message(statement) if statement.head[0] == "message" else _write_enum(statement)


def _write_message(statement: Statement) -> str:
    return f"message {_name(statement)} {{{_write_members(statement.body or ())}}}\n"


def _write_members(statements: Iterable[Statement]) -> str:
    parts = _sorted(statements, _member_part, _MESSAGE)
    made = _inside(map(_write_ranges, parts["reserved"]))
    made += _inside(map(_write_option_statement, parts["option"]))
    made += _inside(map(_write_field, parts["field"]))
    made += _inside(map(_write_oneof, parts["oneof"]))
    made += _inside(map(_write_group, parts["group"]))
    made += _inside(map(_write_ranges, parts["extensions"]))
    made += _inside(map(_write_extend, parts["extend"]))
    return made + _inside(map(_write_type, (*parts["message"], *parts["enum"])))


def _write_enum(statement: Statement) -> str:
    parts = _sorted(statement.body or (), _member_part, _ENUM)
    made = _inside(map(_write_ranges, parts["reserved"]))
    rest = [*map(_write_option_statement, parts["option"]), *map(_write_constant, parts["field"])]
    made += "".join(map(indented, rest)) if made else _inside(rest)
    return f"enum {_name(statement)} {{{made}}}\n"


def _write_oneof(statement: Statement) -> str:
    parts = _sorted(statement.body or (), _member_part, _ONEOF)
    made = _inside(map(_write_option_statement, parts["option"]))
    made += _inside(map(_write_field, parts["field"]))
    return f"oneof {_name(statement)} {{{made}{_inside(map(_write_group, parts['group']))}}}\n"


def _write_group(statement: Statement) -> str:
    before, tag, _ = _assignment(statement.head)
    return f"{' '.join(before)} = {tag} {{{_write_members(statement.body or ())}}}\n"


def _write_extend(statement: Statement) -> str:
    fields = [_write_field(one) if one.body is None else _write_group(one) for one in statement.body or ()]
    return f"extend {''.join(statement.head[1:])} {{{_inside(fields)}}}\n"


def _write_field(statement: Statement) -> str:
    before, tag, options = _assignment(statement.head)
    label = f"{before[0]} " if before[0] in _LABELS and len(before) > 2 else ""
    kind = "".join(before[1 if label else 0 : -1]).replace(",", ", ")
    return f"{label}{kind} {before[-1]} = {tag}{options};\n"


def _write_constant(statement: Statement) -> str:
    before, number, options = _assignment(statement.head)
    return f"{before[-1]} = {number}{options};\n"


def _assignment(head: Sequence[str]) -> tuple[Sequence[str], int, str]:
    """What stands before the number of a field or a constant, the number, and options after it, with a space."""
    at = head.index("=") if "=" in head else 0
    bracket = head.index("[") if "[" in head else len(head)
    if not 0 < at < bracket - 1:
        raise InvalidSchema(f"no field and no constant: {' '.join(head)[:100]}")
    options = f" {write_options(head[bracket + 1 : -1])}" if bracket < len(head) else ""
    return head[:at], _whole("".join(head[at + 1 : bracket])), options


def _write_ranges(statement: Statement) -> str:
    """`reserved` and `extensions`."""
    head = statement.head
    bracket = head.index("[") if "[" in head else len(head)
    options = f" {write_options(head[bracket + 1 : -1])}" if bracket < len(head) else ""
    return f"{head[0]} {', '.join(_range(part) for part in split(head[1:bracket]))}{options};\n"


def _range(part: Sequence[str]) -> str:
    if part[0][0] in "\"'":
        return f'"{unquoted(part[0])}"'
    if "to" not in part:
        text = "".join(part)
        return text if text.isidentifier() else str(_whole(text))
    at = part.index("to")
    first, last = "".join(part[:at]), "".join(part[at + 1 :])
    is_open = last == "max" or _whole(last) >= TAG_MAX
    return f"{_whole(first)} to {'max' if is_open else _whole(last)}"


def _write_service(statement: Statement) -> str:
    parts = _sorted(statement.body or (), lambda one: one.head[0], _SERVICE)
    made = _inside(map(_write_option_statement, parts["option"]))
    return f"service {_name(statement)} {{{made}{_inside(map(_write_method, parts['rpc']))}}}\n"


def _write_method(statement: Statement) -> str:
    """`rpc NAME (stream TYPE) returns (TYPE)`, with options in a block."""
    head = statement.head
    opened = [at for at, word in enumerate(head) if word == "("]
    closed = [at for at, word in enumerate(head) if word == ")"]
    if len(opened) != 2 or len(closed) != 2:
        raise InvalidSchema(f"no method: {' '.join(head)[:100]}")
    requests, responses = (_streamed(head[start + 1 : end]) for start, end in zip(opened, closed, strict=True))
    options = "".join(indented(_write_option_statement(one)) for one in statement.body or ())
    block = f" {{\n{options}}}" if options else ""
    return f"rpc {head[1]} ({requests}) returns ({responses}){block};\n"


def _streamed(tokens: Sequence[str]) -> str:
    return f"stream {''.join(tokens[1:])}" if len(tokens) > 1 and tokens[0] == "stream" else "".join(tokens)


def _name(statement: Statement) -> str:
    return statement.head[1] if len(statement.head) > 1 else ""


def _whole(text: str) -> int:
    """Decimal, hexadecimal, or octal with a leading zero."""
    digits = text.lstrip("-")
    try:
        number = int(digits, 8) if digits[:1] == "0" and digits.isdigit() else int(digits, 0)
    except ValueError:
        raise InvalidSchema(f"no number: {text[:100]!r}") from None
    return -number if text.startswith("-") else number
