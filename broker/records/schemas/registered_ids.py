"""The schema ids that are registered for each subject, by the records of a registry's topic. Pure.

    {"keytype":"SCHEMA","subject":"orders-value","version":1,"magic":1}  ->  {"id":7,"deleted":false,...}, or null
    {"keytype":"CLEAR_SUBJECT","subject":"orders-value","magic":0}       ->  {"subject":"orders-value"}
    {"keytype":"CONFIG","subject":"old-value","magic":0}                 ->  {"alias":"orders-value",...}

A version that is deleted softly keeps its id: what was produced with it has to stay readable, and producers keep ids in
memory. A null value removes the version: it was deleted permanently, as are all versions of a subject that is cleared.
A subject that is an alias has the ids of the other one. All other records say nothing of ids. Subjects of contexts
other than the default one (`:.name:subject`) are subjects of no topic.
"""

from __future__ import annotations

import json
from typing import Any, Final

from sordini.broker.records.schemas.registered_texts import RegisteredTexts

VERSIONS_MAX: Final = 1_000_000
"""Beyond it versions are not kept, and their ids are not known: a gigabyte would be reached at some millions."""
_SCHEMA: Final = "SCHEMA"
_CLEAR_SUBJECT: Final = "CLEAR_SUBJECT"
_CONFIG: Final = "CONFIG"
ALIASES_MAX: Final = 100_000


class RegisteredIds:
    """What was read so far; `texts` has the schemas themselves, where they are needed."""

    def __init__(self, texts: RegisteredTexts | None = None) -> None:
        self.texts = texts
        self._ids: dict[str, dict[int, int]] = {}
        self._aliases: dict[str, str] = {}
        self._count = 0

    def apply(self, key: bytes, value: bytes | None, _offset: int) -> None:
        """Take a record of the topic; one that is not of a registry is skipped."""
        about = _fields(key)
        subject = None if about is None else about.get("subject")
        if about is None or not isinstance(subject, str):
            return
        match about.get("keytype"), about.get("version"):
            case str(keytype), int(version) if keytype == _SCHEMA:
                self._take(subject, version, value)
            case str(keytype), _ if keytype == _CLEAR_SUBJECT and value is not None:
                for version in list(self._ids.get(subject, ())):
                    self._remove(subject, version)
            case str(keytype), _ if keytype == _CONFIG:
                self._take_alias(subject, None if value is None else _fields(value))

    def is_registered(self, subject: str, schema_id: int) -> bool:
        """Whether a version of the subject, or of the one that it is an alias of, has this id."""
        return schema_id in self._ids.get(self.named(subject), {}).values()

    def named(self, subject: str) -> str:
        """The subject that a subject is an alias of, or itself."""
        return self._aliases.get(subject, subject)

    def _take_alias(self, subject: str, settings: dict[str, Any] | None) -> None:
        alias = (settings or {}).get("alias")
        self._aliases.pop(subject, None)
        if isinstance(alias, str) and alias and len(self._aliases) < ALIASES_MAX:
            self._aliases[subject] = alias.removeprefix(":.:")

    def _take(self, subject: str, version: int, value: bytes | None) -> None:
        self._remove(subject, version)
        fields = None if value is None else _fields(value)
        schema_id = None if fields is None else fields.get("id")
        if fields is not None and isinstance(schema_id, int) and self._count < VERSIONS_MAX:
            self._ids.setdefault(subject, {})[version] = schema_id
            self._count += 1
            if self.texts is not None:
                self.texts.put(subject, version, schema_id, fields)

    def _remove(self, subject: str, version: int) -> None:
        if self.texts is not None:
            self.texts.remove(subject, version)
        versions = self._ids.get(subject)
        if versions is not None and versions.pop(version, None) is not None:
            self._count -= 1
            if not versions:
                del self._ids[subject]


def _fields(data: bytes) -> dict[str, Any] | None:
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
