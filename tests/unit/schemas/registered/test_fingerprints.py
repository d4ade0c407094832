"""The digest of a schema, and its GUID."""

from __future__ import annotations

import hashlib
import uuid

from sordini.schemas.registered.fingerprints import digest, guid
from sordini.schemas.registered.types import Reference


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def test_the_digest_is_that_of_the_text_and_of_each_reference() -> None:
    assert digest('"int"') == md5(b'"int"')
    references = [Reference("a.B", "orders", 3), Reference("c", "d", -1)]
    assert digest('"int"', references) == md5(b'"int"a.Borders\x00\x00\x00\x03cd\xff\xff\xff\xff')


def test_metadata_and_rules_count_though_they_are_empty() -> None:
    assert digest("x", (), {}) == md5(b"x\x01")
    assert digest("x", (), {}, {}) == md5(b"x\x01\x01")
    metadata = {"tags": {"b": ["y", "x"]}, "properties": {"q": "1", "p": "2"}, "sensitive": ["s"]}
    assert digest("x", (), metadata) == md5(b"x\x01bxyp2q1s")


def test_a_rule_has_its_parts_in_the_order_of_the_api() -> None:
    rule = {"name": "n", "kind": "CONDITION", "mode": "WRITE", "type": "CEL", "tags": ["t"], "params": {"k": "v"}}
    rules = {"domainRules": [{**rule, "expr": "e", "onSuccess": "a", "onFailure": "b", "disabled": True}]}
    assert digest("x", (), None, rules) == md5(b"x\x01nCONDITIONWRITECELtkveab\x01")


def test_the_guid_is_the_digest_as_a_uuid() -> None:
    assert guid("x") == str(uuid.UUID(bytes=md5(b"x")))
