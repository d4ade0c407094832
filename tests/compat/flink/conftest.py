"""Flink before brokers: with SORDINI_FLINK=all alone, as `make flink` sets it."""

from __future__ import annotations

import os

collect_ignore = [] if os.environ.get("SORDINI_FLINK") == "all" else ["test_flink.py"]
