"""The rebalances of a group as `sordini groups history` prints them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from sordini.admin.groups.group_history import cause_words
from sordini.cli.common.output import table
from sordini.protocol.printable import shown


def history_text(found: dict[str, Any], *, details: int) -> str:
    """The table of all rebalances, and the details of the last ones; every text of a client is escaped."""
    rebalances = found["rebalances"]
    count = len(rebalances)
    head = (
        f"group {shown(found['group'])}: {count} rebalance{'' if count == 1 else 's'}, known since {found['since']} "
        f"(at most {found['remembered_max']} are remembered)"
    )
    if not rebalances:
        return f"{head}\nIts coordinator has seen no rebalance since then. An earlier coordinator may have."
    kinds = {row["protocol"] for row in rebalances}
    number = "GENERATION" if kinds == {"classic"} else "GENERATION, EPOCH" if "classic" in kinds else "EPOCH"
    has_gaps = "consumer" in kinds
    moved = "CHANGED" if "share" in kinds else "MOVED"
    heads = ["BEGAN", "TOOK", number, "MEMBERS", moved, *(["LONGEST WITHOUT OWNER"] if has_gaps else []), "WHY"]
    text = [head, table(heads, [_table_row(row, has_gaps=has_gaps) for row in rebalances])]
    text += [_details(row) for row in rebalances[max(count - details, 0) :]]
    return "\n\n".join(text)


def _table_row(row: dict[str, Any], *, has_gaps: bool) -> list[object]:
    first, more = (row["causes"] or [None])[0], len(row["causes"]) + row["causes_omitted"] - 1
    why = "unknown" if first is None else _why(first, has_client=_has_epochs(row))
    moves = row["moves"]
    return [
        row["began"],
        _took(row),
        f"{row['generation_before']} -> {row['generation_after']}",
        len(row["members"]) + row["members_omitted"],
        None if moves is None or row["ended"] is None else len(moves) + row["moves_omitted"],
        *([_seconds(_longest_gap(row))] if has_gaps else []),
        why if more < 1 else f"{why} (and {more} more)",
    ]


def _has_epochs(row: dict[str, Any]) -> bool:
    """Whether the broker assigns; the ids of members say nothing of their clients then."""
    return str(row["protocol"]) != "classic"


def _took(row: dict[str, Any]) -> str | None:
    if row["ended"] is None:
        return "in progress"
    took = _seconds(row["duration_ms"])
    return f"{took}, overtaken" if row["overtaken"] else took


def _longest_gap(row: dict[str, Any]) -> int | None:
    """The longest time in milliseconds that a partition of the rebalance had no owner."""
    known = [move["without_owner_ms"] for move in row["moves"] or () if move["without_owner_ms"] is not None]
    return max(known, default=None)


def _headline(row: dict[str, Any]) -> str:
    """`2026-11-21T18:30:59.123Z: epoch 4 -> 5, took 1.250 s`."""
    numbers = f"{'epoch' if _has_epochs(row) else 'generation'} {row['generation_before']} -> {row['generation_after']}"
    if row["ended"] is None:
        state = "in progress"
    elif row["overtaken"]:
        state = f"overtaken by the next target assignment after {_seconds(row['duration_ms'])}"
    else:
        state = f"took {_seconds(row['duration_ms'])}"
    return f"{row['began']}: {numbers}, {state}"


def _details(row: dict[str, Any]) -> str:
    text = [_headline(row)]
    has_epochs = _has_epochs(row)
    client = ["CLIENT"] if has_epochs else []  # Of a classic group, an id begins with it.

    def named(member: dict[str, Any]) -> list[object]:
        return [_who(member), *([member["client_id"]] if has_epochs else []), member["host"]]

    causes = [[cause["at"], cause_words(cause), *named(cause), cause["detail"]] for cause in row["causes"]]
    heads = ["AT", "CAUSE", "MEMBER", *client, "HOST", "DETAIL"]
    text.append(_with_omitted(heads, causes, row["causes_omitted"], "causes"))
    members = [[*named(member), member["partitions"], _seconds(member["waited_ms"])] for member in row["members"]]
    if members:
        heads = ["MEMBER", *client, "HOST", "PARTITIONS", "READY AFTER" if has_epochs else "WAITED"]
        text.append(_with_omitted(heads, members, row["members_omitted"], "members"))
    if row["ended"] is not None or row["moves"]:
        text.append(_moves(row))
    return "\n\n".join(text)


def _moves(row: dict[str, Any]) -> str:
    if row["moves"] is None:
        return "Which partitions moved is not known: the assignments are no consumers', or too large to compare."
    if not row["moves"]:
        return "No member got or lost a partition." if row["protocol"] == "share" else "No partition moved."
    heads = ["PARTITION", "TAKEN FROM", "GIVEN TO"] if row["protocol"] == "share" else ["PARTITION", "FROM", "TO"]
    moves = [[f"{move['topic']}:{move['partition']}", move["from"], move["to"]] for move in row["moves"]]
    if row["protocol"] == "consumer":
        heads.append("WITHOUT OWNER")
        moves = [[*cells, _seconds(move["without_owner_ms"])] for cells, move in zip(moves, row["moves"], strict=True)]
    return _with_omitted(heads, moves, row["moves_omitted"], "partitions")


def _with_omitted(head: Sequence[str], rows: Sequence[Sequence[object]], omitted: int, what: str) -> str:
    text = table(head, rows)
    return text if not omitted else f"{text}\nand {omitted} more {what}"


def _why(cause: dict[str, Any], *, has_client: bool) -> str:
    """`left: worker-1 (consumer poll timeout has expired.)`, `joined: 3hkjEPT+T+WwnOlWR5YmCA [worker-1]`."""
    words = cause_words(cause)
    if cause["member_id"] is not None:
        words += f": {_who(cause)}"
        if has_client and cause["client_id"] is not None:
            words += f" [{cause['client_id']}]"
    return words if cause["detail"] is None else f"{words} ({cause['detail']})"


def _who(member: dict[str, Any]) -> str | None:
    name: str | None = member["instance_id"] or member["member_id"]
    return name


def _seconds(duration_ms: int | None) -> str | None:
    return None if duration_ms is None else f"{duration_ms / 1000:.3f} s"
