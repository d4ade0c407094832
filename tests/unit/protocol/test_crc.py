"""CRC-32C without the package of its library."""

from __future__ import annotations

import subprocess
import sys

import crc32c as package
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sordini.protocol.crc import crc32c

WITHOUT = """
import sys
from importlib.machinery import PathFinder
find, asked = PathFinder.find_spec, []
{change}
from sordini.protocol.crc import crc32c
print(hex(crc32c(b"123456789")), "importlib.metadata" in sys.modules)
"""
NOT_FOUND_AT_FIRST = """
def find_later(name, *rest):
    asked.append(name)
    return None if asked.count("crc32c._crc32c") == 1 and name == "crc32c._crc32c" else find(name, *rest)
PathFinder.find_spec = find_later
"""


@given(st.binary(max_size=200), st.binary(max_size=200))
def test_it_is_the_librarys_function_and_continues_a_checksum(first: bytes, second: bytes) -> None:
    assert crc32c(first + second) == package.crc32c(first + second) == crc32c(second, crc32c(first))
    assert crc32c(memoryview(bytearray(first))) == crc32c(first)


@pytest.mark.parametrize(("change", "takes_the_package"), [("", False), (NOT_FOUND_AT_FIRST, True)])
def test_the_package_is_imported_only_where_its_folder_is_not_laid_out_as_expected(
    change: str, takes_the_package: bool
) -> None:
    program = WITHOUT.format(change=change)
    printed = subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60)
    assert printed.split() == ["0xe3069283", str(takes_the_package)]
