"""Groups of commands that name the nearest command when a word is none."""

from __future__ import annotations

import click


class NamedCommands(click.Group):
    """A group whose error for an unknown command has a suggestion, or all commands where none is similar."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        word = args[0]
        if ctx.resilient_parsing or word.startswith("-") or self.get_command(ctx, word) is not None:
            return super().resolve_command(ctx, args)
        from sordini.cli.common.settings_tree import near_to  # Late: only for this error.

        known = self.list_commands(ctx)
        advice = near_to(word, known) or f"; there are {', '.join(known)}"
        raise click.UsageError(f"there is no command {word!r}{advice}", ctx)
