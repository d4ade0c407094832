"""Levels of features of a cluster (KIP-584), whose names are in `replication/metadata_store/znodes.py`."""

from __future__ import annotations

from typing import Final

RAISES_EPOCH: Final = 2
"""The transaction.version from which on the end of each transaction raises its producer's epoch (KIP-890 part 2)."""
