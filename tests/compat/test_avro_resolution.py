"""Which schema of Avro reads which, and their canonical form, beside Avro's own library for Java."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from hypothesis import HealthCheck, Phase, given, settings

from sordini.schemas.registered.avro.parsed import ParsedAvro, parse_avro
from sordini.schemas.registered.avro.resolution import AmbiguousAliases, avro_faults
from sordini.schemas.registered.types import InvalidSchema, SchemaSource, SchemaType
from tests.outside.needs import need_java
from tests.outside.spark import SPARK_HOME
from tests.support.avro_schemas import schema_pairs

CASES = 600
# For each line, [reader, writer]: the texts of both, and the faults, or null where one is refused.
JAVA = """
import glob, json, sys
import jpype
jars = [jar for name in ("avro-1", "jackson-", "slf4j-api") for jar in glob.glob(f"{sys.argv[1]}/{name}*.jar")]
jpype.startJVM("-XX:TieredStopAtLevel=1", classpath=jars)
Parser = jpype.JClass("org.apache.avro.Schema$Parser")
Strict = jpype.JClass("org.apache.avro.NameValidator").STRICT_VALIDATOR
Check = jpype.JClass("org.apache.avro.SchemaCompatibility")

def parsed(text):
    parser = Parser(Strict)
    parser.setValidateDefaults(True)
    return parser.parse(text)

for line in sys.stdin:
    try:
        reader, writer = map(parsed, json.loads(line))
    except jpype.JException as error:
        print("null")
        continue
    try:
        found = Check.checkReaderWriterCompatibility(reader, writer).getResult().getIncompatibilities()
        faults = [[str(one.getType()), str(one.getMessage()), str(one.getLocation())] for one in found]
    except jpype.JException:
        faults = "ambiguous"
    print(json.dumps([str(reader.toString()), str(writer.toString()), faults]))
"""


def random_pairs() -> list[tuple[str, str]]:
    """The same in every run, in both directions."""
    found: list[tuple[str, str]] = []

    @settings(
        max_examples=CASES // 2,
        derandomize=True,
        database=None,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        deadline=None,
    )
    @given(schema_pairs())
    def collect(pair: tuple[Any, Any]) -> None:
        first, second = map(json.dumps, pair)
        found.extend([(first, second), (second, first)])

    collect()
    return found


def our_answer(reader: str, writer: str) -> Any:
    try:
        ours = [parse_avro(SchemaSource(SchemaType.AVRO, text, (), {})) for text in (reader, writer)]
    except InvalidSchema:
        return None
    return [ours[0].canonical, ours[1].canonical, faults(*ours)]


def faults(reader: ParsedAvro, writer: ParsedAvro) -> Any:
    try:
        return [list(fault) for fault in avro_faults(reader.schema, writer.schema)]
    except AmbiguousAliases:
        return "ambiguous"


def test_java_writes_the_same_canonical_text_and_finds_the_same_faults_between_random_schemas() -> None:
    need_java()
    pairs = random_pairs()
    words = [sys.executable, "-c", JAVA, str(SPARK_HOME / "jars")]
    lines = "\n".join(map(json.dumps, pairs))
    done = subprocess.run(words, input=lines, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert len(answers) == len(pairs)
    assert [our_answer(*pair) for pair in pairs] == answers
    kinds = {kind for answer in answers if answer and answer[2] != "ambiguous" for kind, _, _ in answer[2]}
    assert len(kinds) == 6, "a kind of fault that no pair has"
    assert sum(answer is not None and not answer[2] for answer in answers) > CASES // 5
