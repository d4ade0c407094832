"""A schema as a request has it, and what it is completed with before it is registered. Pure.

    metadata   default of the settings + its own, or the latest version's  + override of the settings
    rules      the same; of two rules with one name the later one counts
    text       the latest version's, where a request has none

So settings give every new version of a subject its owner, its tags and its rules, whatever its producer sends.
"""

from __future__ import annotations

from typing import Any, Final

from sordini.registry.records import Json, SchemaRecord
from sordini.registry.state.refusals import invalid_schema
from sordini.schemas.registered.types import Reference, SchemaType
from sordini.system.named_tuple import NamedTuple

DEFAULT_METADATA: Final = "defaultMetadata"
OVERRIDE_METADATA: Final = "overrideMetadata"
DEFAULT_RULES: Final = "defaultRuleSet"
OVERRIDE_RULES: Final = "overrideRuleSet"


class Submission(NamedTuple):
    """A schema as a request has it."""

    subject: str
    text: str
    type: SchemaType = SchemaType.AVRO
    references: tuple[Reference, ...] = ()
    metadata: Json | None = None
    rule_set: Json | None = None
    id: int | None = None
    """In mode IMPORT: the id that it has elsewhere."""
    version: int | None = None
    normalizes: bool = False


def checked(submission: Submission) -> Submission:
    """Raises Refusal for one without a text."""
    if not submission.text.strip():
        raise invalid_schema("Empty schema")
    return submission


def completed(submission: Submission, latest: SchemaRecord | None, config: Json) -> Submission:
    """With what it takes over of the latest version and of the settings in force. Raises Refusal."""
    if latest is not None and not submission.text.strip():
        submission = submission._replace(text=latest.text, type=latest.type, references=latest.references)
    metadata, rule_set = submission.metadata, submission.rule_set
    if latest is not None:
        metadata = latest.metadata if metadata is None else metadata
        rule_set = latest.rule_set if rule_set is None else rule_set
    return checked(submission)._replace(
        metadata=_merged(config.get(DEFAULT_METADATA), metadata, config.get(OVERRIDE_METADATA)),
        rule_set=_merged(config.get(DEFAULT_RULES), rule_set, config.get(OVERRIDE_RULES)),
    )


def _merged(*parts: Json | None) -> Json | None:
    """Metadata, or rule sets, of which a later one counts more; None where there is none."""
    merged: dict[str, Any] | None = None
    for part in parts:
        if part is not None:
            merged = {} if merged is None else merged
            merged |= {name: _together(merged.get(name), value) for name, value in part.items()}
    return merged


def _together(former: Any, latter: Any) -> Any:
    """Two members of one name: by name where they are objects, by element where they are lists."""
    if isinstance(former, dict) and isinstance(latter, dict):
        return {**former, **latter}
    if isinstance(former, list) and isinstance(latter, list):
        names = [_name(one) for one in latter]
        return [*(one for one in former if _name(one) not in names), *latter]
    return former if latter in (None, [], {}) else latter


def _name(element: Any) -> Any:
    """What an element of a list is known by: a rule by its name, a sensitive property by itself."""
    return element.get("name") if isinstance(element, dict) else element
