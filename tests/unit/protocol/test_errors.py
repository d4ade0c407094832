"""Error codes, and the exceptions that carry them."""

from __future__ import annotations

import inspect
import warnings

from sordini.protocol.errors import BrokerError, ErrorCode

with warnings.catch_warnings():  # It loads its definitions through a deprecated function of importlib.
    warnings.simplefilter("ignore")
    from kafka import errors as theirs


def test_codes_are_dense() -> None:
    assert sorted(ErrorCode) == list(range(-1, 137))


def test_codes_have_the_names_kafka_python_knows_them_by() -> None:
    renamed = {-1, 0, 6, 10, 17, 39}  # Under older or shortened names.
    compared = 0
    for _, error in inspect.getmembers(theirs, inspect.isclass):
        number, name = getattr(error, "errno", None), getattr(error, "message", None)
        if number in set(ErrorCode) - renamed and name:
            assert ErrorCode(number).name == name
            compared += 1
    assert compared > 80


def test_a_broker_error_carries_its_code_and_says_something() -> None:
    assert BrokerError(ErrorCode.INVALID_CONFIG, "no such key").code is ErrorCode.INVALID_CONFIG
    assert str(BrokerError(ErrorCode.INVALID_CONFIG, "no such key")) == "no such key"
    assert str(BrokerError(ErrorCode.INVALID_CONFIG)) == "INVALID_CONFIG"
