"""What makes a schema of Protobuf unable to read what an earlier one has written, in the words of Confluent's registry.

Pure.
"""

from __future__ import annotations

from sordini.schemas.registered.types import Roles
from sordini.system.named_tuple import NamedTuple


class Fault(NamedTuple):
    """A kind, and the place: names of messages and oneofs, and the number of a field."""

    kind: str
    path: tuple[str, ...]


def message(fault: Fault, roles: Roles) -> str:
    reader, writer, at = roles.reader, roles.writer, f"'#/{'/'.join(fault.path)}'"
    description = {
        "PACKAGE_CHANGED": f"The package at {at} in the {reader} schema does not match the package in the "
        f"{writer} schema",
        "MESSAGE_REMOVED": f"The {reader} schema is missing a MESSAGE type at path {at} in the {writer} schema",
        "FIELD_KIND_CHANGED": f"The type of a field at path {at} in the {reader} schema does not match the "
        f"{writer} schema",
        "FIELD_SCALAR_KIND_CHANGED": f"The kind of a SCALAR field at path {at} in the {reader} schema does not match "
        f"its kind in the {writer} schema",
        "FIELD_NAMED_TYPE_CHANGED": f"The type of a MESSAGE field at path {at} in the {reader} schema does not match "
        f"its type in the {writer} schema",
        "FIELD_NUMERIC_LABEL_CHANGED": f"The label for a NUMERIC field at path {at} in the {reader} schema does not "
        f"match its label in the {writer} schema",
        "REQUIRED_FIELD_ADDED": f"A required field  at path {at} in the {reader} schema is missing in the "
        f"{writer} schema",
        "REQUIRED_FIELD_REMOVED": f"The {reader} schema is missing a required field at path: {at} in the "
        f"{writer} schema",
        "ONEOF_FIELD_REMOVED": f"The {reader} schema is missing a oneof field at path {at} in the {writer} schema",
        "MULTIPLE_FIELDS_MOVED_TO_ONEOF": f"Multiple fields in the oneof at path {at} in the {reader} schema are "
        f"outside a oneof in the {writer} schema",
        "FIELD_MOVED_TO_EXISTING_ONEOF": f"A field in the oneof at path {at} in the {reader} schema is outside an "
        f"existing oneof in the {writer} schema",
        "TOO_LARGE": f"The {reader} and the {writer} schema are too large to be compared, at path {at}",
    }[fault.kind]
    return f'{{errorType:"{fault.kind}", description:"{description}"}}'
