"""The options given to one `sordini log dump`, and what they mean in combination."""

from __future__ import annotations

from collections.abc import Callable

import click

from sordini.cli.commands.log.dump import decoders, group_records, transaction_records
from sordini.cli.commands.log.dump.dump import DumpOptions
from sordini.cli.commands.log.dump.items import Item
from sordini.cli.commands.log.dump.kafka_indexes import IndexOptions
from sordini.cli.commands.log.dump.kafka_log import LogOptions


class GivenOptions:
    """The options given to one `log dump`, and what they mean in combination."""

    _OF_THE_TOOL = (
        "index_sanity_check",
        "verify_index_only",
        "skip_record_metadata",
        "max_bytes",
        "max_message_size",
        "key_decoder_class",
        "value_decoder_class",
    )

    def __init__(self, context: click.Context) -> None:
        self._context = context
        self._values = context.params
        if self._values["offsets_decoder"] and self._values["transaction_log_decoder"]:
            raise click.UsageError("--offsets-decoder and --transaction-log-decoder are for different topics")

    def _is_given(self, name: str) -> bool:
        return self._context.get_parameter_source(name) is not click.core.ParameterSource.DEFAULT

    def refuse_with_own_text(self) -> None:
        """Raise UsageError for options of Apache Kafka's text."""
        for name in self._OF_THE_TOOL:
            if self._is_given(name):
                option = "--" + name.replace("_", "-")
                raise click.UsageError(f"{option} does not go with --format people or --json")

    @property
    def shows_contents(self) -> bool:
        """Whether keys and values are shown; a decoder implies it."""
        of_topics = ("offsets_decoder", "transaction_log_decoder")
        of_values = ("key_decoder_class", "value_decoder_class")
        return (
            bool(self._values["print_data"])
            or any(self._values[name] for name in of_topics)
            or any(self._is_given(name) for name in of_values)
        )

    @property
    def shows_records(self) -> bool:
        return bool(self._values["deep_iteration"]) or self.shows_contents

    def options(self) -> DumpOptions:
        """The options of Apache Kafka's text."""
        values = self._values
        parser = decoders.parser_of(
            decoders.DECODERS[values["key_decoder_class"]],
            decoders.DECODERS[values["value_decoder_class"]],
        )
        if values["offsets_decoder"]:
            parser = decoders.offsets_parser
        elif values["transaction_log_decoder"]:
            parser = decoders.transactions_parser
        return DumpOptions(
            log=LogOptions(
                records=self.shows_records,
                contents=self.shows_contents,
                metadata=not values["skip_record_metadata"],
                bytes_max=values["max_bytes"],
                parser=parser,
            ),
            indexes=IndexOptions(values["index_sanity_check"], values["verify_index_only"], values["max_message_size"]),
            is_classic=values["layout"] == "classic",
        )

    def item_decoder(self) -> Callable[[Item], Item] | None:
        """The decoder of records for our own text; None shows them undecoded."""
        if self._values["offsets_decoder"]:
            return group_records.decoded
        if self._values["transaction_log_decoder"]:
            return transaction_records.decoded
        return None
