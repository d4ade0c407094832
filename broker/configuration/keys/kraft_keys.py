"""A configuration of Apache Kafka in KRaft mode, as Kafka 4 ships it, taken over by one broker or refused.

    process.roles        controllers and brokers       here
    (none)               -                             node.id serves as broker.id, as in Apache Kafka itself
    broker,controller    this process alone            taken over: node.id, and no listener for controllers
    broker,controller    a quorum with others          refused: brokers find each other by zookeeper.connect
    broker               of a quorum                   refused, for the same reason
    controller           of a quorum                   refused: every broker can be the controller

With `zookeeper.connect` a broker of any quorum is taken over, because the cluster is named. A key of KRaft that has no
effect is no unknown key; all of them are named together (`Takeover.note`). Pure.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from sordini.broker.configuration.settings import ConfigError
from sordini.system.named_tuple import NamedTuple

ROLES, NODE_ID, BROKER_ID = "process.roles", "node.id", "broker.id"
VOTERS, BOOTSTRAP = "controller.quorum.voters", "controller.quorum.bootstrap.servers"
CONTROLLER_LISTENERS: Final = "controller.listener.names"
LISTENER_KEYS: Final = ("listeners", "advertised.listeners")
GENERATION: Final = "broker.id.generation.enable"
PAGE: Final = "docs/kraft.md"

_KEYS = re.compile(
    r"process\.roles|node\.id|early\.start\.listeners|server\.max\.startup\.time\.ms"
    r"|(initial\.broker\.registration|broker\.session)\.timeout\.ms|broker\.heartbeat\.interval\.ms"
    r"|sasl\.mechanism\.controller\.protocol|eligible\.leader\.replicas\.enable"
    r"|unclean\.leader\.election\.interval\.ms|unstable\.(api|feature)\.versions\.enable"
    r"|controller\.(listener\.names|quorum\..+|performance\..+)|(internal\.)?metadata\.(log|max)\..+"
    r"|internal\.metadata\.delete\..+|zookeeper\.metadata\.migration\..+|group\.(share\.enable|streams\..+)"
    r"|share\.coordinator\.(threads|append\.linger\.ms|cached\.buffer\.max\.bytes)"
)
"""Keys of the mode, and of what only brokers in it have: the share coordinator's threads, Kafka Streams' own groups."""


class Takeover(NamedTuple):
    """A configuration without KRaft's keys."""

    entries: dict[str, str]
    note: dict[str, str]
    """Fields of the log line that says what was taken over; empty for a configuration without KRaft's keys."""


def is_kraft_key(key: str) -> bool:
    """Whether only a broker or controller in KRaft mode has this key."""
    return _KEYS.fullmatch(key) is not None


def taken_over(entries: Mapping[str, str]) -> Takeover:
    """The configuration as one broker uses it. Raises ConfigError where its cluster is not this broker's alone."""
    found = {key: text.strip() for key, text in entries.items() if is_kraft_key(key)}
    if not found:
        return Takeover(dict(entries), {})
    kept = {key: text for key, text in entries.items() if key not in found}
    if roles := found.get(ROLES):
        _check_roles(roles, found, kept)
    note = _with_broker_id(kept, found)
    names = {name.strip().upper() for name in found.get(CONTROLLER_LISTENERS, "").split(",") if name.strip()}
    closed = _without_listeners(kept, names)
    if closed:
        note["not_opened"] = ", ".join(closed)
    unused = sorted(found.keys() - {NODE_ID})
    if unused:
        note["without_effect"] = ", ".join(unused)
    return Takeover(kept, note)


def _check_roles(text: str, found: Mapping[str, str], kept: Mapping[str, str]) -> None:
    roles = {role.strip() for role in text.split(",")}
    if not roles <= {"broker", "controller"}:
        raise ConfigError(f"{ROLES}={text!r} is not valid: allowed is broker,controller")
    if "broker" not in roles:
        raise ConfigError(
            f"{ROLES}={text!r} is a KRaft controller, which Sordini does not have: each of its brokers can be the "
            f"controller. Start the brokers only ({PAGE})"
        )
    if not found.get(NODE_ID) and not kept.get(BROKER_ID):
        raise ConfigError(f"{ROLES}={text!r} is not valid without {NODE_ID}: allowed is {NODE_ID}=N, the broker's id")
    if kept.get("zookeeper.connect", "").strip():
        return
    remedy = (
        f"remove the keys of KRaft, and set zookeeper.connect for a cluster of several brokers ({PAGE}); "
        "without it this broker would be a cluster of its own"
    )
    if "controller" not in roles:
        raise ConfigError(f"{ROLES}={text!r} is a broker of a KRaft quorum, which Sordini cannot join: {remedy}")
    for key in (VOTERS, BOOTSTRAP):
        members = [member for member in found.get(key, "").split(",") if member.strip()]
        if len(members) > 1:
            raise ConfigError(f"{key}={found[key]!r} is a KRaft quorum, which Sordini cannot join: {remedy}")


def _with_broker_id(kept: dict[str, str], found: Mapping[str, str]) -> dict[str, str]:
    """Let node.id serve as broker.id; what to say of it."""
    node_id = found.get(NODE_ID, "")
    if not node_id:
        return {}
    if not (node_id.isascii() and node_id.isdecimal()):
        raise ConfigError(f"{NODE_ID}={node_id!r} is not valid: allowed is a whole number of at least 0")
    broker_id = kept.get(BROKER_ID, node_id).strip()
    if broker_id != node_id:
        raise ConfigError(
            f"{NODE_ID}={node_id} and {BROKER_ID}={broker_id} are two names of one id: allowed is one value for both"
        )
    kept[BROKER_ID] = node_id
    kept.setdefault(GENERATION, "false")  # Ids of this mode are above reserved.broker.max.id, too.
    return {"broker_id": f"{node_id} (node.id)"}


def _without_listeners(kept: dict[str, str], names: set[str]) -> list[str]:
    """Remove the listeners for controllers, and their own keys; what was removed from `listeners`."""
    closed: list[str] = []
    for key in LISTENER_KEYS:
        if not kept.get(key, "").strip():
            continue
        parts = [part.strip() for part in kept[key].split(",") if part.strip()]
        own = [part for part in parts if part.partition("://")[0].upper() not in names]
        if key == "listeners":
            closed = [part for part in parts if part not in own]
        kept[key] = ",".join(own)
    for name in names:
        prefix = f"listener.name.{name.lower()}."
        for key in [key for key in kept if key.lower().startswith(prefix)]:
            del kept[key]
    return closed
