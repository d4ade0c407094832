"""The canonical and the normalized text of a schema of Protobuf, and schemas that are sent as descriptors."""

from __future__ import annotations

import base64

import pytest
from google.protobuf import descriptor_pb2

from sordini.schemas.registered.parsing import formatted, parse
from sordini.schemas.registered.protobuf.canonical import canonical_proto
from sordini.schemas.registered.types import InvalidSchema, SchemaSource, SchemaType

WRITTEN = r"""
// A comment.
syntax = 'proto2';
import "google/protobuf/descriptor.proto";
package shop . orders;
option java_package = "x\ty" 'z';
enum E { reserved 30 to max, -5 to -3; reserved "OLD"; A = 0; B = 0x10 [deprecated=true]; }
message O { optional int32 a = 1; optional O c = 2; repeated int32 l = 3; }
extend google.protobuf.FieldOptions { optional O opt = 50000; optional string str = 50001; }
message M /* more */ {
  optional group G = 9 { optional int32 q = 1; }
  required int32 x = 3 [default = -5, (opt) = { a: 1 c { a: 5 } l: [1, 2] }, json_name="k", (str) = 'it\'s'];
  optional float f = 10 [default = inf];
  optional bytes by = 11 [default = "\001\"q"];
  optional E e = 12 [default = B];
  map < string , .shop.orders.M > m = 2;
  oneof o { string s = 13; }
  reserved 4, 5 to 6; reserved "foo";
  extensions 100 to 199;
  message N { optional M up = 1; }
  enum F { Z = 0; }
  extend M { optional int32 e1 = 101; }
}
extend M { optional int32 e0 = 100; }
service S { rpc A (M) returns (stream M); rpc B (stream .shop.orders.M) returns (M) { option deprecated = true; } }
"""
CANONICAL = r"""syntax = "proto2";
package shop.orders;

import "google/protobuf/descriptor.proto";

option java_package = "x\tyz";

message O {
  optional int32 a = 1;
  optional O c = 2;
  repeated int32 l = 3;
}
message M {
  reserved 4, 5 to 6;
  reserved "foo";

  required int32 x = 3 [
    default = -5,
    (opt) = {
      a: 1,
      c: {
        a: 5
      },
      l: [
        1,
        2
      ]
    },
    json_name = "k",
    (str) = "it\'s"
  ];
  optional float f = 10 [default = inf];
  optional bytes by = 11 [default = "\001\"q"];
  optional E e = 12 [default = B];
  map<string, .shop.orders.M> m = 2;

  oneof o {
    string s = 13;
  }

  optional group G = 9 {
    optional int32 q = 1;
  }

  extensions 100 to 199;

  extend M {
    optional int32 e1 = 101;
  }

  message N {
    optional M up = 1;
  }
  enum F {
    Z = 0;
  }
}
enum E {
  reserved 30 to max, -5 to -3;
  reserved "OLD";
  A = 0;
  B = 16 [deprecated = true];
}

extend google.protobuf.FieldOptions {
  optional O opt = 50000;
  optional string str = 50001;
}
extend M {
  optional int32 e0 = 100;
}

service S {
  rpc A (M) returns (stream M);
  rpc B (stream .shop.orders.M) returns (M) {
    option deprecated = true;
  };
}
"""
PROTO3 = """syntax = "proto3";
message A {
  optional int32 o = 8;
  B b = 2;
  message C { int32 z = 1; }
  map<int32, C> m = 5;
  repeated C r = 4 [deprecated = true];
  oneof k { int32 i = 7; string j = 6; }
}
message B {}
"""


def source(text: str) -> SchemaSource:
    return SchemaSource(SchemaType.PROTOBUF, text, (), {})


def descriptor(text: str) -> descriptor_pb2.FileDescriptorProto:
    """What the compiler makes of a text."""
    file = descriptor_pb2.FileDescriptorProto()
    file.ParseFromString(base64.b64decode(formatted(parse(source(text)), "serialized")))
    return file


def test_the_canonical_text_is_sorted_by_what_statements_are() -> None:
    assert parse(source(WRITTEN)).canonical == CANONICAL


@pytest.mark.parametrize("text", [WRITTEN, PROTO3])
def test_canonical_normalized_and_serialized_mean_the_same(text: str) -> None:
    made = parse(source(text))
    assert canonical_proto(made.canonical) == made.canonical
    assert canonical_proto(made.normalized) == made.normalized
    for other in (made.canonical, made.normalized, formatted(made, "serialized")):
        assert parse(source(other)).normalized == made.normalized


def test_a_schema_that_is_sent_as_a_descriptor_is_stored_as_text_with_the_same_descriptor() -> None:
    for text in (WRITTEN, PROTO3):
        file = descriptor(text)
        sent = base64.b64encode(file.SerializeToString()).decode()
        again = descriptor(sent)
        # The compiler adds the names of JSON, and sorts what the text sorts.
        for one in (file, again):
            for message in one.message_type:
                message.field.sort(key=lambda field: field.number)
                message.nested_type.sort(key=lambda nested: nested.name)
            one.name = ""
        assert again == file


def test_the_normalized_text_has_full_names_and_an_order() -> None:
    normalized = parse(source(PROTO3)).normalized
    assert (
        normalized.index(".B b = 2;") < normalized.index("repeated .A.C r = 4") < normalized.index("optional int32 o")
    )
    assert "map<int32, .A.C> m = 5;" in normalized
    assert normalized.index("string j = 6;") < normalized.index("int32 i = 7;")
    shuffled = PROTO3.replace("B b = 2;", "").replace("message C {", "B b = 2; message C {")
    assert parse(source(shuffled)).normalized == normalized


@pytest.mark.parametrize(
    "text", ["message M {", "message M { int32 a }", "a b c", "}", "option x;", "message M { reserved ; } }"]
)
def test_text_that_is_no_proto_file_is_no_canonical_text(text: str) -> None:
    with pytest.raises(InvalidSchema):
        canonical_proto(text)
