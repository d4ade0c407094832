"""The jars of Spark's own Kafka source; ours (`sordini.pipeline.source`) needs none."""

from __future__ import annotations

from sordini.pipeline.jars.lock import CONNECTORS, LOCKED, Jar, locked, packages

__all__ = ["CONNECTORS", "LOCKED", "Jar", "locked", "packages"]
