"""Iceberg's own engine, in an environment of its own: `python iceberg_engine.py JARS FOLDER`, driven line by line.

It opens the catalog in FOLDER as a table's other programs would. It says "ready"; then each line of standard input is a
statement of SQL as JSON, and is answered by its rows as JSON, or by {"error": ...}. The end of the input ends it.
"""

from __future__ import annotations

import json
import sys

from pyspark.sql import SparkSession

EXTENSIONS = "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"


def main(jars: str, folder: str) -> None:
    settings = {
        "spark.master": "local[2]",
        "spark.driver.memory": "1g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.log.level": "ERROR",
        "spark.jars": jars,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": EXTENSIONS,
        "spark.sql.catalog.sordini": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.sordini.type": "jdbc",
        "spark.sql.catalog.sordini.uri": f"jdbc:sqlite:{folder}/catalog.db",
        "spark.sql.catalog.sordini.warehouse": f"file://{folder}",
        "spark.sql.catalog.sordini.cache-enabled": "false",
    }
    builder = SparkSession.builder
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    say("ready")
    for line in sys.stdin:
        try:
            say([list(row) for row in spark.sql(json.loads(line)).collect()])
        except Exception as error:  # noqa: BLE001 - whatever it is, the test prints it
            say({"error": str(error)})
    spark.stop()


def say(text: object) -> None:
    sys.stdout.write(json.dumps(text, default=str) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
