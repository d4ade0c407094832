"""The Tab key: what bash completes with the printed script, and what zsh and fish are printed."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.outside.processes import SordiniProcess

PROGRAM = Path(sys.prefix) / "bin" / "sordini"
# What bash does at Tab with the function that the script has registered.
TAB = """
eval "$(sordini completion bash)"
COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMPREPLY=()
function_name=$(complete -p sordini | sed 's/.*-F \\([^ ]*\\) .*/\\1/')
"$function_name" sordini
printf '%s\\n' "${COMPREPLY[@]}"
"""


def environment(**more: str) -> dict[str, str]:
    return {**os.environ, "PATH": f"{PROGRAM.parent}:{os.environ['PATH']}", **more}


def completed(words: list[str], bootstrap: str = "127.0.0.1:1") -> list[str]:
    """What bash offers when Tab is pressed behind the last word."""
    command = ["bash", "-c", TAB, "bash", "sordini", *words]
    found = subprocess.run(
        command,
        env=environment(SORDINI_BOOTSTRAP=bootstrap),
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert found.stderr.replace("bash: warning: ", "") == ""
    return found.stdout.split()


@pytest.mark.parametrize(
    ("words", "offered"),
    [
        (["to"], ["topics"]),
        (["topics", "cr"], ["create"]),
        (["topics", "create", "orders", "--part"], ["--partitions"]),
        (["produce", "orders", "--compression", "z"], ["zstd"]),
        (["completion", ""], ["bash", "zsh", "fish"]),
    ],
)
def test_bash_completes_commands_options_and_choices(words: list[str], offered: list[str]) -> None:
    assert completed(words) == offered


def test_names_of_topics_and_groups_come_from_the_cluster(sordini_broker: SordiniProcess, topic: str) -> None:
    name, other, group = f"tab-{topic}", f"tab-{topic}-2", f"readers-{topic}"
    for command in (
        ["topics", "create", name, other],
        ["groups", "reset", group, "--topic", name, "--to-earliest", "--execute"],
    ):
        subprocess.run([PROGRAM, *command, "-b", sordini_broker.bootstrap], check=True, timeout=60)
    assert completed(["consume", "tab-"], sordini_broker.bootstrap) == [name, other]
    assert completed(["topics", "delete", name, "tab-"], sordini_broker.bootstrap) == [other], "a name is given once"
    assert completed(["groups", "describe", "-b", sordini_broker.bootstrap, "readers-"]) == [group]
    assert completed(["consume", name, "--group", "readers-"], sordini_broker.bootstrap) == [group]


def test_a_cluster_that_does_not_answer_completes_nothing_and_says_nothing() -> None:
    assert completed(["consume", "tab-"]) == []


@pytest.mark.parametrize(("shell", "offered"), [("zsh", "plain\ntopics\n"), ("fish", "plain,topics\t")])
def test_zsh_and_fish_get_the_same_offers(shell: str, offered: str) -> None:
    script = subprocess.run(
        [PROGRAM, "completion"], env=environment(SHELL=f"/usr/bin/{shell}"), capture_output=True, text=True, check=True
    ).stdout
    assert f"_SORDINI_COMPLETE={shell}_complete" in script
    asked = environment(_SORDINI_COMPLETE=f"{shell}_complete", COMP_WORDS="sordini to", COMP_CWORD="1")
    if shell == "fish":
        asked["COMP_CWORD"] = "to"
    printed = subprocess.run([PROGRAM], env=asked, capture_output=True, text=True, check=True).stdout
    assert printed.startswith(offered)
    assert "List, create, alter and delete topics." in printed


def test_another_shell_is_refused_with_those_that_there_are() -> None:
    done = subprocess.run(
        [PROGRAM, "completion"], env=environment(SHELL="/bin/ksh"), capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert "$SHELL is 'ksh': name one of bash, zsh, fish" in done.stderr
