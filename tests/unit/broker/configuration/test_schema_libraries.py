"""Whether `sordini.schema.validate=full` can be set on a broker."""

from __future__ import annotations

import subprocess
import sys

import pytest

from sordini.broker.configuration.schema_libraries import LIBRARIES, check_schema_libraries
from sordini.broker.configuration.settings import ConfigError

FULL = {"sordini.schema.validate": "full"}


@pytest.mark.parametrize("lacking", LIBRARIES)
def test_full_is_refused_where_a_library_is_not_installed_and_the_text_names_it_and_the_remedy(lacking: str) -> None:
    with pytest.raises(ConfigError, match=rf"installed {LIBRARIES[lacking]}: pip install '../sordini\[schemas\]'"):
        check_schema_libraries(FULL, lambda module: None if module == lacking else module)


def test_full_is_refused_where_the_package_around_a_library_is_not_there() -> None:
    def found(module: str) -> object:
        if "." in module:
            raise ModuleNotFoundError(module)
        return module

    with pytest.raises(ConfigError, match="protobuf"):
        check_schema_libraries(FULL, found)


@pytest.mark.parametrize("value", ["none", "id", None])
def test_other_values_need_no_library(value: str | None) -> None:
    check_schema_libraries({"sordini.schema.validate": value}, lambda _: None)
    check_schema_libraries({}, lambda _: None)


def test_the_libraries_are_found_without_being_imported() -> None:
    program = (
        "import sys\nfrom sordini.broker.configuration.schema_libraries import LIBRARIES, check_schema_libraries\n"
        "check_schema_libraries({'sordini.schema.validate': 'full'})\nprint(sorted(set(LIBRARIES) & set(sys.modules)))"
    )
    assert subprocess.check_output([sys.executable, "-c", program], text=True, timeout=60) == "[]\n"
