"""Every situation: importing the modules registers what they hold, in the order shown."""

from tests.compat.situations import (  # noqa: F401  (imported for what they register)
    api_versions,
    configs,
    fetch,
    fetch_sessions,
    list_offsets,
    malformed,
    metadata,
    produce,
    produce_old,
    produce_sequences,
    topics,
)
from tests.compat.situations.registry import SITUATIONS

__all__ = ["SITUATIONS"]
