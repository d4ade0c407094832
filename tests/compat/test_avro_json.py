"""The JSON encoding of Avro, beside Avro's own library for Java."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from typing import Any

from hypothesis import Phase, given, settings

from sordini.schemas.avro import AvroCodec
from tests.outside.needs import need_java
from tests.outside.spark import SPARK_HOME
from tests.support.avro_values import schemas_with_values

CASES = 300
# For each line, [schema, binary value, our JSON]: Java's JSON of the binary value, and its binary value of our JSON.
JAVA = """
import base64, glob, json, sys
import jpype
jars = [jar for name in ("avro-1", "jackson-", "slf4j-api") for jar in glob.glob(f"{sys.argv[1]}/{name}*.jar")]
jpype.startJVM("-XX:TieredStopAtLevel=1", classpath=jars)
Parser = jpype.JClass("org.apache.avro.Schema$Parser")
Reader = jpype.JClass("org.apache.avro.generic.GenericDatumReader")
Writer = jpype.JClass("org.apache.avro.generic.GenericDatumWriter")
Stream = jpype.JClass("java.io.ByteArrayOutputStream")
decoders = jpype.JClass("org.apache.avro.io.DecoderFactory").get()
encoders = jpype.JClass("org.apache.avro.io.EncoderFactory").get()

def written(schema, decoder, kind):
    stream = Stream()
    encoder = encoders.jsonEncoder(schema, stream) if kind == "json" else encoders.binaryEncoder(stream, None)
    Writer(schema).write(Reader(schema).read(None, decoder), encoder)
    encoder.flush()
    return bytes(stream.toByteArray())

for line in sys.stdin:
    schema, data, text = json.loads(line)
    parsed = Parser().parse(json.dumps(schema))
    binary = decoders.binaryDecoder(jpype.JArray(jpype.JByte)(base64.b64decode(data)), None)
    read = written(parsed, decoders.jsonDecoder(parsed, text), "binary")
    print(json.dumps([written(parsed, binary, "json").decode(), base64.b64encode(read).decode()]))
"""


def random_values() -> list[tuple[Any, Any]]:
    """The same in every run."""
    found: list[tuple[Any, Any]] = []

    @settings(max_examples=CASES, derandomize=True, database=None, phases=[Phase.generate])
    @given(schemas_with_values())
    def collect(case: tuple[Any, Any]) -> None:
        found.append(case)

    collect()
    return found


def test_java_writes_the_same_json_of_random_values_and_reads_ours() -> None:
    need_java()
    cases = random_values()
    encoded = [AvroCodec(schema).encode(value) for schema, value in cases]
    lines = [
        json.dumps([schema, base64.b64encode(data).decode(), json.dumps(value)])
        for (schema, value), data in zip(cases, encoded, strict=True)
    ]
    words = [sys.executable, "-c", JAVA, str(SPARK_HOME / "jars")]
    done = subprocess.run(words, input="\n".join(lines), capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr
    answers = [json.loads(line) for line in done.stdout.splitlines()]
    assert sum(bool(theirs) for theirs, _ in answers) >= CASES // 2
    for (schema, value), (theirs, read) in zip(cases, answers, strict=True):
        if theirs:  # Java writes nothing of records without a field.
            assert json.loads(theirs) == value, schema
        # Not its bytes: Java's maps have an order of their own.
        assert AvroCodec(schema).decode(base64.b64decode(read)) == value, schema
