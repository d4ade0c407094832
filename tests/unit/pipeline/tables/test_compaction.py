from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sordini.pipeline.tables.compaction import Small, bins

FILES = st.lists(st.tuples(st.integers(1, 200), st.sampled_from("ab")), max_size=40).map(
    lambda files: [Small(str(number), size, partition) for number, (size, partition) in enumerate(files)]
)


@given(FILES)
def test_files_are_put_together_once_within_their_partition_and_up_to_the_target(files: list[Small]) -> None:
    groups = bins(files, 100)
    put_together = [file for group in groups for file in group]
    assert len(put_together) == len(set(put_together))
    for group in groups:
        assert len(group) > 1
        assert len({file.partition for file in group}) == 1
        assert sum(file.bytes for file in group) <= 100


@given(FILES)
def test_few_small_files_are_left(files: list[Small]) -> None:
    groups = bins(files, 100)
    left = [file for file in files if file.bytes < 75 and not any(file in group for group in groups)]
    for partition in "ab":
        alone = [file.bytes for file in left if file.partition == partition]
        # One that is left did not fit together with the next, which is below 75: but for the last it is above 25.
        assert sum(size <= 25 for size in alone) <= 1


def test_files_near_the_target_are_left_alone() -> None:
    files = [Small("a", 75, None), Small("b", 10, None), Small("c", 74, None)]
    assert bins(files, 100) == [[files[1], files[2]]]
