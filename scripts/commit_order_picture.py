"""docs/commit-order.svg, the picture of docs/pipeline.md: what of a batch is committed when, and what a crash leaves.

    .venv/bin/python -m scripts.commit_order_picture     draws it

Steps go from left to right, places from top to bottom. The commit of the rows is the one moment that decides: before it
a batch is not in the table and is repeated, after it the batch is recognised by its number. Colours follow the reader's
light or dark scheme.
"""

from __future__ import annotations

import html
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
PICTURE = ROOT / "docs" / "commit-order.svg"

WIDTH_PX, LEFT_PX, TOP_PX, COLUMN_PX, ROW_PX, BOX_PX = 980, 170, 64, 132, 58, 44
STYLE: Final = """\
<style>
  .paper { fill: #ffffff } .text { fill: #24292f } .pale { fill: #57606a } .line { stroke: #d0d7de }
  .box { fill: #eaeef2; stroke: #8c959f } .truth { fill: #1a7f37 } .ontruth { fill: #ffffff }
  .before { fill: #9a6700 } .after { fill: #1a7f37 } .edge { stroke: #1a7f37 }
  @media (prefers-color-scheme: dark) {
    .paper { fill: #0d1117 } .text { fill: #e6edf3 } .pale { fill: #9198a1 } .line { stroke: #3d444d }
    .box { fill: #21262d; stroke: #656c76 } .truth { fill: #3fb950 } .ontruth { fill: #0d1117 }
    .before { fill: #d29922 } .after { fill: #3fb950 } .edge { stroke: #3fb950 }
  }
</style>"""


class Step(NamedTuple):
    """What is written, into which of PLACES; the first line is in bold."""

    place: int
    lines: tuple[str, ...]


PLACES: Final = ("the job's state", "files beside the table", "table of dead letters", "the table", "consumer group")
STEPS: Final = (
    Step(0, ("begin of batch N", "number, start, end")),
    Step(1, ("rows' files", "not visible yet")),
    Step(2, ("dead letters", "with number N")),
    Step(3, ("rows, number N", "and offsets")),
    Step(0, ("end of batch N",)),
    Step(4, ("offsets, for lag", "with commit_group")),
)
DECISION: Final = 3
"""The step that decides."""


def picture() -> str:
    """The whole drawing as SVG."""
    bottom = TOP_PX + len(PLACES) * ROW_PX
    height = bottom + 118
    lines = [*_places(), *_decision(bottom), *_steps(), *_crashes(bottom)]
    body = "\n".join(lines)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH_PX} {height}" width="{WIDTH_PX}" '
        f'height="{height}" font-family="sans-serif" font-size="12" role="img" '
        f'aria-label="What is committed when, for one batch">\n{STYLE}\n'
        f'<rect class="paper" width="{WIDTH_PX}" height="{height}"/>\n{body}\n</svg>\n'
    )


def _places() -> Iterator[str]:
    yield _text(LEFT_PX, 28, "One batch, from left to right in time", is_bold=True)
    for number, place in enumerate(PLACES):
        y = TOP_PX + number * ROW_PX + ROW_PX / 2
        yield f'<line class="line" x1="{LEFT_PX}" y1="{y}" x2="{WIDTH_PX - 14}" y2="{y}"/>'
        yield _text(LEFT_PX - 12, y + 4, place, "pale", anchor="end")


def _steps() -> Iterator[str]:
    for number, step in enumerate(STEPS):
        x = LEFT_PX + 8 + number * COLUMN_PX
        y = TOP_PX + step.place * ROW_PX + (ROW_PX - BOX_PX) / 2
        box, text = ("truth", "ontruth") if number == DECISION else ("box", "text")
        yield f'<rect class="{box}" x="{x}" y="{y}" width="{COLUMN_PX - 10}" height="{BOX_PX}" rx="6"/>'
        first = y + BOX_PX / 2 + (4 if len(step.lines) == 1 else -3)
        for line, said in enumerate(step.lines):
            middle = x + (COLUMN_PX - 10) / 2
            yield _text(middle, first + 15 * line, said, text, anchor="middle", is_bold=not line)


def _decision(bottom: float) -> Iterator[str]:
    x = _decided_at()
    yield f'<line class="edge" x1="{x}" y1="{TOP_PX - 14}" x2="{x}" y2="{bottom + 96}" stroke-dasharray="4 4"/>'
    yield _text(x - 10, TOP_PX - 8, "readers have batch N - 1", "before", anchor="end")
    yield _text(x + 10, TOP_PX - 8, "readers have batch N", "after")


def _crashes(bottom: float) -> Iterator[str]:
    x = _decided_at()
    y = bottom + 24
    yield _text(x - 10, y, "a crash on this side", "before", anchor="end", is_bold=True)
    for line, said in enumerate(
        (
            "the table does not have batch N: the next run reads the same range",
            "again, under the same number; files that are left are deleted later,",
            "dead letters with number N are not written a second time",
        )
    ):
        yield _text(x - 10, y + 20 + 17 * line, said, anchor="end")
    yield _text(x + 10, y, "a crash on this side", "after", is_bold=True)
    for line, said in enumerate(
        ("the table has batch N, and says so:", "the next run skips it, and continues", "at the offsets in the table")
    ):
        yield _text(x + 10, y + 20 + 17 * line, said)


def _decided_at() -> float:
    """Where the commit ends."""
    return LEFT_PX + 8 + (DECISION + 1) * COLUMN_PX - 5


def _text(x: float, y: float, text: str, kind: str = "text", *, anchor: str = "start", is_bold: bool = False) -> str:
    weight = ' font-weight="bold"' if is_bold else ""
    words = html.escape(text)
    return f'<text class="{kind}" x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight}>{words}</text>'


def main() -> None:
    PICTURE.write_text(picture(), encoding="utf-8")


if __name__ == "__main__":
    main()
