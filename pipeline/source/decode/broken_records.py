"""Records that cannot be read."""

from __future__ import annotations

from sordini.pipeline.errors import PipelineError
from sordini.protocol.records.compression import CODEC_NAMES


class BrokenRecords(PipelineError):
    """Records do not match their CRC, their codec or the record format; can be pickled."""

    def __init__(
        self, topic: str, partition: int, offset: int, *, codec: int | None, reason: str, next_offset: int | None = None
    ) -> None:
        self.topic = topic
        self.partition = partition
        self.offset = offset
        """Of the first record that cannot be read; of the whole batch where its CRC or its codec fails."""
        self.codec = "unknown codec" if codec is None else CODEC_NAMES.get(codec, f"codec {codec}")
        """The codec's name, as `compression.type` has it."""
        self.reason = reason
        self.next_offset = next_offset
        """Past the broken batch, by its header, for a reader that skips it; None where that is unknown."""
        super().__init__(f"topic '{topic}', partition {partition}, offset {offset}, {self.codec}: {reason}")
