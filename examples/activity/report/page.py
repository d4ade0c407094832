"""The report: one HTML file with everything in it, to be opened in a browser or sent by mail."""

from __future__ import annotations

import base64
from collections.abc import Iterable, Sequence
from html import escape
from string import Template
from typing import Any, NamedTuple

from examples.activity.demo.lag import Sample
from examples.activity.generator.sending import TOPICS
from examples.activity.generator.visits import CLICK, KINDS, SEARCH, VIEW
from examples.activity.report import figures
from examples.activity.report.findings import DeadLetter, Findings, differences
from examples.programs import Step

SAMPLE_LETTERS_MAX = 110
LAST_PAGES_MAX = 8


class Run(NamedTuple):
    """What a report shows of a run besides its tables."""

    title: str
    counts: dict[str, Any]
    """`Tally.reported` of the generator."""
    samples: Sequence[Sample]
    produced_seconds: float | None
    """When the producer was done, on the clock of the samples."""
    steps: Sequence[Step]
    facts: dict[str, str]
    """What else is worth knowing, as `records a second: 1,000`."""


def page(run: Run, found: Findings) -> str:
    """The whole file."""
    wrong = differences(found, run.counts)
    return _PAGE.substitute(
        title=escape(run.title),
        summary=_summary(run, found),
        verdict_class="good" if not wrong else "bad",
        verdict=_verdict(run, found, wrong),
        tiles=_tiles(run, found),
        audit=_audit(run, found),
        per_minute=_image(figures.per_minute(found), "Page views, searches and clicks a minute"),
        pages=_image(figures.top_pages(found), "The most viewed pages"),
        funnel=_image(figures.funnel(found), "From looking to searching to clicking"),
        positions=_image(figures.positions(found), "Clicks by the place of the result"),
        lag=_image(figures.lag(run.samples, run.produced_seconds), "Records that the stream was behind, over time"),
        lateness=_image(figures.lateness(found), "How late events arrived"),
        closed=_image(figures.closed(found), "How the events came into windows"),
        dead=_image(figures.dead_letters(found), "Dead letters by reason")
        if len(found.dead)
        else "<p>There are none.</p>",
        samples=_samples(found.samples),
        lag_text=_lag_text(run.samples),
        funnel_text=_funnel_text(found),
        visits=f"{found.visits:,}",
        last_pages=_last_pages(found),
        steps=_steps(run.steps),
        facts=_table(("", ""), [(name, value) for name, value in run.facts.items()], numbers=()),
    )


def _summary(run: Run, found: Findings) -> str:
    sent = sum(run.counts["sent"].values())
    minutes = found.per_minute.index
    span = f"{minutes[0]:%d %B %Y, %H:%M} to {minutes[-1]:%H:%M} UTC" if len(minutes) else "no time at all"
    return f"{sent:,} records of a site&rsquo;s visitors, {span}, from three topics into tables."


def _verdict(run: Run, found: Findings, wrong: list[str]) -> str:
    if wrong:
        return "The tables are not what was sent:<ul>" + "".join(f"<li>{escape(one)}</li>" for one in wrong) + "</ul>"
    sent = sum(run.counts["sent"].values())
    dead = int(found.dead.to_numpy().sum())
    return (
        f"<b>Nothing lost, nothing twice.</b> {sent:,} records were acknowledged by the broker; "
        f"{sum(found.rows.values()):,} are rows of the three tables of events, {dead:,} are dead letters with their "
        "bytes and the reason. The counts agree in every minute, page and visit."
    )


def _tiles(run: Run, found: Findings) -> str:
    dead, late = int(found.dead.to_numpy().sum()), sum(found.late.values())
    rows = sum(found.rows.values()) or 1
    behind = max((sample.in_topics - sample.in_tables for sample in run.samples), default=0)
    tiles = [
        (f"{found.rows[VIEW]:,}", "page views", VIEW),
        (f"{found.rows[SEARCH]:,}", "searches", SEARCH),
        (f"{found.rows[CLICK]:,}", "clicks", CLICK),
        (f"{found.rows[CLICK] / (found.rows[SEARCH] or 1):.2f}", "clicks per search", CLICK),
        (f"{late:,}", f"late events, {late / rows:.2%}", ""),
        (f"{dead:,}", f"broken records, {dead / (rows + dead):.2%}", ""),
        (f"{behind:,}", "records behind at most", ""),
    ]
    return "".join(
        f'<div class="tile {kind}"><div class="figure">{figure}</div><div class="label">{label}</div></div>'
        for figure, label, kind in tiles
    )


def _audit(run: Run, found: Findings) -> str:
    rows = []
    for kind in KINDS:
        topic = TOPICS[kind]
        sent, kept, dead = run.counts["sent"].get(topic, 0), found.rows[kind], int(found.dead[topic].sum())
        rows.append(
            (topic, f"{sent:,}", f"{kept:,}", f"{dead:,}", f"{sent - kept - dead:+,}" if sent - kept - dead else "0")
        )
    return _table(("topic", "sent", "in its table", "dead letters", "difference"), rows, numbers=(1, 2, 3, 4))


def _funnel_text(found: Findings) -> str:
    first, last = found.funnel[VIEW] or 1, found.funnel[CLICK]
    return f"{last / first:.0%} of all visits found something by searching and went there."


def _lag_text(samples: Sequence[Sample]) -> str:
    if not samples:
        return ""
    behind = sorted(sample.in_topics - sample.in_tables for sample in samples)
    at_end = samples[-1].in_topics - samples[-1].in_tables
    return f"At most {behind[-1]:,} records, {behind[len(behind) // 2]:,} in the median, {at_end:,} at the end."


def _samples(samples: Iterable[DeadLetter]) -> str:
    rows = [(f"{one.topic}-{one.partition} @ {one.offset}", one.reason, _Code(_excerpt(one.value))) for one in samples]
    return _table(("where it stood", "reason", "what it was"), rows, numbers=())


def _last_pages(found: Findings) -> str:
    rows = [
        (_Code(str(name)), f"{visits:,}", f"{visits / (found.visits or 1):.1%}")
        for name, visits in found.last_pages.head(LAST_PAGES_MAX).items()
    ]
    return _table(("last page", "visits", "of all"), rows, numbers=(1, 2))


def _excerpt(value: bytes) -> str:
    """Bytes as text, those that are none as \\xff."""
    text = value.decode("utf-8", errors="backslashreplace").replace("\x00", "\\x00")
    return text if len(text) <= SAMPLE_LETTERS_MAX else text[:SAMPLE_LETTERS_MAX] + " …"


def _steps(steps: Iterable[Step]) -> str:
    rows = [(step.name, _Code(step.command), f"{step.seconds:.1f} s") for step in steps]
    return _table(("step", "command", "took"), rows, numbers=(2,))


class _Code(str):
    """Text that is set as code."""

    __slots__ = ()


def _table(heads: Sequence[str], rows: Iterable[Sequence[str]], numbers: Sequence[int]) -> str:
    def cell(tag: str, place: int, text: str) -> str:
        inner = f"<code>{escape(text)}</code>" if isinstance(text, _Code) else escape(text)
        return f"<{tag}{' class=number' if place in numbers else ''}>{inner}</{tag}>"

    head = "".join(cell("th", place, text) for place, text in enumerate(heads)) if any(heads) else ""
    body = "".join(
        "<tr>" + "".join(cell("td", place, text) for place, text in enumerate(row)) + "</tr>" for row in rows
    )
    return f"<table>{f'<thead><tr>{head}</tr></thead>' if head else ''}<tbody>{body}</tbody></table>"


def _image(png: bytes, reported: str) -> str:
    return f'<img alt="{escape(reported)}" src="data:image/png;base64,{base64.b64encode(png).decode()}">'


_PAGE = Template("""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>$title</title>
<style>
  :root { --ink: #22262b; --quiet: #6b727b; --line: #e3e6ea; --view: #2f6db5; --search: #e0912f; --click: #2d9a78; }
  body { margin: 0; background: #f4f5f7; color: var(--ink);
         font: 15px/1.5 Inter, "Helvetica Neue", Arial, "DejaVu Sans", sans-serif; }
  main { max-width: 1080px; margin: 0 auto; padding: 36px 20px 60px; }
  h1 { font-size: 30px; line-height: 1.2; margin: 0 0 6px; letter-spacing: -0.01em; }
  h2 { font-size: 18px; margin: 0 0 4px; }
  p { margin: 0 0 12px; color: var(--quiet); }
  section, .tile, .verdict { background: white; border: 1px solid var(--line); border-radius: 10px; }
  section { padding: 20px 22px 16px; margin-top: 18px; overflow-x: auto; }
  .pair { display: flex; flex-wrap: wrap; column-gap: 18px; }
  .pair > section { flex: 1 1 400px; min-width: 0; box-sizing: border-box; }
  .verdict { padding: 14px 20px; margin: 18px 0; border-left-width: 6px; }
  .verdict.good { border-left-color: var(--click); }
  .verdict.bad { border-left-color: #c2413a; }
  .tiles { display: flex; flex-wrap: wrap; gap: 12px; }
  .tile { flex: 1 1 110px; padding: 12px 14px; border-top: 3px solid var(--quiet); }
  .tile.page_view { border-top-color: var(--view); }
  .tile.search { border-top-color: var(--search); }
  .tile.click { border-top-color: var(--click); }
  .figure { font-size: 23px; font-weight: 650; font-variant-numeric: tabular-nums; }
  .label { color: var(--quiet); font-size: 13px; }
  img { display: block; width: 100%; height: auto; }
  table { border-collapse: collapse; width: 100%; font-size: 14px; }
  th { text-align: left; color: var(--quiet); font-weight: 500; }
  th, td { padding: 6px 14px 6px 0; border-bottom: 1px solid var(--line); vertical-align: top; }
  tr:last-child td { border-bottom: 0; }
  .number { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
  code { font: 12.5px/1.45 "JetBrains Mono", Menlo, Consolas, "DejaVu Sans Mono", monospace; overflow-wrap: anywhere; }
</style>
</head>
<body>
<main>
<h1>$title</h1>
<p>$summary</p>
<div class="verdict $verdict_class">$verdict</div>
<div class="tiles">$tiles</div>

<section><h2>What people did, minute by minute</h2>
<p>By the time at which it happened, late events where they belong. The wave is a newsletter&rsquo;s; lines are means of
five minutes, the areas behind them each minute alone.</p>$per_minute</section>

<div class="pair">
<section><h2>What they looked at</h2><p>Few pages have most of the views.</p>$pages</section>
<section><h2>From looking to finding</h2><p>$funnel_text</p>$funnel</section>
</div>

<section><h2>How far the stream was behind</h2>
<p>$lag_text Each step down is a batch committed to the table.</p>$lag</section>

<div class="pair">
<section><h2>Late events</h2>
<p>Phones without a network send later what happened then. Mind the scale.</p>$lateness</section>
<section><h2>Windows of a minute</h2>
<p>The stream closes a window when its watermark is past it, the backfill the last ones.</p>$closed</section>
</div>

<div class="pair">
<section><h2>Which result they took</h2>
<p>The higher it stands, the likelier the click.</p>$positions</section>
<section><h2>Sent and kept</h2>
<p>The generator&rsquo;s own counts against the tables.</p>$audit</section>
</div>

<section><h2>Where visits ended</h2>
<p>A table with one row for each of $visits visits: upserts of page views, in which a newer view replaces the former
one and a late one changes nothing.</p>$last_pages</section>

<section><h2>Broken records</h2>
<p>They stop nothing: each is kept as it was, with the reason and the place where it stood.</p>$dead
$samples</section>

<section><h2>How this was made</h2>$steps</section>
<section><h2>The run</h2>$facts</section>
</main>
</body>
</html>
""")
