"""How often pyiceberg repeats a request that a store could not answer: about as often as deltalake does."""

from __future__ import annotations

from pyarrow.fs import AwsStandardS3RetryStrategy

ATTEMPTS_MAX = 6
"""Together some seconds, as ten retries of object_store take, where Arrow's default is one second."""


class StoreRetries(AwsStandardS3RetryStrategy):  # type: ignore[misc] # pyarrow's has no types.
    """pyiceberg calls it by its name, without arguments."""

    def __init__(self) -> None:
        super().__init__(max_attempts=ATTEMPTS_MAX)
