"""Subjects and their versions: registered, looked up, listed, deleted and compared."""

from __future__ import annotations

from typing import Any

from sordini.registry.http.calls import Call, Operation, Route, Rule
from sordini.registry.http.responses import Text
from sordini.registry.http.shapes import registered_schema, submission_of
from sordini.registry.records import SchemaRecord
from sordini.registry.state import lookups
from sordini.registry.state.deleting import delete_subject, delete_version
from sordini.registry.state.lookups import Deleted
from sordini.registry.state.names import (
    ANY_CONTEXT,
    DEFAULT_CONTEXT,
    context_of,
    in_context,
    normalized_subject,
    qualified,
)
from sordini.registry.state.refusals import Refusal

UNKNOWN_PROPERTIES = "confluent-accept-unknown-properties"
"""The header of clients that take more than an id for a schema that they register."""


def routes() -> list[Route]:
    one = "/subjects/{subject}/versions/{version}"
    compared = "/compatibility/subjects/{subject}/versions"
    return [
        Route("GET", "/subjects", Rule.NOTHING, list_subjects),
        Route("POST", "/subjects/{subject}", Rule.READ, find_schema),
        Route("DELETE", "/subjects/{subject}", Rule.DELETE, remove_subject),
        Route("GET", "/subjects/{subject}/metadata", Rule.READ, with_metadata),
        Route("GET", "/subjects/{subject}/versions", Rule.READ, list_versions),
        Route("POST", "/subjects/{subject}/versions", Rule.WRITE, register),
        Route("GET", one, Rule.READ, version),
        Route("DELETE", one, Rule.DELETE, remove_version),
        Route("GET", f"{one}/schema", Rule.READ, version_text),
        Route("GET", f"{one}/referencedby", Rule.READ, referenced_by),
        Route("POST", compared, Rule.READ, compare),
        Route("POST", compared + "/{version}", Rule.READ, compare),
    ]


async def list_subjects(call: Call) -> list[str]:
    default = ANY_CONTEXT if call.context == DEFAULT_CONTEXT else qualified(call.context, "")
    found = lookups.subjects(call.registry.state, call.text("subjectPrefix") or default, deleted_of(call))
    allowed = await call.visitor.allowed(Operation.READ, found)
    return paged(call, [subject for subject in found if subject in allowed])


async def find_schema(call: Call) -> dict[str, Any]:
    submission = submission_of(call.subject, call.json(), normalizes=call.flag("normalize"))
    await check_references(call, [reference.subject for reference in submission.references])
    deleted = call.flag("deleted")
    return registered_schema(await call.registry.find_schema(submission, call.client, deleted=deleted))


async def register(call: Call) -> dict[str, Any]:
    submission = submission_of(call.subject, call.json(), normalizes=call.flag("normalize"))
    await check_references(call, [reference.subject for reference in submission.references])
    record = await call.registry.register(submission, call.client)
    if call.headers.get(UNKNOWN_PROPERTIES, "").lower() == "true":
        # No text: such clients would keep it, and with Protobuf they need the one that they sent, a descriptor.
        return {"id": record.id, "version": record.version, "guid": record.guid}
    return {"id": record.id}


async def compare(call: Call) -> dict[str, Any]:
    version = lookups.version_number(call.params["version"]) if "version" in call.params else None
    submission = submission_of(call.subject, call.json(), normalizes=call.flag("normalize"))
    await check_references(call, [reference.subject for reference in submission.references])
    judged = await call.registry.compare(submission, version, call.client)
    answer: dict[str, Any] = {"is_compatible": not judged.problems}
    if call.flag("verbose"):
        answer["messages"] = list(judged.problems)
    return answer


async def list_versions(call: Call) -> list[int]:
    return paged(call, lookups.version_numbers(call.registry.state, call.subject, deleted_of(call)))


async def version(call: Call) -> dict[str, Any]:
    return registered_schema(await formatted(call, _version(call)))


async def version_text(call: Call) -> Text:
    return Text((await formatted(call, _version(call))).text)


async def formatted(call: Call, record: SchemaRecord) -> SchemaRecord:
    """A version with its text in the format that is asked for."""
    wanted = call.text("format")
    if not wanted:
        return record
    return record._replace(text=await call.registry.formatted(record, wanted, call.client))


def _version(call: Call) -> SchemaRecord:
    number = lookups.version_number(call.params["version"])
    return lookups.version_of(call.registry.state, call.subject, number, deleted=call.flag("deleted"))


async def with_metadata(call: Call) -> dict[str, Any]:
    wanted = dict(zip(call.texts("key"), call.texts("value"), strict=False))
    found = lookups.with_metadata(call.registry.state, call.subject, wanted, deleted=call.flag("deleted"))
    return registered_schema(await formatted(call, found))


async def referenced_by(call: Call) -> list[int]:
    state, number = call.registry.state, lookups.version_number(call.params["version"])
    record = lookups.version_of(state, call.subject, number, deleted=True)
    referrers = state.referrers(record.subject, record.version)
    allowed = await call.visitor.allowed(Operation.READ, {one.subject for one in referrers})
    return paged(call, sorted({one.id for one in referrers if one.subject in allowed}))


async def remove_subject(call: Call) -> Any:
    subject, permanent = call.subject, call.flag("permanent")
    return await call.registry.change(lambda state: delete_subject(state, subject, permanent=permanent))


async def remove_version(call: Call) -> Any:
    subject, permanent = call.subject, call.flag("permanent")
    number = lookups.version_number(call.params["version"])
    return await call.registry.change(lambda state: delete_version(state, subject, number, permanent=permanent))


async def check_references(call: Call, subjects: list[str]) -> None:
    """A schema must not show what its sender may not read: in messages, or by the schema that is made of it."""
    wanted = {normalized_subject(in_context(context_of(call.subject), subject)) for subject in subjects}
    if wanted and not wanted <= await call.visitor.allowed(Operation.READ, wanted):
        raise Refusal(40301, f"{call.visitor.principal} may not read all subjects that the schema refers to")


def deleted_of(call: Call) -> Deleted:
    """Whether a list has what is deleted softly; one client spells a name in another way."""
    return Deleted(call.flag("deleted"), call.flag("deletedOnly", "deleted_only"))


def paged(call: Call, rows: list[Any]) -> list[Any]:
    return lookups.page(rows, max(call.number("offset", 0), 0), call.number("limit", -1))
