"""What has to hold of the ids after any faults, by the log, the answers and the states of all registries. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence


def verdict(
    logged: Iterable[tuple[str, int]],
    answered: Iterable[tuple[str, int]],
    states: Sequence[Mapping[str, int]],
    digests: Sequence[str],
) -> list[str]:
    """What is wrong; empty if nothing is. `logged` are the registrations of the log in its order, `answered` those that
    clients received, `states` and `digests` what each registry has read."""
    wrong = []
    ids: dict[str, int] = {}
    owners: dict[int, str] = {}
    for schema, number in logged:
        if ids.setdefault(schema, number) != number:
            wrong.append(f"schema {schema!r} has the ids {ids[schema]} and {number}")
        if owners.setdefault(number, schema) != schema:
            wrong.append(f"id {number} is of the schemas {owners[number]!r} and {schema!r}")
    wrong += [
        f"schema {schema!r} was answered with id {number}, and has {ids.get(schema)} in the log"
        for schema, number in answered
        if ids.get(schema) != number
    ]
    wrong += [f"registry {index} has a state that is not the log's" for index, one in enumerate(states) if one != ids]
    if len(set(digests)) > 1:
        wrong.append("registries have read different records")
    return wrong
