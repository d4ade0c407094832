"""A small Java program beside this file that calls classes of Apache Kafka's group coordinator: lines in, lines out."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.outside.java import SHORT_LIVED
from tests.outside.needs import kafka_jars, need_java
from tests.outside.versions import NEWEST_APACHE_KAFKA


def answers(program: str, questions: Iterable[object], directory: Path) -> list[Any]:
    """What the program says to each question, compiled into the directory and run in one JVM."""
    java, jars = need_java(), kafka_jars(NEWEST_APACHE_KAFKA)
    class_path = os.pathsep.join([str(directory), f"{jars}/*"])
    source = Path(__file__).with_name(f"{program}.java")
    _run(
        [
            java,
            *SHORT_LIVED,
            "-cp",
            class_path,
            "-m",
            "jdk.compiler/com.sun.tools.javac.Main",
            "-d",
            str(directory),
            str(source),
        ]
    )
    lines = "".join(f"{json.dumps(question)}\n" for question in questions)
    output = _run([java, *SHORT_LIVED, "-Xmx512m", "-cp", class_path, program], lines)
    return [json.loads(line) for line in output.splitlines()]


def _run(command: list[str], standard_input: str = "") -> str:
    done = subprocess.run(command, input=standard_input, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
