"""CRC-32C, by the compiled function of the library `crc32c`.

The library's package imports its command line (argparse) and reads its own version from the files of its installation
(importlib.metadata, with email, zipfile and csv): 50 modules, a twentieth of a broker's start. So its extension
module is loaded from the package's folder, without the package. Where that is not laid out as expected, the package
is imported.
"""

from __future__ import annotations

from importlib.machinery import ExtensionFileLoader, PathFinder
from importlib.util import module_from_spec
from typing import Final, Protocol

_PACKAGE: Final = "crc32c"
_EXTENSION: Final = "crc32c._crc32c"


class Checksum(Protocol):
    """The function's type."""

    def __call__(self, data: bytes | bytearray | memoryview, value: int = 0, /) -> int:
        """The CRC-32C of some bytes; `value` is that of the bytes before them."""


def _load() -> Checksum:
    package = PathFinder.find_spec(_PACKAGE)
    if package is not None and package.submodule_search_locations:
        spec = PathFinder.find_spec(_EXTENSION, package.submodule_search_locations)
        if spec is not None and isinstance(spec.loader, ExtensionFileLoader):
            module = module_from_spec(spec)
            spec.loader.exec_module(module)
            found: Checksum | None = getattr(module, "crc32c", None)
            if found is not None:
                return found
    from crc32c import crc32c  # Late: see above.

    return crc32c


crc32c: Final = _load()
