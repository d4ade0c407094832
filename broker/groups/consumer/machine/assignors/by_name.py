"""The assignors that a broker has, by the names of `group.consumer.assignors`; the first one is the default."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from sordini.broker.groups.consumer.machine.assignors.group import Assignor
from sordini.broker.groups.consumer.machine.assignors.range_assignor import assign_ranges
from sordini.broker.groups.consumer.machine.assignors.uniform_assignor import assign_uniformly

ASSIGNORS: Final[Mapping[str, Assignor]] = {"uniform": assign_uniformly, "range": assign_ranges}
