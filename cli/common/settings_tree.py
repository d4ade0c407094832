"""Files of settings in YAML or TOML, as trees with the line of each value: an error names the file, line and key.

`Section` returns values by name and kind; a key that was never read is unknown, and an error.
"""

from __future__ import annotations

import difflib
import re
import tomllib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from pathlib import Path
from typing import Any, ClassVar, Final, NoReturn, Self, TypeVar

from sordini.protocol.printable import not_utf8
from sordini.storage.disk import SystemDisk
from sordini.system.named_tuple import NamedTuple

Choice = TypeVar("Choice", bound=Enum)

_VARIABLE: Final = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")
_INTERVAL: Final = re.compile(r"\s*(\d+)\s*(millisecond|second|minute|hour|day|week)s?\s*")
_SECONDS: Final = {
    "millisecond": 0.001,
    "second": 1.0,
    "minute": 60.0,
    "hour": 3600.0,
    "day": 86400.0,
    "week": 604800.0,
}


class SettingsFileError(Exception):
    """An invalid file; the text begins with the file and the line."""


class Interval(NamedTuple):
    """A length of time as it was written, and in seconds."""

    text: str
    seconds: float


class Node(NamedTuple):
    """A value and its line. Mappings hold nodes by name, lists hold nodes."""

    value: Any
    line: int
    """From 1; 0 if unknown (TOML)."""
    written: str = ""
    """A scalar of YAML as it stands in the file: 0123 and 1.10 are numbers there, and 83 and 1.1 as such."""


def read_tree(path: Path, error: type[Exception] = SettingsFileError) -> Node:
    """Read a file in YAML or, by its suffix .toml, in TOML. Raises `error`, with the text for the user."""
    try:
        text = SystemDisk().read(str(path)).decode()
    except (OSError, UnicodeDecodeError) as problem:
        reason = problem.strerror if isinstance(problem, OSError) else not_utf8(problem)
        raise error(f"{path} cannot be read: {reason}") from None
    if path.suffix == ".toml":
        try:
            return _plain(tomllib.loads(text))
        except tomllib.TOMLDecodeError as problem:
            raise error(f"{path} is not TOML: {problem}") from None
    return _read_yaml(path, text, error)


def _plain(value: Any) -> Node:
    if isinstance(value, dict):
        return Node({name: _plain(inner) for name, inner in value.items()}, 0)
    if isinstance(value, list):
        return Node([_plain(inner) for inner in value], 0)
    # TOML's dates and times are texts here, as YAML's.
    return Node(value.isoformat() if hasattr(value, "isoformat") else value, 0)


def _read_yaml(path: Path, text: str, error: type[Exception]) -> Node:
    import yaml

    loader = yaml.SafeLoader(text)
    try:
        root = loader.get_single_node()
        return Node({}, 1) if root is None else _from_yaml(path, loader, root, error)
    except yaml.MarkedYAMLError as problem:
        line = problem.problem_mark.line + 1 if problem.problem_mark else 1
        raise error(f"{path}:{line} is not YAML: {problem.problem}") from None
    except yaml.YAMLError as problem:
        raise error(f"{path} is not YAML: {problem}") from None
    finally:
        loader.dispose()


def _from_yaml(path: Path, loader: Any, node: Any, error: type[Exception]) -> Node:
    import yaml

    line = node.start_mark.line + 1
    if isinstance(node, yaml.MappingNode):
        loader.flatten_mapping(node)
        found: dict[str, Node] = {}
        for key_node, value_node in node.value:
            # As it is written: `no` and `on` are names here, and not YAML's booleans.
            key = str(key_node.value if isinstance(key_node, yaml.ScalarNode) else loader.construct_object(key_node))
            if key in found:
                raise error(f"{path}:{key_node.start_mark.line + 1}: {key!r} is set twice")
            found[key] = _from_yaml(path, loader, value_node, error)
        return Node(found, line)
    if isinstance(node, yaml.SequenceNode):
        return Node([_from_yaml(path, loader, inner, error) for inner in node.value], line)
    if node.tag == "tag:yaml.org,2002:timestamp":
        return Node(node.value, line)  # As text: times are parsed in one place, for TOML as well.
    return Node(loader.construct_object(node), line, node.value)


class Section:
    """A mapping of the file, whose values are read by name.

    `${NAME}` is replaced from `environment`. Every method raises `error` with the position of what is wrong.
    """

    error: ClassVar[type[Exception]] = SettingsFileError
    mistakes: ClassVar[tuple[type[Exception], ...]] = (ValueError,)
    """What functions given to `take` raise for an invalid text."""

    def __init__(self, path: Path, node: Node, name: str, environment: Mapping[str, str]) -> None:
        self._path = path
        self._name = name
        self._node = node
        self._environment = environment
        self._asked: set[str] = set()
        if node.value is None:
            self._node = Node({}, node.line)
        elif not isinstance(node.value, dict):
            self.wrong("", "is not a group of settings")

    def __contains__(self, name: str) -> bool:
        self._asked.add(name)
        return name in self._node.value

    @property
    def title(self) -> str:
        """The section's full name."""
        return self._name

    def wrong(self, name: str, problem: str) -> NoReturn:
        """Raise the error for a setting of this section; "" is the section itself."""
        node = self._node.value.get(name, self._node) if isinstance(self._node.value, dict) else self._node
        line = f":{node.line}" if node.line else ""
        full = ".".join(part for part in (self._name, name) if part)
        raise self.error(f"{self._path}{line}: {f'{full} ' if full else ''}{problem}")

    def section(self, name: str) -> Self:
        """A mapping inside this one; an empty one where there is none."""
        inner = self._node.value[name] if name in self else Node({}, self._node.line)
        full = f"{self._name}.{name}" if self._name else name
        return type(self)(self._path, inner, full, self._environment)

    def names(self) -> list[str]:
        """All names in this section, in the file's order; they do not count as read."""
        return list(self._node.value)

    def is_section(self, name: str) -> bool:
        return name in self and isinstance(self._node.value[name].value, dict)

    def text(self, name: str, default: str | None = None) -> str:
        """A text that is not empty; required without a default."""
        if name not in self:
            return self.wrong(name, "is missing") if default is None else default
        found = self._expanded(name, self._node.value[name].value)
        if not isinstance(found, str) or not found.strip():
            self.wrong(name, f"is {found!r}, which is not a text")
        return found

    def texts(self, name: str) -> tuple[str, ...]:
        """A list of texts; a single text is a list of one, a missing value an empty list."""
        if name not in self:
            return ()
        found = self._node.value[name].value
        values = [node.value for node in found] if isinstance(found, list) else [found]
        texts = [self._expanded(name, value) for value in values]
        for value in texts:
            if not isinstance(value, str) or not value.strip():
                self.wrong(name, f"has {value!r}, which is not a text")
        if len(set(texts)) < len(texts):
            self.wrong(name, "has a duplicate")
        return tuple(texts)

    def whole(self, name: str, default: int, *, least: int = 1) -> int:
        if name not in self:
            return default
        value = self._filled(name)
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            self.wrong(name, f"is {value!r}, not a whole number from {least} on")
        return value

    def truth(self, name: str, *, default: bool) -> bool:
        if name not in self:
            return default
        value = self._filled(name)
        if not isinstance(value, bool):
            self.wrong(name, f"is {value!r}, neither true nor false")
        return value

    def choice(self, name: str, default: Choice) -> Choice:
        """One of an enum's values."""
        if name not in self:
            return default
        written = self.text(name)
        choices: list[str] = [member.value for member in type(default)]
        if written not in choices:
            self.wrong(name, f"is {written!r}; it can be {', '.join(choices)}{near_to(written, choices)}")
        return type(default)(written)

    def interval(self, name: str, default: str | None = None) -> Interval:
        """A length of time: `10 seconds`, `1 minute`."""
        written = self.text(name, default)
        found = _INTERVAL.fullmatch(written)
        if not found or not int(found[1]):
            self.wrong(name, f"is {written!r}, not a length of time such as `10 seconds`, `1 minute` or `2 hours`")
        return Interval(f"{found[1]} {found[2]}s", int(found[1]) * _SECONDS[found[2]])

    def options(self, name: str) -> dict[str, str]:
        """Free settings: names unchanged, dots included, values as text. TOML's tables become dotted names."""
        inner = self.section(name)
        return dict(inner._flat("", inner._node))  # noqa: SLF001 - another of this class.

    def take(self, name: str, read: Callable[[str], Any], default: str | None = None) -> Any:
        """A text, parsed by a function; a mistake that it raises becomes the reason in the error."""
        written = self.text(name, default)
        try:
            return read(written)
        except self.error:
            raise
        except self.mistakes as error:
            return self.wrong(name, f"is {written!r}: {error}")

    def finish(self) -> None:
        """Raise the error for keys that were never read."""
        for name in self._node.value:
            if name not in self._asked:
                self.wrong(name, f"is not known here{near_to(name, self._asked)}")

    def _flat(self, prefix: str, node: Node) -> Iterable[tuple[str, str]]:
        for name, inner in node.value.items():
            full = f"{prefix}{name}"
            if isinstance(inner.value, dict):
                yield from self._flat(f"{full}.", inner)
            elif isinstance(inner.value, list) or inner.value is None:
                self.wrong("", f"has {full}, which is neither a text nor a number")
            else:
                value = self._expanded(full, inner.value)
                yield full, str(value).lower() if isinstance(value, bool) else _text_of(inner, value)

    def _filled(self, name: str) -> Any:
        """A value; where a variable stands for it, the number or truth that the variable's text is."""
        value = self._node.value[name].value
        text = self._expanded(name, value)
        if text == value:
            return value
        return int(text) if text.isascii() and text.isdecimal() else {"true": True, "false": False}.get(text, text)

    def _expanded(self, name: str, value: Any) -> Any:
        """Replace variables by the environment's values."""
        if not isinstance(value, str):
            return value

        def filled(found: re.Match[str]) -> str:
            if found[1] in self._environment:
                return self._environment[found[1]]
            return self.wrong(name, f"uses ${found[1]}, which is not set") if found[2] is None else found[2]

        return _VARIABLE.sub(filled, value)


def _text_of(node: Node, value: Any) -> str:
    """A free setting's text. A number is what is written: it may be a password, or a version."""
    return value if isinstance(value, str) else node.written or str(value)


def near_to(name: str, known: Iterable[str]) -> str:
    """A suggestion, as the end of a sentence; empty if no known name is similar."""
    near = difflib.get_close_matches(name, sorted(known), 1)
    return f" (did you mean {near[0]}?)" if near else ""
