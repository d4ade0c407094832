"""Sizes as operators write them. Pure."""

from __future__ import annotations


def binary_size(size: int) -> str:
    """Bytes with a binary unit: 512 MiB, 1.5 GiB."""
    amount = float(size)
    for unit in ("B", "KiB", "MiB", "GiB"):
        if amount < 1024:
            return f"{amount:.3g} {unit}" if amount < 100 else f"{amount:.0f} {unit}"
        amount /= 1024
    return f"{amount:.3g} TiB"
