"""Schemas by id and by guid, whatever their subjects; and all of them."""

from __future__ import annotations

from typing import Any

from sordini.registry.http.calls import Call, Operation, Route, Rule, whole_number
from sordini.registry.http.responses import Text
from sordini.registry.http.shapes import has_rule, registered_schema, schema_string
from sordini.registry.http.subject_routes import deleted_of, formatted, paged
from sordini.registry.records import SchemaRecord
from sordini.registry.state import lookups
from sordini.registry.state.names import ANY_CONTEXT, DEFAULT_CONTEXT, context_of, in_context, qualified
from sordini.registry.state.refusals import schema_not_found


def routes() -> list[Route]:
    by_id, by_guid = "/schemas/ids/{id}", "/schemas/guids/{guid}"
    return [
        Route("GET", "/schemas", Rule.NOTHING, list_schemas),
        Route("GET", "/schemas/types", Rule.NOTHING, types),
        Route("GET", by_id, Rule.NOTHING, schema),
        Route("GET", f"{by_id}/schema", Rule.NOTHING, schema_text),
        Route("GET", f"{by_id}/subjects", Rule.NOTHING, subjects),
        Route("GET", f"{by_id}/versions", Rule.NOTHING, versions),
        Route("GET", by_guid, Rule.NOTHING, schema_of_guid),
        Route("GET", f"{by_guid}/ids", Rule.NOTHING, ids_of_guid),
    ]


async def types(_call: Call) -> list[str]:
    return ["JSON", "PROTOBUF", "AVRO"]


async def list_schemas(call: Call) -> list[dict[str, Any]]:
    default = ANY_CONTEXT if call.context == DEFAULT_CONTEXT else qualified(call.context, "")
    prefix, latest, state = call.text("subjectPrefix") or default, call.flag("latestOnly"), call.registry.state
    aliases = await _readable_aliases(call) if call.flag("aliases") else {}
    found = lookups.schemas(state, prefix, deleted_of(call), latest_only=latest, aliases=aliases)
    if rule_type := call.text("ruleType"):
        found = [record for record in found if has_rule(record, rule_type)]
    readable = paged(call, await _readable(call, found))
    return [registered_schema(record) | _aliases(aliases.get(record.subject)) for record in readable]


async def _readable_aliases(call: Call) -> dict[str, list[str]]:
    aliases = call.registry.state.aliases()
    allowed = await call.visitor.allowed(Operation.READ, {name for names in aliases.values() for name in names})
    return {subject: [name for name in names if name in allowed] for subject, names in aliases.items()}


def _aliases(names: list[str] | None) -> dict[str, Any]:
    return {"aliases": names} if names else {}


async def schema(call: Call) -> dict[str, Any]:
    record = await formatted(call, (await _of_id(call))[0])
    members = schema_string(record)
    if call.flag("fetchMaxId"):
        members["maxId"] = call.registry.state.highest_ids.get(context_of(record.subject), 0)
    return members


async def schema_text(call: Call) -> Text:
    return Text((await formatted(call, (await _of_id(call))[0])).text)


async def subjects(call: Call) -> list[str]:
    deleted = call.flag("deleted")
    found = [record.subject for record in await _of_id(call) if deleted or not record.deleted]
    return paged(call, list(dict.fromkeys(found)))


async def versions(call: Call) -> list[dict[str, Any]]:
    deleted = call.flag("deleted")
    found = [
        {"subject": record.subject, "version": record.version}
        for record in await _of_id(call)
        if deleted or not record.deleted
    ]
    return paged(call, found)


async def schema_of_guid(call: Call) -> dict[str, Any]:
    return schema_string(await formatted(call, (await _of_guid(call))[0]))


async def ids_of_guid(call: Call) -> list[dict[str, Any]]:
    found = {(context_of(record.subject), record.id) for record in await _of_guid(call)}
    return paged(call, [{"context": context, "id": number} for context, number in sorted(found)])


async def _of_id(call: Call) -> list[SchemaRecord]:
    """The versions with an id that the visitor may read, of which there is one at least."""
    number, subject = whole_number(call.params["id"], "the id"), call.text("subject")
    found = lookups.of_id(call.registry.state, number, _named(call, subject or ""))
    readable = await _readable(call, found)
    if not readable:
        raise schema_not_found(number)
    return readable


def _named(call: Call, subject: str) -> str:
    written = in_context(call.context, subject)
    return call.registry.state.named(written) if subject else written


async def _of_guid(call: Call) -> list[SchemaRecord]:
    state, guid = call.registry.state, call.params["guid"]
    found = [record for context, number in lookups.of_guid(state, guid) for record in state.of_id(context, number)]
    readable = await _readable(call, [record for record in found if record.guid == guid])
    if not readable:
        raise schema_not_found(guid)
    return readable


async def _readable(call: Call, records: list[SchemaRecord]) -> list[SchemaRecord]:
    allowed = await call.visitor.allowed(Operation.READ, {record.subject for record in records})
    return [record for record in records if record.subject in allowed]
