"""`log dump` of several files: each is recognised by its name and printed in Apache Kafka's text or in ours.

Standard output equals Apache Kafka's for the files that its tool reads; the small text files of a log directory and the
files of 0.7, which it ignores, are printed in our text. Damage goes to standard error, as do the lists that the tool
prints at the end.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

from sordini.cli.commands.log.dump.classic import classic_log
from sordini.cli.commands.log.dump.file_items import SUFFIXES, TEXT_FILES, UnknownFile, read_file
from sordini.cli.commands.log.dump.items import Item, as_json, as_text
from sordini.cli.commands.log.dump.kafka_indexes import (
    IndexFile,
    IndexOptions,
    dump_offset_index,
    dump_snapshot,
    dump_time_index,
    dump_transaction_index,
)
from sordini.cli.commands.log.dump.kafka_log import LogOptions, LogPrinter
from sordini.cli.commands.log.dump.kafka_text import DamageAt, DumpOutput, Findings, Line
from sordini.cli.commands.log.dump.oldest_items import is_oldest
from sordini.cli.common.output import json_line
from sordini.cli.common.terminal import echo, is_raw
from sordini.protocol.printable import shown
from sordini.storage import names
from sordini.storage.disk import Disk, File
from sordini.system.named_tuple import NamedTuple

BUFFER_LINES: Final = 512
_SLASHES: Final = re.compile("//+")


class DumpOptions(NamedTuple):
    """The options of one run."""

    log: LogOptions
    indexes: IndexOptions
    is_classic: bool = False


class Printer:
    """Buffered lines on standard output; lines on standard error keep their place between them."""

    def __init__(self, *, raw: bool) -> None:
        """On a terminal the lines are escaped, unless `raw`."""
        self._out = sys.stdout.buffer
        self._lines: list[str] = []
        self._is_raw = is_raw(asked=raw)

    def line(self, text: str) -> None:
        self._lines.append(text if self._is_raw else shown(text))
        if len(self._lines) >= BUFFER_LINES:
            self.flush()

    def error(self, text: str) -> None:
        self.flush()
        echo(text, err=True)

    def flush(self) -> None:
        if self._lines:
            self._lines.append("")
            self._out.write("\n".join(self._lines).encode(errors="backslashreplace"))
            self._lines.clear()
        self._out.flush()


class Dump:
    """One run of the command. `problems` has a line for each file that is damaged or could not be read."""

    def __init__(self, disk: Disk, *, raw: bool) -> None:
        self._disk = disk
        self._printer = Printer(raw=raw)
        self.problems: list[str] = []

    def kafka(self, paths: list[str], options: DumpOptions) -> None:
        """Show files in Apache Kafka's text."""
        findings = Findings()
        for path in paths:
            shown = _SLASHES.sub("/", path)
            self._printer.line(f"Dumping {shown}")
            self._show(path, self._kafka_output(shown, options, findings))
        for line in findings.lines():
            self._printer.error(line)
        if findings.are_damage:
            self.problems.append("an index does not agree with its log")
        self._printer.flush()

    def items(self, paths: list[str], decode: Callable[[Item], Item] | None, *, records: bool, json: bool) -> None:
        """Show files in our own text, or as JSON."""
        for number, path in enumerate(paths):
            if not json:
                if number:
                    self._printer.line("")
                self._printer.line(f"{path}:")
            self._show(path, self._own_output(path, decode, records=records, json=json), damage_is_shown=True)
        self._printer.flush()

    def _show(self, path: str, output: Iterator[DumpOutput], *, damage_is_shown: bool = False) -> None:
        is_damaged = False
        if reason := self._why_no_file(path):
            self.problems.append(f"{path}: {reason}")
            return
        try:
            for one in output:
                if isinstance(one, Line):
                    self._printer.line(one.text)
                    continue
                is_damaged = True
                if not damage_is_shown:
                    self._printer.error(f"sordini: {path}: byte {one.position}: {one.reason}")
        except UnknownFile as problem:
            self.problems.append(f"{path}: {problem}")
        except OSError as error:
            whose = f" ({error.filename})" if error.filename not in (None, path) else ""
            self.problems.append(f"{path}: {(error.strerror or str(error)).lower()}{whose}")
        if is_damaged:
            self.problems.append(f"{path} is damaged")

    def _why_no_file(self, path: str) -> str:
        """Why there is nothing to read, which comes before what is wrong with the name; empty for a file."""
        if self._disk.is_directory(path):
            return f"this is a directory; name files in it, such as {path.rstrip('/')}/*.log"
        return "" if self._disk.exists(path) else "no such file or directory"

    def _kafka_output(self, path: str, options: DumpOptions, findings: Findings) -> Iterator[DumpOutput]:
        name = path.rpartition("/")[2]
        if name in TEXT_FILES or is_oldest(name):
            yield from self._own_output(path, None, records=options.log.records, json=False)
            return
        kind = kind_of(name)
        file = self._disk.open(path, writable=False)
        try:
            source = IndexFile(self._disk, path, str(Path.cwd() / path), kind.base)
            match kind.suffix:
                case names.LOG:
                    yield from _log(file, source, options, findings)
                case names.OFFSET_INDEX:
                    yield from dump_offset_index(source, file, options.indexes, findings)
                case names.TIME_INDEX:
                    yield from dump_time_index(source, file, options.indexes, findings)
                case names.TRANSACTION_INDEX:
                    yield from dump_transaction_index(source, file)
                case _:
                    yield from dump_snapshot(source, file)
        finally:
            file.close()

    def _own_output(
        self, path: str, decode: Callable[[Item], Item] | None, *, records: bool, json: bool
    ) -> Iterator[DumpOutput]:
        for item in read_file(self._disk, path, with_records=records):
            shown = item if decode is None else decode(item)
            yield Line(json_line(as_json(shown, path)).decode().removesuffix("\n") if json else as_text(shown))
            if item.is_damage:
                yield DamageAt(item.fields["position"], item.fields["reason"])


class FileKind(NamedTuple):
    """A file of a partition, by its name."""

    base: int
    suffix: str


def kind_of(name: str) -> FileKind:
    """The kind of a file. Raises UnknownFile if its name is not that of a partition's file."""
    plain = next((name.removesuffix(suffix) for suffix in SUFFIXES if name.endswith(suffix)), name)
    for suffix in (*names.SEGMENT_SUFFIXES, names.SNAPSHOT):
        base = names.offset_of(plain, suffix)
        if base is not None:
            return FileKind(base, suffix)
    raise UnknownFile


def _log(file: File, source: IndexFile, options: DumpOptions, findings: Findings) -> Iterator[DumpOutput]:
    if options.is_classic:
        yield Line(f"Starting offset: {source.base}")
        yield from classic_log(file, options.log)
    else:
        yield Line(f"Log starting offset: {source.base}")
        yield from LogPrinter(file, source.path, options.log, findings).lines()
