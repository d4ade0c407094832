"""What follows from a schema alone: the digest under which known registries find an equal one, and its GUID. Pure.

The digest is the MD5 of the canonical text, then of each reference its name, its subject and its version as four bytes,
then, where they are there, a byte 1 and the parts of metadata and of rules, in the order of the REST API. The GUID is
this digest, written as a UUID.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

from sordini.schemas.registered.types import Reference

_PRESENT: Final = b"\x01"
RULE_PHASES: Final = ("migrationRules", "domainRules", "encodingRules")
"""The lists of rules in a rule set."""


def digest(
    text: str,
    references: Iterable[Reference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> bytes:
    """Sixteen bytes; `metadata` and `rule_set` as in JSON of the REST API (`metadata`, `ruleSet`)."""
    made = hashlib.md5(text.encode(), usedforsecurity=False)
    for reference in references:
        made.update(reference.name.encode() + reference.subject.encode())
        made.update((reference.version & 0xFFFFFFFF).to_bytes(4, "big"))
    for part in _metadata_parts(metadata) if metadata is not None else ():
        made.update(part)
    for part in _rule_set_parts(rule_set) if rule_set is not None else ():
        made.update(part)
    return made.digest()


def guid(
    text: str,
    references: Iterable[Reference] = (),
    metadata: Mapping[str, Any] | None = None,
    rule_set: Mapping[str, Any] | None = None,
) -> str:
    """The same for equal schemas in all registries."""
    return str(uuid.UUID(bytes=digest(text, references, metadata, rule_set)))


def _metadata_parts(metadata: Mapping[str, Any]) -> Iterator[bytes]:
    """Tags, properties and sensitive names, each in the order of names."""
    yield _PRESENT
    for tag, values in sorted((metadata.get("tags") or {}).items()):
        yield tag.encode()
        yield from _texts(sorted(values))
    for name, value in sorted((metadata.get("properties") or {}).items()):
        yield name.encode() + value.encode()
    yield from _texts(sorted(metadata.get("sensitive") or ()))


def _rule_set_parts(rule_set: Mapping[str, Any]) -> Iterator[bytes]:
    yield _PRESENT
    for name in RULE_PHASES:
        for rule in rule_set.get(name) or ():
            yield from _rule_parts(rule)
    yield from _texts([rule_set.get("enableAt")])


def _rule_parts(rule: Mapping[str, Any]) -> Iterator[bytes]:
    yield from _texts([rule.get(name) for name in ("name", "doc", "kind", "mode", "type")])
    yield from _texts(sorted(rule.get("tags") or ()))
    for name, value in sorted((rule.get("params") or {}).items()):
        yield name.encode() + value.encode()
    yield from _texts([rule.get(name) for name in ("expr", "onSuccess", "onFailure")])
    if rule.get("disabled"):
        yield _PRESENT


def _texts(texts: Sequence[str | None]) -> Iterator[bytes]:
    return (text.encode() for text in texts if text is not None)
