"""Why ours answers differently from the judge, and where that is decided."""

from __future__ import annotations

from typing import Final, NamedTuple

API: Final = "docs.confluent.io/platform/current/schema-registry/develop/api.html"
DELETING: Final = "docs.confluent.io/platform/current/schema-registry/schema-deletion-guidelines.html"
PROTOBUF: Final = "protobuf.dev/programming-guides"
SOURCE: Final = "github.com/confluentinc/schema-registry, June 2026, which the API reference leaves open"


class Reason(NamedTuple):
    text: str
    source: str


REASONS: Final = {
    "ERRORS_HAVE_A_CODE": Reason(
        "The body of every error has error_code and message; the judge has none for addresses and methods that it lacks.",
        f"{API}, Errors",
    ),
    "REASONS_ARE_VERBOSE": Reason(
        "The reasons of an incompatibility are in the answer only with verbose=true.",
        f"{API}, POST /compatibility/subjects/(subject)/versions/(version)",
    ),
    "ALL_VERSIONS": Reason(
        "A schema can be compared with all versions of a subject; the judge has no such address.",
        f"{API}, POST /compatibility/subjects/(subject)/versions",
    ),
    "NO_LATEST_VERSION": Reason(
        "A schema is compatible with the latest version of a subject that has none: it could be registered.",
        f"{SOURCE}: CompatibilityResource",
    ),
    "VERSIONS_ARE_CHECKED": Reason(
        "What is no number of a version between 1 and 2^31-1 is 42202; the judge fails, or looks for it.",
        f"{API}, GET /subjects/(subject)/versions/(version)",
    ),
    "INVALID_SCHEMA": Reason(
        "What is no schema, of no known type or has no valid references is 42201, however it is not; the judge has 422"
        " for some, fails with an enum of Avro that has a symbol twice, and takes numbers of Protobuf that cannot be.",
        f"{API}, POST /subjects/(subject)/versions",
    ),
    "INVALID_LEVEL": Reason("What is no level is 42203, a missing one too; the judge has 422.", f"{API}, PUT /config"),
    "LEVELS_IN_ANY_CASE": Reason(
        "Levels may be in lower case, as the message of 42203 has them.", f"{API}, PUT /config"
    ),
    "BODIES_ARE_OBJECTS": Reason(
        "A body that is no JSON object is a bad request, 400; the judge has 422.", f"{API}, Errors"
    ),
    "SUBJECT_FIRST": Reason(
        "A lookup in a subject that does not exist is 40401, whatever is looked up.",
        f"{API}, POST /subjects/(subject)",
    ),
    "SETTINGS_WITHOUT_A_SUBJECT": Reason(
        "A subject need not exist to have settings: without own ones it is 40408 or 40409; defaultToGlobal has those of all.",
        f"{API}, GET /config/(subject)",
    ),
    "SETTINGS_ARE_REMOVED": Reason(
        "The answer of a removal is the former level, by both of its names; where there is none it is 40401. The judge has"
        " the global level.",
        f"{API}, DELETE /config/(subject)",
    ),
    "GLOBAL_SETTINGS_ARE_REMOVED": Reason(
        "The global level is removed and is BACKWARD again; the judge has no such method.", f"{API}, DELETE /config"
    ),
    "MODES_ARE_SET": Reason("Modes are set and removed; the judge only reads them.", f"{API}, PUT /mode"),
    "DELETED_IS_SHOWN": Reason(
        "A version that was deleted softly says so where it is found with deleted=true.",
        f"{SOURCE}: entities/Schema",
    ),
    "IDS_ARE_REMOVED": Reason(
        "A permanent deletion removes the id, which is not given again; the judge keeps the id of a text.", DELETING
    ),
    "SOFTLY_DELETED_REFERENCES": Reason(
        "A reference of a version that was deleted softly does not hold the other subject.",
        f"{SOURCE}: InMemoryCache",
    ),
    "REFERENCES_ARE_SHOWN": Reason(
        "A lookup is answered with the references, too.", f"{API}, POST /subjects/(subject)"
    ),
    "AVRO_IS_CANONICAL": Reason(
        "The text of Avro is the one that its library prints: names without the namespace around them, primitive types"
        " as strings. So one type has one id.",
        f"{SOURCE}: AvroSchema",
    ),
    "REQUIRED_PROPERTIES": Reason(
        "A property that becomes required is not compatible; the judge has no rule for it.",
        "docs.confluent.io/platform/current/schema-registry/fundamentals/serdes-develop/serdes-json.html",
    ),
    "ADDRESSES_OF_IDS": Reason(
        "The text and the subjects of an id have addresses; the judge lacks them.",
        f"{API}, GET /schemas/ids/(id)/schema",
    ),
    "UNKNOWN_IDS": Reason(
        "The versions of an id that is not there are 40403; the judge has an empty list.",
        f"{API}, GET /schemas/ids/(id)/versions",
    ),
    "LISTS_WITHOUT_DELETED": Reason(
        "A list has what was deleted softly with deleted=true, and only then; the judge has it the other way around.",
        f"{API}, GET /schemas",
    ),
    "PREFIXES": Reason("A list of subjects can be limited to a prefix; the judge ignores it.", f"{API}, GET /subjects"),
    "PROTOBUF_IS_CANONICAL": Reason(
        "Comments and spaces are no part of a schema of Protobuf, nor with normalize=true the order of its parts. So one"
        " schema has one id.",
        f"{API}, POST /subjects/(subject)/versions",
    ),
    "TEXTS_OF_VERSIONS": Reason(
        "The text of a version has an address for Protobuf, too; the judge fails with what is no JSON.",
        f"{API}, GET /subjects/(subject)/versions/(version)/schema",
    ),
    "INTO_A_ONEOF": Reason(
        "A field that is moved into a oneof that was there before is not compatible: what was written may be lost.",
        f"{PROTOBUF}/proto3, Updating A Message Type",
    ),
    "PACKAGES_ARE_NAMES": Reason(
        "A message in another package is another message.", f"{SOURCE}: protobuf/diff/SchemaDiff, PACKAGE_CHANGED"
    ),
    "NOT_REQUIRED_ANY_MORE": Reason(
        "A field that is not required any more is read by the new schema whether it is there or not.",
        f"{PROTOBUF}/proto2, Updating A Message Type",
    ),
}
