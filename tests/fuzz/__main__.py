"""Fuzz everything that reads bytes of others: `python -m tests.fuzz`, 10 million frames in process and 200,000 over TCP.

Three parts, each of which can be left out with 0: frames by chance in so many processes; the same targets guided by
coverage (atheris); and random requests of every API to a real broker beside a regular client (`tests/soak`). Exits with
1 when there is a finding, whose input is then in tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import importlib.util
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.fuzz.campaign import Finding, Tally, fuzzed, keep_finding
from tests.fuzz.corpus import keep
from tests.fuzz.targets.all import TARGETS

CHUNKS = 8
"""Into so many pieces a target's frames are divided: they are different seeds, and go to any free process."""
TCP_MINUTES_MAX = 240.0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("--frames", type=int, default=10_000_000, help="in process, over all targets")
    parser.add_argument("--guided", type=int, default=60, help="seconds of each target that are guided by coverage")
    parser.add_argument("--over-tcp", type=int, default=200_000, help="requests to a real broker")
    parser.add_argument("--targets", nargs="+", default=list(TARGETS), choices=list(TARGETS), help="only these")
    parser.add_argument("--seed", default=None, help="the same seed makes the same frames; without one, any")
    parser.add_argument("--workers", type=int, default=2, help="processes")
    given = parser.parse_args()
    seed = given.seed or str(random.SystemRandom().getrandbits(32))
    _print(f"seed {seed}")
    count = in_process(given.targets, given.frames, seed, given.workers)
    if given.guided:
        count += guided(given.targets, given.guided, seed, given.workers)
    if given.over_tcp:
        count += over_tcp(given.over_tcp, seed)
    _print(f"{count} findings")
    return 1 if count else 0


def in_process(targets: list[str], frames: int, seed: str, workers: int) -> int:
    """Frames by chance; the number of findings."""
    if not frames:
        return 0
    begin = time.monotonic()
    whole = sum(TARGETS[name].share for name in targets)
    count = total = 0
    with ProcessPoolExecutor(workers) as pool:
        pieces = [
            (
                name,
                pool.submit(_piece, name, int(frames * TARGETS[name].share / whole / CHUNKS) + 1, f"{seed} {number}"),
            )
            for name in targets
            for number in range(CHUNKS)
        ]
        for name in targets:
            done = [piece.result() for owner, piece in pieces if owner == name]
            tallies = [tally for tally, _ in done]
            made, inputs = sum(one.frames for one in tallies), sum(one.inputs for one in tallies)
            cpu_s = sum(one.cpu_s for one in tallies)
            total += made
            _print(
                f"{name:13} {made:11,} frames in {inputs:10,} inputs  {cpu_s:7.0f} CPU s  {made / max(cpu_s, 0.01):8,.0f}/s"
            )
            count += _report(finding for _, findings in done for finding in findings)
    _print(f"{total:,} frames in process in {time.monotonic() - begin:.0f} s")
    return count


def _piece(name: str, frames: int, seed: str) -> tuple[Tally, list[Finding]]:
    findings: list[Finding] = []
    return fuzzed(name, frames, seed, found=findings.append), findings


def _report(findings: Iterable[Finding]) -> int:
    by_place: dict[tuple[str, str], Finding] = {}
    for finding in findings:
        by_place.setdefault((finding.target, finding.where), finding)
    for finding in by_place.values():
        _print(
            f"FOUND in {finding.target}: {finding.why}\n  {finding.where}\n  input {keep_finding(finding) or finding.data.hex()}"
        )
    return len(by_place)


def guided(targets: list[str], seconds: int, seed: str, workers: int) -> int:
    """The same targets, led by the branches that inputs reach; the number of failures."""
    if importlib.util.find_spec("atheris") is None:
        _print("atheris is not installed: no guided inputs (pip install --group fuzz)")
        return 0
    begin = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="fuzz-") as made:
        waiting, count = list(targets), 0
        running: dict[str, subprocess.Popen[str]] = {}
        while waiting or running:
            while waiting and len(running) < workers:
                name = waiting.pop(0)
                running[name] = _start_guided(name, Path(made, name), seconds, seed)
            name, process = next(iter(running.items()))
            output, _ = process.communicate()
            del running[name]
            count += _guided_outcome(name, Path(made, name), process.returncode, output)
    _print(f"{len(targets)} targets guided by coverage, {seconds} s each, in {time.monotonic() - begin:.0f} s")
    return count


def _start_guided(name: str, folder: Path, seconds: int, seed: str) -> subprocess.Popen[str]:
    number = random.Random(seed).getrandbits(31)
    command = [
        sys.executable,
        "-m",
        "tests.fuzz.guided",
        name,
        str(folder),
        f"-max_total_time={seconds}",
        f"-seed={number}",
    ]
    return subprocess.Popen(
        [*command, "-max_len=8192"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, errors="replace"
    )


def _guided_outcome(name: str, folder: Path, status: int, output: str) -> int:
    lines = output.splitlines()
    covered = [line for line in lines if " cov: " in line]
    _print(
        f"{name:13} {covered[-1].partition('cov:')[1:] and 'cov:' + covered[-1].partition('cov:')[2] if covered else ''}"
    )
    if status == 0:
        return 0
    for path in folder.glob("crash-*"):
        _print(f"FOUND in {name}: input {keep(name, path.read_bytes(), 'found')}")
    _print("\n".join(lines[-15:]))
    return 1


def over_tcp(requests: int, seed: str) -> int:
    """A real broker; whether there was a finding."""
    begin = time.monotonic()
    arguments = ["--requests", str(requests), "--seed", seed, "--minutes", str(TCP_MINUTES_MAX)]
    status = subprocess.run([sys.executable, "-m", "tests.soak", *arguments], check=False).returncode
    _print(f"{requests:,} requests over TCP in {time.monotonic() - begin:.0f} s")
    return int(status != 0)


def _print(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
