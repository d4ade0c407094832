"""The requests of a registry's REST API that programs here send, and what its answers must be. They block.

An answer of another form than the API's is refused, whatever its status: what listens there may be no registry.
"""

from __future__ import annotations

import json
from typing import Any, Final
from urllib.parse import quote

from sordini.admin.failure import Failure
from sordini.admin.schema_registry.access import RegistryAccess
from sordini.admin.schema_registry.exchange import HttpAnswer, RegistryFailed, exchange
from sordini.schemas.registered.types import Reference, SchemaType
from sordini.schemas.registered.wire import SCHEMA_ID_MAX
from sordini.system.named_tuple import NamedTuple

REQUEST_S: Final = 10.0
MESSAGE_CHARACTERS_MAX: Final = 2_000
"""Of a registry's reasons, which may have whole schemas in them."""
OK: Final = 200
NOT_FOUND: Final = 404
NO_SCHEMA: Final = 40403
"""`error_code` of an id that has no schema."""
_REDIRECTS: Final = range(300, 400)
_LATEST: Final = "latest"


class RegistryRefused(Failure):
    """A registry answered with an error."""

    def __init__(self, registry: str, status: int, reason: str, code: int | None = None) -> None:
        """`code` is the API's own (`error_code`), which a server that is no registry does not send."""
        self.status = status
        self.code = code
        shown = reason if len(reason) <= MESSAGE_CHARACTERS_MAX else f"{reason[:MESSAGE_CHARACTERS_MAX]}..."
        super().__init__(f"the registry {registry} refused: {shown} ({status})")


class RegistryText(NamedTuple):
    """A schema as a registry has it."""

    type: SchemaType
    text: str
    references: tuple[Reference, ...] = ()


class SubjectVersion(NamedTuple):
    """A version of a subject."""

    subject: str
    version: int
    schema_id: int
    schema: RegistryText


class RegistryClient:
    """One registry. Every method raises RegistryFailed where there is no answer, and RegistryRefused for an error."""

    def __init__(self, access: RegistryAccess, request_s: float = REQUEST_S) -> None:
        """`request_s`: the longest time of one request."""
        self._access = access
        self._request_s = request_s

    @property
    def name(self) -> str:
        """The address, for messages."""
        return str(self._access.address)

    def schema(self, schema_id: int) -> RegistryText:
        """The schema of an id."""
        return self._text_of(self._get(f"/schemas/ids/{schema_id}"))

    def subjects_of(self, schema_id: int) -> list[tuple[str, int]]:
        """The subjects and versions that have an id."""
        rows = self._rows(self._get(f"/schemas/ids/{schema_id}/versions"), dict)
        return [(self._member(row, "subject", str), self._member(row, "version", int)) for row in rows]

    def version(self, subject: str, version: int | None = None) -> SubjectVersion:
        """A version of a subject, also one that is deleted softly; None is the latest that is not."""
        number = _LATEST if version is None else f"{version}?deleted=true"
        return self._version_of(self._get(f"{_path(subject)}/versions/{number}"))

    def subjects(self) -> list[str]:
        """The names of all subjects."""
        names: list[str] = self._rows(self._get("/subjects"), str)
        return names

    def versions(self, subject: str) -> list[int]:
        """The numbers of a subject's versions."""
        numbers: list[int] = self._rows(self._get(f"{_path(subject)}/versions"), int)
        return numbers

    def level(self, subject: str | None = None) -> str:
        """The compatibility level that is in force for a subject; None is that of all others."""
        path = "/config" if subject is None else f"/config/{quote(subject, safe='')}?defaultToGlobal=true"
        return str(self._member(self._get(path), "compatibilityLevel", str))

    def register(self, subject: str, schema: RegistryText) -> int:
        """The id of a schema in a subject, which gets it where it has not."""
        return self._id_of(self._post(f"{_path(subject)}/versions", schema))

    def find(self, subject: str, schema: RegistryText) -> int:
        """The id of a schema that a subject has."""
        return self._id_of(self._post(_path(subject), schema))

    def _get(self, path: str) -> Any:
        return self._value(exchange(self._access, "GET", path, None, self._request_s))

    def _post(self, path: str, schema: RegistryText) -> Any:
        members: dict[str, Any] = {"schema": schema.text, "schemaType": schema.type.value}
        if schema.references:
            members["references"] = [reference._asdict() for reference in schema.references]
        return self._value(exchange(self._access, "POST", path, json.dumps(members).encode(), self._request_s))

    def _value(self, answer: HttpAnswer) -> Any:
        if answer.status in _REDIRECTS:
            where = (answer.location or "nowhere")[:MESSAGE_CHARACTERS_MAX]
            raise RegistryFailed(f"the registry {self.name} redirects to {where}, which is not followed: name that one")
        try:
            value = json.loads(answer.body)
        except (ValueError, RecursionError):
            value = None
        if answer.status == OK and value is not None:
            return value
        match value:
            case {"message": str(reason)} if answer.status != OK:
                code = value.get("error_code")
                raise RegistryRefused(self.name, answer.status, reason, code if isinstance(code, int) else None)
        if answer.status == OK:
            raise self._odd("no JSON")
        raise RegistryFailed(f"the registry {self.name} answered with the status {answer.status}, and gave no reason")

    def _version_of(self, value: Any) -> SubjectVersion:
        subject, version = self._member(value, "subject", str), self._member(value, "version", int)
        return SubjectVersion(subject, version, self._id_of(value), self._text_of(value))

    def _text_of(self, value: Any) -> RegistryText:
        text, kind = self._member(value, "schema", str), value.get("schemaType", SchemaType.AVRO.value)
        if kind not in tuple(SchemaType):  # No set: it may be of any type.
            raise self._odd("a schema of a kind that is not known")
        references = value.get("references") or []
        if not isinstance(references, list):
            raise self._odd('no list as "references"')
        return RegistryText(SchemaType(kind), text, tuple(map(self._reference_of, references)))

    def _reference_of(self, value: Any) -> Reference:
        name, subject = self._member(value, "name", str), self._member(value, "subject", str)
        return Reference(name, subject, self._member(value, "version", int))

    def _id_of(self, value: Any) -> int:
        found: int = self._member(value, "id", int)
        if not 0 <= found <= SCHEMA_ID_MAX:
            raise self._odd(f"{found}, which is no id of a schema")
        return found

    def _member(self, value: Any, name: str, kind: type) -> Any:
        if not isinstance(value, dict) or not _is_a(value.get(name), kind):
            raise self._odd(f'no "{name}"')
        return value[name]

    def _rows(self, value: Any, kind: type) -> list[Any]:
        if not isinstance(value, list) or not all(_is_a(row, kind) for row in value):
            raise self._odd("no list")
        return value

    def _odd(self, what: str) -> RegistryFailed:
        return RegistryFailed(f"what listens at {self.name} is no registry: its answer has {what}")


def _is_a(value: Any, kind: type) -> bool:
    return isinstance(value, kind) and not isinstance(value, bool)


def _path(subject: str) -> str:
    return f"/subjects/{quote(subject, safe='')}"
