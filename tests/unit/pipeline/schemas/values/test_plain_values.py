"""The bounds of plain kinds: the last value that fits, as it is in the column, and the first one that does not."""

from __future__ import annotations

import math
from decimal import Decimal as Number
from typing import Any, Final

import pytest

from sordini.pipeline.schemas.kinds import Decimal, Kind, Plain
from sordini.pipeline.schemas.values.misfit import Misfit
from sordini.pipeline.schemas.values.plain_values import FIRST_US, FLOAT_MAX, LAST_US, plain_reader

MONEY: Final = Decimal(6, 2)

UNSCALED: Final = Decimal(4, 2, is_unscaled=True)
FITS: Final = [
    (Plain("int"), 2**31 - 1, 2**31 - 1),
    (Plain("int"), -(2**31), -(2**31)),
    (Plain("long"), 2**63 - 1, 2**63 - 1),
    (Plain("long"), "-9223372036854775808", -(2**63)),
    (MONEY, 9999, Number("9999.00")),
    (MONEY, 0.1, Number("0.10")),
    (MONEY, "-9999.990", Number("-9999.99")),
    (MONEY, "0e999", Number("0.00")),
    (Plain("float"), FLOAT_MAX, FLOAT_MAX),
    (Plain("float"), "-Infinity", -math.inf),
    (Plain("double"), 2**1023, float(2**1023)),
    (Plain("timestamp"), "0001-01-01T00:00:00Z", FIRST_US),
    (Plain("timestamp"), "9999-12-31T23:59:59.999999Z", LAST_US),
    (Plain("timestamp"), "1970-01-01T01:00:00+01:00", 0),
    (Plain("timestamp"), "1970-01-01T00:00:01", 1_000_000),
    (Plain("timestamp_ms"), LAST_US // 1000, LAST_US // 1000 * 1000),
    (Plain("timestamp_us"), FIRST_US, FIRST_US),
    (Plain("timestamp_us"), str(LAST_US), LAST_US),
    (Plain("timestamp_ns"), -1, -1),
    (Plain("timestamp_ns"), 1999, 1),
    (Plain("date_days"), 2_932_896, 2_932_896),
    (Plain("time_ms"), 86_399_999, 86_399_999_000),
    (Plain("time_us"), 0, 0),
    (Plain("time_ns"), 86_399_999_999_999, 86_399_999_999),
    (UNSCALED, "Jw8=", Number("99.99")),
    (UNSCALED, "/w==", Number("-0.01")),
    (Plain("timestamp_ntz"), "1970-01-01T00:00:01", 1_000_000),
    (Plain("date"), "9999-12-31", 2_932_896),
]
MISFITS: Final = [
    (Plain("int"), 2**31),
    (Plain("int"), -(2**31) - 1),
    (Plain("int"), "2147483648"),
    (Plain("int"), True),
    (Plain("int"), 1.0),
    (Plain("long"), 2**63),
    (Plain("long"), "9223372036854775808"),
    (MONEY, 10_000),
    (MONEY, "9999.995"),
    (MONEY, 0.001),
    (MONEY, "NaN"),
    (Plain("float"), math.nextafter(FLOAT_MAX, math.inf)),
    (Plain("double"), 2**1024),
    (Plain("double"), math.inf),
    (Plain("double"), "1e999"),
    (Plain("timestamp"), "0000-12-31T23:59:59Z"),
    (Plain("timestamp"), "9999-12-31T23:59:59-00:01"),
    (Plain("timestamp_ms"), LAST_US // 1000 + 1),
    (Plain("timestamp_ms"), FIRST_US // 1000 - 1),
    (Plain("timestamp_us"), FIRST_US - 1),
    (Plain("timestamp_us"), LAST_US + 1),
    (Plain("date_days"), 2_932_897),
    (Plain("date_days"), "1970-01-01"),
    (Plain("time_ms"), 86_400_000),
    (Plain("time_us"), -1),
    (UNSCALED, "JxA="),
    (UNSCALED, "not base 64"),
    (UNSCALED, 1.5),
    (Plain("timestamp_ntz"), "1970-01-01T00:00:00Z"),
    (Plain("date"), "1970-1-1"),
]


@pytest.mark.parametrize(("kind", "value", "found"), FITS)
def test_the_last_value_that_fits_is_in_the_column_exactly(kind: Kind, value: Any, found: Any) -> None:
    read = plain_reader(kind, numbers_as_text=True)
    assert (type(read(value)), read(value)) == (type(found), found)


@pytest.mark.parametrize(("kind", "value"), MISFITS)
def test_the_first_value_that_does_not_fit_is_refused_and_not_rounded(kind: Kind, value: Any) -> None:
    with pytest.raises(Misfit):
        plain_reader(kind, numbers_as_text=True)(value)
