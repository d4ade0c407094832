"""`sordini pipeline infer`: proposes a job file from a sample of a topic."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from sordini.admin.failure import Failure
from sordini.cli.common.registry_options import RegistryOptions, registry_options
from sordini.pipeline.cli.options import PipelineCommand, bootstrap_option, with_error_messages

if TYPE_CHECKING:
    from sordini.pipeline.schemas.registry_settings import RegistrySettings


@click.command(cls=PipelineCommand)
@click.argument("topic")
@bootstrap_option
@click.option("--records", type=click.IntRange(min=1), default=1000, show_default=True, help="The size of the sample.")
@click.option("--sink", type=click.Choice(["delta", "iceberg"]), default="delta", show_default=True,
              help="The kind of table.")  # fmt: skip
@registry_options("Read values by the schemas of this registry, whose ids are in front of them.")
@with_error_messages
def infer(topic: str, *, bootstrap: str, records: int, sink: str, registry: RegistryOptions) -> None:
    """Propose a job file for a topic, from a sample of its records, and print it with what was seen.

    \b
      sordini pipeline infer orders > orders.yaml
      sordini pipeline infer orders --registry http://127.0.0.1:8081
    """
    from sordini.pipeline.jobs.infer import job_file, proposal, sample
    from sordini.pipeline.jobs.job_file_source import BOOTSTRAP

    address = bootstrap or os.environ.get("SORDINI_BOOTSTRAP", "") or BOOTSTRAP
    found_records = sample(topic, address, records)
    if not found_records:
        raise Failure(f"{topic} has no records to see what is in it")
    settings = _settings(registry)
    found, _ = proposal(topic, found_records, settings)
    shown = {} if registry.url is None else {"url": registry.url, **_login(registry)}
    click.echo(job_file(topic, address, found, shown, sink), nl=False)


def _settings(registry: RegistryOptions) -> RegistrySettings | None:
    from sordini.pipeline.schemas.registry_settings import RegistrySettings

    if registry.access() is None:  # Checks the options.
        return None
    secret = registry.password_file or registry.token_file
    first = Path(secret).read_text(encoding="utf-8").split("\n", 1)[0].rstrip("\r") if secret else ""
    return RegistrySettings(
        url=registry.url or "",
        user=registry.user or "",
        password=first if registry.user else "",
        token="" if registry.user else first,
        ca=registry.ca or "",
        wait_seconds=0,
    )


def _login(registry: RegistryOptions) -> dict[str, str]:
    """The login as a job file has it: secrets come from the environment."""
    found = {"ca": registry.ca} if registry.ca else {}
    if registry.user:
        return {**found, "user": registry.user, "password": "${REGISTRY_PASSWORD}"}
    return {**found, "token": "${REGISTRY_TOKEN}"} if registry.token_file else found
