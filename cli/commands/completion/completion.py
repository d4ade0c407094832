"""`sordini completion`: print the script that a shell reads at its start.

click makes the script, and completes commands, options and choices. Names from the cluster are in `cli.common.names`.
"""

from __future__ import annotations

import os
from pathlib import PurePath

import click

from sordini.cli.common.options import ClientCommand
from sordini.cli.common.terminal import echo_data

SHELLS = ("bash", "zsh", "fish")
VARIABLE = "_SORDINI_COMPLETE"


@click.command(cls=ClientCommand)
@click.argument("shell", metavar="[bash|zsh|fish]", type=click.Choice(SHELLS), required=False)
def completion(shell: str | None) -> None:
    """Print a script for the Tab key in bash, zsh or fish; the default is the shell in $SHELL.

    It completes commands, options, files, and the names of topics and groups of the cluster in --bootstrap or
    SORDINI_BOOTSTRAP, which are asked for at each Tab and have a second to arrive. bash is 4.4 or newer.

    \b
      sordini completion bash >> ~/.bashrc
      sordini completion zsh >> ~/.zshrc
      sordini completion fish > ~/.config/fish/completions/sordini.fish
    """
    from click.shell_completion import BashComplete, FishComplete, ZshComplete

    if shell is None:
        shell = PurePath(os.environ.get("SHELL", "")).name
        if shell not in SHELLS:
            raise click.UsageError(f"$SHELL is {shell!r}: name one of {', '.join(SHELLS)}")
    kinds = {"bash": BashComplete, "zsh": ZshComplete, "fish": FishComplete}
    script = click.Command("sordini")  # The script has only its name.
    # Not `source`, which starts a bash to learn its version: this may run where the shell itself does not.
    made = kinds[shell](script, {}, "sordini", VARIABLE)
    echo_data(made.source_template % made.source_vars())
