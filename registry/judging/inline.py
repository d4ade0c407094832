"""Schemas parsed and compared in this process, whose loop waits: for the registry of a test."""

from __future__ import annotations

import time

from sordini.registry.judging.wire import Task
from sordini.registry.schema_rules import judge
from sordini.registry.state.refusals import invalid_schema
from sordini.registry.state.registering import Judged, Prepared
from sordini.schemas.codecs import SchemaError


class JudgeHere:
    """Implements `Judge`."""

    def __init__(self) -> None:
        self.seconds = 0.0
        self.count = 0

    async def judge(self, prepared: Prepared, client: str) -> Judged:
        del client
        began_s = time.monotonic()
        try:
            return judge(
                Task(
                    prepared.source,
                    prepared.earlier_sources,
                    prepared.level,
                    normalizes=prepared.normalizes,
                    format=prepared.format,
                )
            )
        except SchemaError as error:
            raise invalid_schema(f"Invalid schema: {error}") from None
        finally:
            self.seconds += time.monotonic() - began_s
            self.count += 1

    async def prepare(self) -> None:
        return

    async def close(self) -> None:
        return
