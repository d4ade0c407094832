"""Hold two answers against each other, leaf by leaf."""

from collections.abc import Iterator, Sequence
from typing import Any

from tests.compat.situations.difference import ABSENT, Difference


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Every value inside nested dictionaries and lists under its path, 'topics/0/error_code' say."""
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}/{name}" if path else str(name))
    elif isinstance(value, list) and value:
        for index, inner in enumerate(value):
            yield from leaves(inner, f"{path}/{index}" if path else str(index))
    else:
        yield path, value


def compare(theirs: Any, ours: Any, allowed: Sequence[Difference]) -> list[str]:
    """Lines that say what differs without leave, and which leave is not used. Empty: the answers agree."""
    expected, seen = dict(leaves(theirs)), dict(leaves(ours))
    unused = [one for one in allowed if one.must_occur]
    complaints = []
    for path in sorted(expected.keys() | seen.keys()):
        their_leaf, our_leaf = expected.get(path, ABSENT), seen.get(path, ABSENT)
        if their_leaf == our_leaf:
            continue
        leave = next((one for one in allowed if one.permits(path, our_leaf)), None)
        if leave is None:
            complaints.append(f"{path}: Apache Kafka says {their_leaf!r}, Sordini {our_leaf!r}")
        elif leave in unused:
            unused.remove(leave)
    complaints += [f"nothing differs any more at {one.path!r}: strike it off the list" for one in unused]
    return complaints
