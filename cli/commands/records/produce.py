"""`sordini produce`: send lines of input as records."""

from __future__ import annotations

import click

from sordini.cli.commands.completion.names import topic_names
from sordini.cli.commands.records.schema_options import SchemaOptions, schema_options
from sordini.cli.common.options import Client, ClientCommand, client_options


@click.command(cls=ClientCommand)
@click.argument("topic", shell_complete=topic_names)
@click.option("--file", "-f", "path", metavar="PATH", help="Read a file instead of standard input.")
@click.option(
    "--input",
    "form",
    type=click.Choice(["lines", "json"]),
    default="lines",
    show_default=True,
    help="The format of a line: a value, or a record as `consume --format json` prints it.",
)
@click.option(
    "--key-separator", "-k", metavar="TEXT", help="Each line is a key, this separator and a value; \\t is a tab."
)
@click.option(
    "--headers", "has_headers", is_flag=True, help="Each line begins with headers, NAME:VALUE,NAME:VALUE, and a tab."
)
@click.option(
    "--header",
    "-H",
    "fixed",
    metavar="NAME=VALUE",
    multiple=True,
    help="A header for every record. Can be repeated.",
)
@click.option("--null-value", metavar="TEXT", help="Send this value as null (a tombstone in a compacted topic).")
@click.option(
    "--partition", "-p", metavar="NUMBER", type=click.IntRange(min=0), help="Send all records to this partition."
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="Wait for all in-sync replicas, for the leader, or for no acknowledgement.",
)
@click.option(
    "--compression",
    "-z",
    type=click.Choice(["none", "gzip", "snappy", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="The compression of record batches.",
)
@schema_options(writes=True)
@click.option(
    "--no-register",
    "registers",
    is_flag=True,
    flag_value=False,
    default=True,
    help="Refuse a file's schema that the registry does not have.",
)
@client_options
def produce(
    client: Client,
    topic: str,
    *,
    path: str | None,
    form: str,
    key_separator: str | None,
    has_headers: bool,
    fixed: tuple[str, ...],
    null_value: str | None,
    partition: int | None,
    acks: str,
    compression: str,
    schemas: SchemaOptions,
    registers: bool,
) -> None:
    """Send records: one for each line of standard input, or of a file.

    Without --partition, records of one key go to the same partition, and records without a key to any. A topic that
    does not exist is created where the brokers have auto.create.topics.enable=true, the default. The number of
    delivered records is printed at the end. With a schema, values (and keys) are read as JSON; a line that does not fit
    is named, and nothing after it is sent. --timeout limits reaching the cluster, and the delivery of a record.

    \b
      echo 'hello' | sordini produce greetings
      sordini produce orders --file orders.txt --key-separator : --compression lz4
      sordini produce orders --avro order.avsc < orders.jsonl
      sordini produce orders --registry http://127.0.0.1:8081 --avro order.avsc < orders.jsonl
      sordini consume orders --format json --exit-at-end | sordini produce copy --input json
    """
    from sordini.cli.commands.records.line_formats import LineFormat, encoded_line, from_json, read_json, with_headers
    from sordini.cli.commands.records.record_producer import ProduceOptions, send_records

    if form == "json" and (key_separator is not None or has_headers or null_value is not None):
        raise click.UsageError("--input json does not go with --key-separator, --headers or --null-value")
    if key_separator == "":
        raise click.BadParameter("it is empty", param_hint="--key-separator")
    separator = None if key_separator is None else key_separator.replace("\\t", "\t").encode()
    headers = [_header(text) for text in fixed]
    null = None if null_value is None else null_value.encode()
    codecs = schemas.writers(topic, registers=registers)
    if form == "json":
        key, value = from_json(codecs.key), from_json(codecs.value)
        read = with_headers(lambda line: read_json(line, key, value), headers)
    else:
        read = with_headers(encoded_line(LineFormat(separator, has_headers, null).read, codecs), headers)
    send_records(
        client, ProduceOptions(topic, path, read, partition, acks, None if compression == "none" else compression)
    )


def _header(text: str) -> tuple[str, bytes | None]:
    name, equals, value = text.partition("=")
    if not equals or not name:
        raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint="--header")
    return name, value.encode()
