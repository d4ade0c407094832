"""The jars of Spark's own Kafka source; ours (`sordini.pipeline.source`) needs none."""

from __future__ import annotations

from sordini.pipeline.jars.lock import LOCKED, Jar, packages

__all__ = ["LOCKED", "Jar", "packages"]
