"""`sordini pipeline jars`: the jars of Spark's own Kafka source, for machines where Spark cannot resolve them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

import click

from sordini.pipeline.cli.options import PipelineCommand, with_error_messages


@click.command(cls=PipelineCommand)
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option("--repository", "address", metavar="URL", envvar="MAVEN_REPO_URL", show_envvar=True, default="",
              help="A Maven repository; default: the mirror of Maven's settings, else its central one.")  # fmt: skip
@click.option("--pyspark", "spark", metavar="VERSION", default="", help="Default: the PySpark that is installed.")
@with_error_messages
def jars(folder: Path, address: str, spark: str) -> None:
    """Download and verify the jars of Spark's own Kafka source, and print a value for spark.jars.

    Only `format: kafka` needs them, and only if Spark cannot download them by itself.

    \b
      sordini pipeline jars jars/
      sordini pipeline jars jars/ --repository https://maven.example/all
    """
    from sordini.pipeline.errors import PipelineError
    from sordini.pipeline.jars import CONNECTORS, locked
    from sordini.pipeline.jars.fetching import fetch, repository

    try:
        wanted = spark or version("pyspark")
    except PackageNotFoundError:
        raise PipelineError(f"PySpark is not installed: --pyspark says for which ({', '.join(CONNECTORS)})") from None
    found = locked(wanted)
    place = address or repository()
    click.echo(f"PySpark {wanted}: {len(found)} jars from {place}", err=True)
    click.echo(",".join(str(path.resolve()) for path in fetch(folder, place, found)))
