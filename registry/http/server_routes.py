"""The registry itself: its root, its contexts, what it is."""

from __future__ import annotations

from typing import Any, Final

from sordini import __version__
from sordini.registry.http.calls import Call, Operation, Route, Rule
from sordini.registry.http.subject_routes import paged
from sordini.registry.state.deleting import delete_context
from sordini.registry.state.names import DEFAULT_CONTEXT, context_of

GROUP: Final = "schema-registry"


def routes(cluster_id: str) -> list[Route]:
    async def metadata_id(_call: Call) -> dict[str, Any]:
        clusters = {"kafka-cluster": cluster_id, "schema-registry-cluster": GROUP}
        return {"id": "", "scope": {"path": [], "clusters": clusters}}

    return [
        Route("GET", "/", Rule.NOTHING, root),
        Route("POST", "/", Rule.NOTHING, root),
        Route("GET", "/contexts", Rule.NOTHING, contexts),
        Route("DELETE", "/contexts/{context}", Rule.ALTER_ALL, remove_context),
        Route("GET", "/v1/metadata/id", Rule.NOTHING, metadata_id),
        Route("GET", "/v1/metadata/version", Rule.NOTHING, metadata_version),
    ]


async def root(_call: Call) -> dict[str, Any]:
    return {}


async def contexts(call: Call) -> list[str]:
    state = call.registry.state
    allowed = await call.visitor.allowed(Operation.READ, set(state.subjects))
    read = {context_of(subject) for subject in allowed}
    used = {context_of(subject) for subject in state.subjects}
    shown = sorted({DEFAULT_CONTEXT, *read, *(state.contexts - used)})
    prefix = call.text("contextPrefix") or ""
    return paged(call, [context for context in shown if context.startswith(prefix)])


async def remove_context(call: Call) -> None:
    context = call.params["context"].strip(":") or DEFAULT_CONTEXT
    await call.registry.change(lambda state: delete_context(state, context))


async def metadata_version(_call: Call) -> dict[str, Any]:
    return {"version": __version__, "commitId": ""}
