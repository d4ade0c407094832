"""Carrying out a script: each process of it to its end, the crash, the starts after it, and the verdict."""

from __future__ import annotations

import errno
import random
import zlib
from collections import Counter
from typing import NamedTuple

from sordini.protocol.errors import BrokerError
from sordini.protocol.types import TopicPartition
from sordini.storage import checkpoints, names
from sordini.storage.directory_failure import PASSING
from sordini.storage.errors import StorageError
from sordini.storage.log import Log
from sordini.testing.brokers.loop_processes import Died
from sordini.testing.simulation.forgetful_disk import ForgetfulDisk
from tests.crash.expected_log import Batch, Truth, Violation, require
from tests.crash.judge import judge
from tests.crash.script import Death, Incarnation, Script, Step, Strike
from tests.crash.stop_rules import check_stopped
from tests.crash.store_under_test import World

# Cleanup only: if it fails, the next start repeats it.
TIDYING = ("remove", "rmdir")
CUTTING = ("truncate", "rewrite", "flush_beside")


class Outcome(NamedTuple):
    """The outcome of one script. `tally` counts operations, strikes and crashes by kind."""

    seed: int
    finding: str
    tally: Counter[str]
    digest: int


class Refused(Exception):
    """The start was rightly refused: a person has to decide, and the script ends."""


class Run:
    """One script being carried out."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.world = World(script)
        self.tally: Counter[str] = Counter()
        self.digest = 0
        self.at = "the beginning"
        self.has_broken = False

    async def go(self) -> Outcome:
        finding = ""
        try:
            await self._all()
        except Refused:
            self.tally["starts refused for a broken directory's twin"] += 1
        except Violation as violation:
            finding = f"{self.at}: {violation}"
        except Exception as error:  # noqa: BLE001 - whatever the store lets out is a finding.
            finding = f"{self.at}: {type(error).__name__}: {error}"
        return Outcome(self.script.seed, finding, self.tally, self.digest)

    async def _all(self) -> None:
        world = self.world
        world.manager.open(world.now_ms)
        for number in range(self.script.partitions):
            world.create(world.partition(number))
        for number, incarnation in enumerate(self.script.incarnations, 1):
            self.at = f"incarnation {number}"
            await self._run_incarnation(incarnation, f"life {number}")
            self.at = f"incarnation {number}, after it"
            await self._start_again(incarnation)

    # One process.

    async def _run_incarnation(self, incarnation: Incarnation, name: str) -> None:
        world = self.world
        disk = world.disk
        for number, step in enumerate(incarnation.steps, 1):
            self.at = f"{name}, step {number} ({step})"
            is_last = number == len(incarnation.steps) and not incarnation.closes
            if is_last and incarnation.death is not None:
                disk.die_at(incarnation.death.call, incarnation.death.share)
            try:
                await self._step(step)
            except Died:
                self.tally[f"died in {step.operation}"] += 1
                return
        if incarnation.closes:
            self.at = f"{name}, close"
            if incarnation.death is not None:
                disk.die_at(incarnation.death.call, incarnation.death.share)
            try:
                await self._close(incarnation.close_strike)
            except Died:
                self.tally["died in close"] += 1

    async def _step(self, step: Step) -> None:
        world = self.world
        self.tally[step.operation] += 1
        truth = world.truth_of(world.partition(step.partition))
        log = None if truth is None else world.manager.get(truth.partition)
        offline = set(world.manager.offline_directories)
        ends = {one.topic_partition: one.log_end_offset for one in world.manager.logs()}
        self._brace()
        fault = self._arm(step.strike)
        chance = random.Random(step.chance)
        try:
            if truth is None or log is None:
                world.create(world.partition(step.partition))
            else:
                await getattr(world, step.operation)(log, truth, chance)
        except (BrokerError, StorageError) as error:
            self._refused(step, truth, error, fault, offline)
        finally:
            world.disk.heal_faults()
        self._check_offline(step, fault, offline)
        self._settle(step, chance, ends)

    def _brace(self) -> None:
        """Before an operation: retention, where it comes in, may move a start up to the high watermark."""
        for log in self.world.manager.logs():
            truth = self._truth(log)
            truth.start_may_be = max(truth.start, log.high_watermark)

    def _truth(self, log: Log) -> Truth:
        truth = self.world.truth_of(log.topic_partition)
        require(truth is not None, f"{log.topic_partition} has a log and was never made")
        assert truth is not None
        return truth

    def _settle(self, step: Step, chance: random.Random, ends: dict[TopicPartition, int]) -> None:
        """After an operation: every log matches its expectation."""
        world = self.world
        for log in world.manager.logs():
            truth = self._truth(log)
            partition = log.topic_partition
            if log.log_dir.failure is not None:
                end = log.log_end_offset
                is_cut = step.operation in CUTTING
                require(end >= ends.get(partition, 0) or is_cut, partition, f"shrank to {end}")
                continue
            require(log.log_end_offset == truth.end, partition, f"ends at {log.log_end_offset}, not {truth.end}")
            start = log.log_start_offset
            require(truth.start <= start <= truth.start_may_be, partition, f"starts at {start}, not {truth.start}")
            self._check_deleted(step, truth, start)
            truth.start = start
            truth.start_highest = max(truth.start_highest, start)
            require(log.recovery_point <= truth.end, partition, f"trusts {log.recovery_point}, past {truth.end}")
            truth.promised = max(truth.promised, log.recovery_point)
            truth.directory = log.log_dir.path
            if chance.random() < 0.7:
                log.high_watermark = max(log.high_watermark, chance.randint(log.high_watermark, truth.end))
        for directory in world.manager.online_directories:
            for partition, offset in checkpoints.read_offsets(world.disk, directory, names.LOG_STARTS).items():
                saved = world.truth_of(partition)
                if saved is not None and saved.directory == directory:
                    saved.start_saved = max(saved.start_saved, min(offset, saved.start))

    def _check_deleted(self, step: Step, truth: Truth, start: int) -> None:
        """Nothing goes by its age but what is old enough."""
        config = self.world.config
        if config.retention_bytes >= 0 or step.operation == "retain":
            return
        for batch in truth.batches:
            if max(truth.start, truth.deleted_to) <= batch.base < start:
                age_ms = self.world.now_ms - batch.header.max_timestamp
                is_old = 0 <= config.retention_ms < age_ms
                require(is_old, truth.partition, f"deleted {batch.base}, {age_ms} ms old, for {config.retention_ms}")

    # Faults.

    def _arm(self, strike: Strike | None) -> list[tuple[str, str]]:
        """Let the disk misbehave in the next operation; what it did is in the list then."""
        struck: list[tuple[str, str]] = []
        if strike is None:
            return struck
        disk = self.world.disk
        if strike.kind == "short":
            disk.shorten(strike.call)
            return struck
        count = 0

        def comes(kind: str, path: str) -> bool:
            nonlocal count
            count += 1
            hits = count >= strike.call if strike.kind == "full" else count == strike.call
            if hits:
                struck.append((kind, path))
                self.tally[f"{errno.errorcode[strike.errno]} at {kind}"] += 1
            return hits

        if strike.kind == "look":
            disk.refuse_while(comes, strike.errno)
        else:
            disk.fail_while(comes, strike.errno)
        return struck

    def _refused(
        self, step: Step, truth: Truth | None, error: Exception, struck: list[tuple[str, str]], offline: set[str]
    ) -> None:
        if truth is None:
            require(step.strike is not None or bool(offline), f"a partition could not be made: {error}")
            return
        is_half = truth.cut_to >= 0 and isinstance(error, BrokerError)
        require(not is_half, f"a cut was refused half done: {error}")
        if step.strike is not None:
            return
        require(isinstance(error, StorageError), f"{error} although nothing was wrong")
        require(bool(offline), f"{error} although nothing was wrong")

    def _check_offline(self, step: Step, struck: list[tuple[str, str]], offline: set[str]) -> None:
        """A broken disk takes its own directory away and no other; a full one none, at an append."""
        manager = self.world.manager
        now = set(manager.offline_directories)
        self.has_broken = self.has_broken or bool(now)
        hit = {directory for directory in self.world.directories for _, path in struck if _is_in(path, directory)}
        new = now - offline
        if not struck:
            is_short = step.strike is not None and step.strike.kind == "short"
            require(not new or is_short, f"{new} went offline and nothing was struck")
            return
        require(new <= hit, f"{new} went offline, struck were {struck}")
        assert step.strike is not None
        if step.strike.errno in PASSING:
            plain = step.operation in ("append", "append_several", "roll", "tick", "flush", "snapshot")
            is_cut_back = any(kind == "truncate" and path.endswith(".log") for kind, path in struck)
            is_sync = any(kind.startswith("sync") for kind, _ in struck)
            is_left = any(kind == "remove" for kind, _ in struck)
            if plain and not is_cut_back and not is_sync and not is_left:
                require(not new, f"{new} went offline for {struck}")
        elif step.strike.kind != "look":
            for kind, path in struck:
                where = [directory for directory in self.world.directories if _is_in(path, directory)]
                if kind not in TIDYING and where:
                    require(where[0] in now, f"{where[0]} is online after a broken {kind} of {path}")

    async def _close(self, strike: Strike | None) -> None:
        world = self.world
        offline = set(world.manager.offline_directories)
        struck = self._arm(strike)
        try:
            await world.manager.close()
        finally:
            world.disk.heal_faults()
        self.tally["close"] += 1
        stopped = [one for one in world.directories if check_stopped(one, world.disk.tree())]
        failed = offline | set(world.manager.offline_directories)
        # The marker is the last thing: when it could not be synced, all else was.
        last = {
            directory
            for directory in stopped
            if struck and struck[0][1] in (directory, f"{directory}/{names.CLEAN_MARKER}")
        }
        require(not (failed & set(stopped)) - last, f"a marker is in {failed & set(stopped)}, which failed")
        if not struck and (strike is None or strike.kind != "short"):
            require(len({*stopped, *failed}) == len(world.directories), f"only {stopped} have a marker")
        for truths in world.truths.values():
            for truth in truths:
                if truth.directory in stopped and not truth.is_deleted:
                    truth.promised = truth.end
                    truth.start_saved = truth.start

    # The crash, and what is found then.

    async def _start_again(self, incarnation: Incarnation) -> None:
        world = self.world
        death = incarnation.death
        world.disk.kill()
        # A process killed after a failed sync leaves the disk as a power loss does (fsyncgate).
        lost_power = death is not None and death.power
        was_power = lost_power or world.disk.has_dropped
        disk = _after(world.disk, death)
        self.tally["clean stops" if death is None else _name(death)] += 1
        chance = random.Random(incarnation.steps[0].chance)
        for strike in incarnation.starts:
            for directory in world.directories:
                if disk.is_directory(directory):
                    check_stopped(directory, disk.tree())
            died = self._start_struck(disk, strike)
            lost_power = lost_power or (died is not None and died.power)
            was_power = was_power or lost_power or disk.has_dropped
            disk = _after(disk, died)
        disk.chance = random.Random(f"disk {chance.random()}")
        stopped = [one for one in world.directories if disk.is_directory(one) and check_stopped(one, disk.tree())]
        world.disk = disk
        world.manager = world.a_manager(disk)
        try:
            findings = world.manager.open(world.now_ms)
        except StorageError as error:
            # Deleted in a directory that broke before that was on the disk, and made again in another one.
            if self.has_broken and "is also in" in str(error):
                raise Refused from error
            raise
        require(not world.manager.offline_directories, f"offline after the start: {world.manager.describe_log_dirs()}")
        if len(stopped) == len(world.directories):
            mended = [finding for finding in findings if "no snapshot" not in finding]
            require(not mended, f"after a clean stop: {mended}")
        found = self._judge(chance, was_power=was_power)
        self._reopen(was_clean=bool(stopped))
        for partition, (truth, batches) in found.items():
            log = world.manager.get(partition)
            assert log is not None
            truth.adopt(batches, log.log_start_offset, log.log_end_offset, log.epochs.entries, was_power=was_power)
            if lost_power:  # What is found after that was on the disk.
                truth.promised = truth.end
        for partition, truths in world.truths.items():
            now = [found[partition][0]] if partition in found else []
            # What was deleted stays so only once the directory was written, which a power failure shows.
            before = [] if was_power else [truth for truth in truths if truth not in now]
            for truth in before:
                truth.is_deleted = True
            world.truths[partition] = [*before, *now]
        self.digest = zlib.crc32(repr(sorted(disk.tree().items())).encode(), self.digest)

    def _start_struck(self, disk: ForgetfulDisk, strike: Death | Strike) -> Death | None:
        """A start with a fault; how its process ended, None when it runs until it is killed."""
        world = self.world
        world.disk = disk
        manager = world.manager = world.a_manager(disk)
        if isinstance(strike, Death):
            disk.die_at(strike.call, strike.share)
        else:
            self._arm(strike)
        try:
            manager.open(world.now_ms)
        except Died:
            self.tally[f"start: {_name(strike)}" if isinstance(strike, Death) else "start"] += 1
        except StorageError as error:
            require(isinstance(strike, Strike), f"a start failed: {error}")
            self.tally["start failed"] += 1
        disk.heal()
        disk.kill()
        return strike if isinstance(strike, Death) else None

    def _judge(self, chance: random.Random, *, was_power: bool) -> dict[TopicPartition, tuple[Truth, list[Batch]]]:
        """Hold every log against the truth about it; which truth it was, and what is left of it."""
        world = self.world
        found = {}
        for log in world.manager.logs():
            truths = world.truths.get(log.topic_partition, [])
            if not was_power:
                truths = [truth for truth in truths if not truth.is_deleted or truth.is_unsure]
            same = [truth for truth in truths if truth.topic_id == log.topic_id] or truths
            require(bool(same), log.topic_partition, "was deleted and is back")
            found[log.topic_partition] = self._which(log, same[::-1], chance, was_power=was_power)
        for partition, truths in world.truths.items():
            if not truths:
                continue
            newest = truths[-1]
            must_be = newest.promised > 0 or not was_power
            is_there = partition in found
            require(is_there or newest.is_deleted or newest.is_unsure or not must_be, partition, "is gone")
            if is_there and newest.promised > 0:
                require(found[partition][0] is newest, partition, "is an earlier one, that was deleted")
        return found

    def _which(
        self, log: Log, truths: list[Truth], chance: random.Random, *, was_power: bool
    ) -> tuple[Truth, list[Batch]]:
        violations = []
        for truth in truths:
            at_least = truth.promised if was_power else (truth.cut_floor if truth.cut_to >= 0 else truth.end)
            try:
                return truth, judge(truth, log, self.world.disk, chance, at_least=at_least)
            except Violation as violation:
                violations.append(violation)
        raise violations[0]

    def _reopen(self, *, was_clean: bool) -> None:
        """A process that only opened the logs is killed: the next one finds the same bytes, and leaves them."""
        disk = self.world.disk
        before = disk.tree()
        if was_clean:
            # The clean shutdown was accepted; from now on the logs are recovered, which rebuilds their snapshots.
            disk = self._opened_again(disk)
            logs = [path for path in {**before, **disk.tree()} if path.endswith(names.LOG)]
            changed = [path for path in logs if before.get(path) != disk.tree().get(path)]
            require(not changed, f"opened after a clean stop and again, changed: {sorted(changed)}")
            before = disk.tree()
        after = self._opened_again(disk).tree()
        changed = [path for path in {**before, **after} if before.get(path) != after.get(path)]
        require(not changed, f"opened twice, changed: {sorted(changed)}")

    def _opened_again(self, disk: ForgetfulDisk) -> ForgetfulDisk:
        again = disk.killed()
        self.world.a_manager(again).open(self.world.now_ms)
        return again


def _is_in(path: str, directory: str) -> bool:
    return path == directory or path.startswith(f"{directory}/")


def _after(disk: ForgetfulDisk, death: Death | None) -> ForgetfulDisk:
    return disk.power_lost(death.kept) if death is not None and death.power else disk.killed()


def _name(death: Death) -> str:
    return "power losses" if death.power else "kills"


async def run(script: Script) -> Outcome:
    return await Run(script).go()
