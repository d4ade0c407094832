r"""The line of JAAS configuration with the name and password of a Java client.

    org.apache.kafka.common.security.plain.PlainLoginModule required username="ann" password="s\"cret";

A module's name, a flag, options with values in quotes or bare, a semicolon; `\` in quotes escapes the next character.
"""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from sordini.pipeline.errors import BadSetting

_MODULES: Final = {"PlainLoginModule": "PLAIN", "ScramLoginModule": "SCRAM"}
_FLAGS: Final = frozenset({"required", "requisite", "sufficient", "optional"})
_ENTRY: Final = re.compile(r"\s*(?P<module>[\w.$]+)\s+(?P<flag>\w+)(?P<options>.*?);\s*", re.DOTALL)
_OPTION: Final = re.compile(r"""\s+([\w.]+)\s*=\s*(?:"((?:[^"\\]|\\.)*)"|'((?:[^'\\]|\\.)*)'|([^\s"';]+))""", re.DOTALL)
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


class Login(NamedTuple):
    """A module's family of mechanisms, and the credentials."""

    mechanism: str
    username: str
    password: str


def read_jaas(text: str) -> Login:
    """Parse the line of a name and password. Raises BadSetting; its text never has the line, with the password."""
    module = _entry(text)["module"].rpartition(".")[2]
    if module not in _MODULES:
        known = " and ".join(_MODULES)
        raise BadSetting(f"kafka.sasl.jaas.config names {module}: this client supports {known}")
    options = jaas_options(text, module)
    for name in ("username", "password"):
        if name not in options:
            raise BadSetting(f"kafka.sasl.jaas.config has no {name}")
    return Login(_MODULES[module], options["username"], options["password"])


def jaas_options(text: str, expected: str) -> dict[str, str]:
    """The options of a line of this module. Raises BadSetting; its text never has the line, which contains secrets."""
    entry = _entry(text)
    module = entry["module"].rpartition(".")[2]
    if module != expected:
        raise BadSetting(f"kafka.sasl.jaas.config names {module}, and {expected} is needed")
    options = {}
    position = 0
    rest = entry["options"].rstrip()
    while position < len(rest):
        found = _OPTION.match(rest, position)
        if found is None:
            raise BadSetting('kafka.sasl.jaas.config: after the flag there must be options like username="..."')
        name, quoted, single, bare = found.groups()
        options[name] = bare if bare is not None else _ESCAPED.sub(r"\1", quoted if quoted is not None else single)
        position = found.end()
    return options


def _entry(text: str) -> re.Match[str]:
    entry = _ENTRY.fullmatch(text)
    if entry is None or entry["flag"].lower() not in _FLAGS:
        raise BadSetting('kafka.sasl.jaas.config is not `MODULE required username="..." password="...";`')
    return entry
