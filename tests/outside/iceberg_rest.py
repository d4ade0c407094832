"""Apache Iceberg's own REST catalog as a process, with tables in a folder."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path

from tests.outside.needs import need_iceberg_rest, need_java
from tests.outside.ports import free_port, is_listening
from tests.outside.processes import OutsideProcess


class IcebergRestCatalog(OutsideProcess):
    """Its own catalog is a SQLite file in `directory`."""

    name = "iceberg-rest"

    def __init__(self, directory: Path) -> None:
        super().__init__(directory)
        self._jars = need_iceberg_rest()
        self.port = free_port()

    @property
    def uri(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def warehouse(self) -> Path:
        return self.directory / "warehouse"

    def command(self) -> Sequence[str]:
        pyspark = find_spec("pyspark")
        assert pyspark is not None
        assert pyspark.origin is not None
        hadoop = sorted((Path(pyspark.origin).parent / "jars").glob("hadoop-client-*.jar"))
        classes = os.pathsep.join(map(str, [*self._jars, *hadoop]))
        return [
            need_java(),
            "-Xmx256m",
            "-XX:TieredStopAtLevel=1",
            "-cp",
            classes,
            "org.apache.iceberg.rest.RESTCatalogServer",
        ]

    def environment(self) -> Mapping[str, str]:
        return {
            **super().environment(),
            "CATALOG_URI": f"jdbc:sqlite:{self.directory}/catalog.db",
            "CATALOG_WAREHOUSE": self.warehouse.as_uri(),
            "CATALOG_REST_PORT": str(self.port),
        }

    def is_ready(self) -> bool:
        return is_listening(self.port)
