"""Hashes of keys, as the default partitioner of Apache Kafka's clients has them (murmur2), of a whole Arrow array.

Keys of one size are hashed together, word by word: a short key costs some 0.2 us of the processor, one by one 2 us.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Words = npt.NDArray[np.uint32]

_SEED: Final = 0x9747B28C
_MULTIPLIER: Final = np.uint32(0x5BD1E995)
_WORD_BYTES: Final = 4


def key_hashes(keys: pa.BinaryArray) -> Words:
    """The hash of each key, with its highest bit cleared; what null has means nothing."""
    _, offsets, values = keys.buffers()
    starts = np.frombuffer(offsets, np.int32)[keys.offset : keys.offset + len(keys) + 1]
    data = np.frombuffer(values or b"", np.uint8)
    sizes = np.diff(starts)
    hashes = np.zeros(len(keys), np.uint32)
    for size in np.unique(sizes).tolist():
        rows = np.flatnonzero(sizes == size)
        hashes[rows] = _hashes_of_size(data, starts[rows], size)
    return hashes & np.uint32(0x7FFFFFFF)


def _hashes_of_size(data: npt.NDArray[np.uint8], starts: npt.NDArray[Any], size: int) -> Words:
    hashes = np.full(len(starts), _SEED ^ size, np.uint32)
    rest = size % _WORD_BYTES
    for position in range(0, size - rest, _WORD_BYTES):
        words = _word(data, starts + position, _WORD_BYTES) * _MULTIPLIER
        words = (words ^ words >> np.uint32(24)) * _MULTIPLIER
        hashes = hashes * _MULTIPLIER ^ words
    if rest:
        hashes = (hashes ^ _word(data, starts + (size - rest), rest)) * _MULTIPLIER
    hashes = (hashes ^ hashes >> np.uint32(13)) * _MULTIPLIER
    return hashes ^ hashes >> np.uint32(15)


def _word(data: npt.NDArray[np.uint8], starts: npt.NDArray[Any], count: int) -> Words:
    """`count` bytes from each start as a number in little endian."""
    words: Words = data[starts].astype(np.uint32)
    for number in range(1, count):
        words |= data[starts + number].astype(np.uint32) << np.uint32(8 * number)
    return words
