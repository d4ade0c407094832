"""Whether this broker has the libraries that `sordini.schema.validate=full` needs. None is imported for it.

Asked when a setting is made only: a topic that has it already stays checked, on a broker without them too, where its
records are refused (docs/registry-checks.md).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Final

from sordini.broker.configuration.settings import ConfigError
from sordini.broker.configuration.topic_config import SCHEMA_VALIDATE

LIBRARIES: Final = {
    "fastavro": "fastavro",
    "jsonschema": "jsonschema",
    "google.protobuf": "protobuf",
    "grpc_tools": "grpcio-tools",
}
"""Modules, and the distributions that have them."""


def check_schema_libraries(configs: Mapping[str, str | None], find: Callable[[str], object | None] = find_spec) -> None:
    """Raise ConfigError for a topic that is to have its values decoded without the libraries; `find` finds a module."""
    if configs.get(SCHEMA_VALIDATE) != "full":
        return
    missing = [distribution for module, distribution in LIBRARIES.items() if not _is_there(module, find)]
    if missing:
        raise ConfigError(
            f"{SCHEMA_VALIDATE}='full' is not valid on this broker, which has not installed {', '.join(missing)}: "
            "pip install '../sordini[schemas]' (docs/installation.md)"
        )


def _is_there(module: str, find: Callable[[str], object | None]) -> bool:
    try:
        return find(module) is not None
    except ImportError:  # Of the package around it.
        return False
