"""Changes of topics: create, delete, configure, add partitions, produce a record."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from starlette.responses import Response
from starlette.routing import Route

from sordini.admin.config_requests import TOPIC, Resource, alter_configs
from sordini.admin.failure import Failure
from sordini.admin.topics.record_production import produce_record
from sordini.admin.topics.topic_requests import add_partitions, create_topics, delete_topics
from sordini.client.errors import ClientError
from sordini.console.pages.topic_pages import read_topic
from sordini.console.security.login_gate import LoginGate
from sordini.console.visit import Visit, WrongInput

BROKER_DEFAULT: Final = -1
PARTITIONS_MAX: Final = 100_000
REPLICAS_MAX: Final = 1_000
FIELD_BYTES_MAX: Final = 1024 * 1024
ENCODINGS: Final = ("text", "hex")


def routes(gate: LoginGate) -> list[Route]:
    return [
        gate.get("/topics/create", show_creation),
        gate.post("/topics/create", create),
        gate.get("/topic/delete", show_deletion),
        gate.post("/topic/delete", delete),
        gate.post("/topic/configuration", configure),
        gate.get("/topic/partitions", show_addition),
        gate.post("/topic/partitions", add),
        gate.get("/topic/produce", show_production),
        gate.post("/topic/produce", produce),
    ]


async def show_creation(visit: Visit) -> Response:
    return visit.page("topic_create.html")


async def create(visit: Visit) -> Response:
    """Create a topic with settings, one KEY=VALUE on each line."""
    name = visit.needed("name").strip()
    partitions = visit.number("partitions", BROKER_DEFAULT, 1, PARTITIONS_MAX)
    replicas = visit.number("replicas", BROKER_DEFAULT, 1, REPLICAS_MAX)
    configs = _settings(visit.field("configs"))
    try:
        rows = await create_topics(
            visit.cluster,
            [name],
            partitions=partitions,
            replication_factor=replicas,
            configs=configs,
            validate_only=False,
            if_not_exists=False,
        )
        _raise_errors(rows)
    except ClientError as error:
        visit.audit("create topic", f"failed: {error}", topic=name)
        raise
    visit.audit("create topic", "done", topic=name, partitions=partitions, replicas=replicas, configs=configs)
    return visit.go("/topic", f"Topic {name} was created.", name=name)


def _settings(text: str) -> dict[str, str]:
    found = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise WrongInput(f"{line!r} is no KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _raise_errors(rows: Sequence[Mapping[str, Any]]) -> None:
    errors = [row["error"] for row in rows if row["error"] is not None]
    if errors:
        raise Failure(*errors)


async def show_deletion(visit: Visit) -> Response:
    name, state, topic_id = await read_topic(visit)
    return visit.page("topic_delete.html", name=name, topic_id=topic_id, tab="delete", count=len(state.partitions))


async def delete(visit: Visit) -> Response:
    """Delete a topic whose name was typed."""
    name = visit.needed("name")
    if visit.field("confirmation") != name:
        raise WrongInput(f"nothing was deleted: type the name of the topic, {name}, to confirm it")
    try:
        _raise_errors(await delete_topics(visit.cluster, [name], if_exists=False))
    except ClientError as error:
        visit.audit("delete topic", f"failed: {error}", topic=name)
        raise
    visit.audit("delete topic", "done", topic=name)
    return visit.go("/topics", f"Topic {name} was deleted.")


async def configure(visit: Visit) -> Response:
    """Set one key, or remove it so that the default applies."""
    name, key = visit.needed("name"), visit.needed("key")
    is_removal = visit.choice("action", ("set", "remove")) == "remove"
    changes = [] if is_removal else [(key, "", visit.field("value"))]
    unset = [key] if is_removal else []
    try:
        await alter_configs(visit.cluster, [Resource(TOPIC, name)], changes, unset, validate_only=False)
    except ClientError as error:
        visit.audit("configure topic", f"failed: {error}", topic=name, key=key)
        raise
    visit.audit("configure topic", "done", topic=name, key=key, value=None if is_removal else visit.field("value"))
    words = "is its default again" if is_removal else f"is {visit.field('value')} now"
    return visit.go("/topic/configuration", f"{key} {words}.", name=name)


async def show_addition(visit: Visit) -> Response:
    name, state, topic_id = await read_topic(visit)
    return visit.page("topic_partitions.html", name=name, topic_id=topic_id, tab="add", count=len(state.partitions))


async def add(visit: Visit) -> Response:
    """Add partitions: there is no way back."""
    name = visit.needed("name")
    visit.needed("count")
    count = visit.number("count", 1, 1, PARTITIONS_MAX)
    try:
        await add_partitions(visit.cluster, name, count, validate_only=False)
    except ClientError as error:
        visit.audit("add partitions", f"failed: {error}", topic=name, partitions=count)
        raise
    visit.audit("add partitions", "done", topic=name, partitions=count)
    return visit.go("/topic", f"Topic {name} has {count} partitions now.", name=name)


async def show_production(visit: Visit) -> Response:
    name, state, topic_id = await read_topic(visit)
    return visit.page(
        "produce.html", name=name, topic_id=topic_id, tab="produce", count=len(state.partitions), encodings=ENCODINGS
    )


async def produce(visit: Visit) -> Response:
    """Send one record."""
    name = visit.needed("name")
    partition = visit.number("partition", BROKER_DEFAULT, -1, 2**31 - 1)
    key = _bytes(visit, "key") if visit.field("key") else None
    value = None if visit.field("is_null") == "yes" else _bytes(visit, "value")
    headers = [(key, value.encode()) for key, value in _header_lines(visit.field("headers"))]
    try:
        where, offset = await produce_record(
            visit.cluster, name, None if partition < 0 else partition, key, value, headers
        )
    except ClientError as error:
        visit.audit("produce record", f"failed: {error}", topic=name)
        raise
    visit.audit("produce record", "done", topic=name, partition=where.partition, offset=offset)
    notice = f"The record is in partition {where.partition} at offset {offset}."
    return visit.go("/topic/record", notice, name=name, partition=where.partition, offset=offset)


def _bytes(visit: Visit, field: str) -> bytes:
    text = visit.field(field)
    encoding = visit.choice(f"{field}_encoding", ENCODINGS)
    if encoding == "hex":
        try:
            return bytes.fromhex(text)
        except ValueError:
            raise WrongInput(f"{field} is no hex: allowed are pairs of the digits 0-9 and a-f") from None
    # A browser sends line breaks as CR LF.
    return text.replace("\r\n", "\n").encode(errors="surrogatepass")


def _header_lines(text: str) -> list[tuple[str, str]]:
    found = []
    for line in filter(None, text.splitlines()):
        key, colon, value = line.partition(":")
        if not colon:
            raise WrongInput(f"the header {line!r} is no KEY:VALUE")
        found.append((key.strip(), value.strip()))
    return found
