"""All flows of one mirror: they run beside each other, and a source that fails holds up no other."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from sordini.mirror.copier import Shared
from sordini.mirror.errors import first_error
from sordini.mirror.flow import Flow
from sordini.mirror.groups import MergedOffsets
from sordini.mirror.plan import Plan


class Mirror:
    """The flows of a plan."""

    def __init__(self, plan: Plan, notice: Callable[[str], None]) -> None:
        """`notice` takes lines for the operator."""
        merged = MergedOffsets((source.access.alias for source in plan.sources), plan.naming)
        shared = Shared(plan, merged, notice)
        self.flows = [Flow(shared, source) for source in plan.sources]

    def stop(self) -> None:
        """Commit what is under way, and end `run`."""
        for flow in self.flows:
            flow.stop()

    async def run(self) -> None:
        """Copy until stopped. Raises TakenOver when another mirror has this one's name."""
        try:
            async with asyncio.TaskGroup() as tasks:
                for flow in self.flows:
                    tasks.create_task(flow.run())
        except BaseExceptionGroup as group:
            raise first_error(group) from None
