"""What the Dockerfile says: its stages, instruction by instruction, with the ARGs before the first filled in."""

from __future__ import annotations

import re
import shlex
from functools import cache
from pathlib import Path
from typing import NamedTuple

from dockerfile_parse import DockerfileParser

ROOT = Path(__file__).resolve().parents[2]
LIBRARIES, LIBRARIES_PIPELINE = "libraries", "libraries-pipeline"
BUILD, BUILD_PIPELINE = "build", "build-pipeline"
PIPELINE, BROKER = "pipeline", "broker"


class Instruction(NamedTuple):
    name: str
    value: str


@cache
def stages() -> tuple[tuple[Instruction, ...], ...]:
    """The instructions from each FROM to the next."""
    found: list[list[Instruction]] = []
    arguments: dict[str, str] = {}
    for row in DockerfileParser(path=str(ROOT / "Dockerfile")).structure:
        name, value = row["instruction"], re.sub(r"\s+", " ", row["value"])
        if name == "COMMENT":
            continue
        if name == "FROM":
            value = re.sub(r"\$\{(\w+)\}", lambda found: arguments[found[1]], value)
            found.append([])
        if found:
            found[-1].append(Instruction(name, value))
        else:
            assert name == "ARG", f"{name} before the first FROM"
            arguments.update([value.split("=", 1)])
    return tuple(map(tuple, found))


def stage_named(name: str) -> tuple[Instruction, ...]:
    (found,) = (stage for stage in stages() if stage[0].value.endswith(f" AS {name}"))
    return found


def values(stage: str, name: str) -> list[str]:
    return [instruction.value for instruction in stage_named(stage) if instruction.name == name]


def value(stage: str, name: str) -> str:
    (found,) = values(stage, name)
    return found


def environment() -> dict[str, str]:
    """The broker image's."""
    return dict(pair.split("=", 1) for text in values(BROKER, "ENV") for pair in shlex.split(text))


def user() -> int:
    return int(value(BROKER, "USER"))
