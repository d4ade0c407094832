"""What `sordini groups lag` prints: a line for each group, or a group with the partitions that need attention.

A line has 79 columns with names of usual length: the partition, its lag, how long the oldest unread record waits, the
rates, and what becomes of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from sordini.cli.common.output import table
from sordini.client.lag.model import Age, ClientLag, Condition, GroupLag, PartitionLag, UnreadRecord, age_order
from sordini.client.lag.outlook import Outlook, OutlookKind, Rate
from sordini.protocol.printable import counted, shown

GROUP_HEAD: Final = ("GROUP", "STATE", "LAG", "OLDEST", "IN/S", "OUT/S", "OUTLOOK")
PARTITION_HEAD: Final = ("PARTITION", "LAG", "APPENDED", "OWN TIME", "IN/S", "OUT/S", "OUTLOOK")
CLIENT_HEAD: Final = "CLIENT'S LAG"
CLIENT_COLUMN: Final = 2
RATES: Final = (4, 5)
"""The columns with rates, in both tables."""
WORRIES: Final = frozenset({OutlookKind.FALLING_BEHIND, OutlookKind.NOT_READING})
MINUTE_MS: Final = 60_000
"""From here on bounds that are an eighth apart, as far as samples of this age are, are shown as their middle."""
UNITS: Final = ((86_400, "d", 3_600, "h"), (3_600, "h", 60, "min"), (60, "min", 1, "s"))


def groups_text(groups: Sequence[GroupLag], rows_max: int | None = None) -> str:
    """A line for each group, the one that is farthest behind in time first."""
    ordered = sorted(groups, key=group_order)
    shown_groups = ordered if rows_max is None else ordered[:rows_max]
    lines = [table(GROUP_HEAD, _aligned(map(_group_cells, shown_groups), RATES))]
    if len(shown_groups) < len(ordered):
        lines.append(f"... and {counted(len(ordered) - len(shown_groups), 'group')} more")
    return "\n".join(lines)


def group_text(group: GroupLag, rows_max: int | None = None, *, has_all: bool = False) -> str:
    """What the group is, how far it is behind, and its partitions; those that have caught up with `has_all` only."""
    lines = [_sentence(group)]
    if group.problem is not None:
        return "\n".join([*lines, shown(group.problem)])
    if not group.partitions:
        return "\n".join([*lines, "Nothing is committed, and no member has a partition."])
    chosen = [row for row in group.partitions if has_all or not _is_fine(row)]
    chosen.sort(key=lambda row: -age_order(row))  # Partitions of one age stay in their order.
    listed = chosen if rows_max is None else chosen[: max(rows_max, 1)]
    if listed:
        lines += ["", _partition_table(listed)]
    if len(listed) < len(chosen):
        lines.append(f"... and {counted(len(chosen) - len(listed), 'partition')} more")
    fine = len(group.partitions) - len(chosen)
    if fine:
        lines += ["", f"{counted(fine, 'partition')} caught up."] if listed else []
    return "\n".join([*lines, *_notes(listed)])


def outlook_text(outlook: Outlook) -> str:
    """`caught up in 40 s`."""
    match outlook.kind:
        case OutlookKind.CAUGHT_UP:
            return "caught up"
        case OutlookKind.CATCHING_UP:
            return f"caught up in {duration_text(outlook.seconds or 0)}"
        case OutlookKind.KEEPING_PACE:
            return "keeps pace"
        case OutlookKind.FALLING_BEHIND:
            return f"falling behind by {number_text(outlook.per_s or 0)}/s"
        case OutlookKind.NOT_READING:
            return "not reading"
        case OutlookKind.UNKNOWN:
            return "-"


def age_text(age: Age) -> str | None:
    """`12.3 s`, `12-14 s`, or one bound: `at least 5 min`."""
    least, most = age.at_least_ms, age.at_most_ms
    if least is None and most is None:
        return None
    if least is None:
        return f"at most {duration_text((most or 0) / 1000)}"
    if most is None:
        return f"at least {duration_text(least / 1000)}"
    low, high = duration_text(least / 1000), duration_text(most / 1000)
    if low == high:
        return low
    if most >= MINUTE_MS and most - least <= most / 8:
        return f"~{duration_text((least + most) / 2000)}"
    if least < most / 4:
        return f"up to {high}"
    same_unit = low.rpartition(" ")[2] == high.rpartition(" ")[2] and low.count(" ") == high.count(" ") == 1
    return f"{low.rpartition(' ')[0]}-{high}" if same_unit else f"{low}-{high}"


def duration_text(seconds: float) -> str:
    """`350 ms`, `12 s`, `3 min 20 s`, `2 h 5 min`, `3 d 4 h`."""
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    for size, unit, small, small_unit in UNITS:
        if whole >= size:
            rest = whole % size // small
            return f"{whole // size} {unit} {rest} {small_unit}" if rest else f"{whole // size} {unit}"
    return f"{whole} s"


def number_text(number: float) -> str:
    """Three digits at least: `0.25`, `12.5`, `1300`."""
    return f"{number:.0f}" if number >= 99.5 else f"{number:.3g}"


def is_worry(group: GroupLag) -> bool:
    """Whether a group needs attention."""
    return group.outlook.kind in WORRIES or any(row.lacks_owner or row.is_stuck for row in group.partitions)


def _aligned(rows: Iterable[list[object]], columns: Iterable[int]) -> list[list[object]]:
    """Rows whose texts in these columns end below each other."""
    found = list(rows)
    for column in columns:
        texts = ["-" if row[column] is None else str(row[column]) for row in found]
        width = max(map(len, (*texts, PARTITION_HEAD[column])), default=0)
        for row, text in zip(found, texts, strict=True):
            row[column] = text.rjust(width)
    return found


def _sentence(group: GroupLag) -> str:
    if group.kind == "checkpoint":
        name = f"Checkpoint {shown(group.name)}"
    else:
        kind = f"{group.kind}, " if group.kind else ""
        name = f"Group {shown(group.name)} ({kind}{group.state}, {counted(group.members, 'member')})"
    if group.problem is not None or not group.partitions:
        return name
    if all(row.committed is None for row in group.partitions):
        return f"{name}\nNothing is committed."
    oldest = group.oldest
    if oldest is None or oldest.unread is None:
        return (
            f"{name}\nCaught up." if all(map(_is_fine, group.partitions)) else f"{name}\nThere are no unread records."
        )
    age = oldest_age(oldest.unread)
    what = "appended" if _has_append_time(oldest.unread) else "dated"
    waits = f", the oldest {what} {age} ago" if age else ""
    known = group.outlook.kind is not OutlookKind.UNKNOWN
    outlook = f"\n{outlook_text(group.outlook).capitalize()}." if known else ""
    return f"{name}\n{counted(group.lag, 'record')} behind{waits}.{outlook}"


def _group_cells(group: GroupLag) -> list[object]:
    if group.problem is not None:
        return [group.name, group.state, None, None, None, None, group.problem]
    has_offsets = any(row.committed is not None for row in group.partitions)
    return [
        group.name,
        group.state or group.kind,
        group.lag if has_offsets else None,
        group_age(group),
        rate_text(group.rate_in),
        rate_text(group.rate_out),
        group_outlook_text(group),
    ]


def group_age(group: GroupLag) -> str | None:
    """For how long the oldest unread record has been waiting; None where nothing is, or it is not known."""
    oldest = group.oldest
    return None if oldest is None or oldest.unread is None else oldest_age(oldest.unread)


def group_outlook_text(group: GroupLag) -> str:
    """`falling behind by 42/s, 1 held, not read`."""
    has_offsets = any(row.committed is not None for row in group.partitions)
    notes = [outlook_text(group.outlook) if has_offsets else "nothing committed"]
    stuck, ownerless = sum(row.is_stuck for row in group.partitions), sum(row.lacks_owner for row in group.partitions)
    if stuck:
        notes.append(f"{stuck} held, not read")
    if ownerless:
        notes.append(f"{ownerless} without owner")
    return ", ".join(notes)


def _partition_table(rows: Sequence[PartitionLag]) -> str:
    """What clients say of their lag has a column only where any says it."""
    cells = _aligned(map(_partition_cells, rows), RATES)
    head = [*PARTITION_HEAD]
    if any(row.client is not None for row in rows):
        head.insert(CLIENT_COLUMN, CLIENT_HEAD)
        for row, line in zip(rows, cells, strict=True):
            line.insert(CLIENT_COLUMN, client_lag_text(row.client))
    return table(head, cells)


def client_lag_text(client: ClientLag | None) -> str | None:
    """`1200, 8 s ago`."""
    return None if client is None else f"{client.lag}, {duration_text(client.pushed_ms_ago / 1000)} ago"


def _partition_cells(row: PartitionLag) -> list[object]:
    unread = row.unread
    own = None if unread is None or unread.own_age_ms is None else duration_text(unread.own_age_ms / 1000)
    return [
        f"{row.topic}:{row.partition}",
        row.lag,
        None if unread is None else age_text(unread.appended),
        own,
        rate_text(row.rate_in),
        rate_text(row.rate_out),
        state_text(row),
    ]


def state_text(row: PartitionLag) -> str:
    """What becomes of a partition, and what is wrong with it."""
    match row.condition:
        case Condition.BEHIND | Condition.CAUGHT_UP:
            text = "held, not read" if row.is_stuck else outlook_text(row.outlook)
        case Condition.EXPIRED:
            text = f"{counted(row.expired, 'record')} deleted unread"
        case Condition.UNAVAILABLE:
            text = row.problem or row.condition.value
        case Condition.NO_OFFSET | Condition.AHEAD | Condition.DELETED:
            text = row.condition.value
    return f"{text}, no owner" if row.lacks_owner else text


def _is_fine(row: PartitionLag) -> bool:
    return row.condition is Condition.CAUGHT_UP and not row.lacks_owner


def _notes(rows: Iterable[PartitionLag]) -> list[str]:
    """Sentences that explain what the table says in two words."""
    notes = []
    if any(row.is_stuck for row in rows):
        stuck = next(row for row in rows if row.is_stuck)
        owner = stuck.owner
        assert owner is not None
        notes.append(f"Held, not read: {shown(owner.client_id)} has committed nothing for 30 s or more.")
    open_ends = [row for row in rows if row.end is not None and row.stable_end is not None and row.stable_end < row.end]
    if open_ends:
        offsets = sum((row.end or 0) - (row.stable_end or 0) for row in open_ends)
        notes.append(
            f"Behind an open transaction: {counted(offsets, 'offset')} of {counted(len(open_ends), 'partition')}."
        )
    return ["", *notes] if notes else []


def oldest_age(unread: UnreadRecord) -> str | None:
    """Since it was appended, else by its own time."""
    if _has_append_time(unread):
        return age_text(unread.appended)
    return None if unread.own_age_ms is None else duration_text(unread.own_age_ms / 1000)


def _has_append_time(unread: UnreadRecord) -> bool:
    return unread.appended.at_least_ms is not None


def rate_text(rate: Rate | None) -> str | None:
    """Offsets per second; None for a rate that is not known."""
    return None if rate is None else number_text(rate.per_s)


def group_order(group: GroupLag) -> tuple[float, int, str]:
    """Those that have waited longest come first."""
    oldest = group.oldest
    return (0 if oldest is None else -age_order(oldest)), -group.lag, group.name
