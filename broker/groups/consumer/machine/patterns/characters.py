"""Sets of ASCII characters as the bits of an integer, and the named ones of RE2/J."""

from __future__ import annotations

from functools import cache
from typing import Final

NOTHING: Final = 0
ALL: Final = (1 << 128) - 1
_LOWER: Final = sum(1 << number for number in range(ord("a"), ord("z") + 1))
_CASES_APART: Final = ord("a") - ord("A")
_FOLDED_TO_ASCII: Final = {"\u017f": "s", "\u212a": "k"}
"""Long s and the sign of Kelvin: all that are not ASCII and are the other case of what is."""


def range_of(low: str, high: str) -> int:
    """The characters from `low` to `high`, both included, that are ASCII."""
    first, end = ord(low), min(ord(high) + 1, 128)
    return (1 << end) - (1 << first) if first < end else NOTHING


def folded_range_of(low: str, high: str) -> int:
    """The same in both cases."""
    more = sum(range_of(letter, letter) for other, letter in _FOLDED_TO_ASCII.items() if low <= other <= high)
    return folded(range_of(low, high) | more)


def folded(characters: int) -> int:
    """A set with the other case of each letter."""
    lower, upper = characters & _LOWER, characters & _LOWER >> _CASES_APART
    return characters | lower >> _CASES_APART | upper << _CASES_APART


def complement(characters: int) -> int:
    return ALL & ~characters


def _set_of(*ranges: str) -> int:
    result = NOTHING
    for each in ranges:
        result |= range_of(each[0], each[-1])
    return result


DIGIT: Final = _set_of("09")
WORD: Final = _set_of("AZ", "az", "09", "_")
NEWLINE: Final = _set_of("\n")
PERL: Final = {"d": DIGIT, "s": _set_of("\t\n", "\f\r", " "), "w": WORD}
POSIX: Final = {
    "alnum": _set_of("09", "AZ", "az"),
    "alpha": _set_of("AZ", "az"),
    "ascii": ALL,
    "blank": _set_of("\t", " "),
    "cntrl": _set_of("\0\x1f", "\x7f"),
    "digit": DIGIT,
    "graph": _set_of("!~"),
    "lower": _LOWER,
    "print": _set_of(" ~"),
    "punct": _set_of("!/", ":@", "[`", "{~"),
    "space": _set_of("\t\r", " "),
    "upper": _set_of("AZ"),
    "word": WORD,
    "xdigit": _set_of("09", "AF", "af"),
}


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_CATEGORIES: Final = _names(
    "C Cc Cf Co Cs L Ll Lm Lo Lt Lu M Mc Me Mn N Nd Nl No P Pc Pd Pe Pf Pi Po Ps S Sc Sk Sm So Z Zl Zp Zs"
)
_SCRIPTS_OF_ASCII: Final = {"Any": ALL, "Common": complement(POSIX["alpha"]), "Latin": POSIX["alpha"]}
_SCRIPTS_OUTSIDE_ASCII: Final = _names(
    """Arabic Armenian Avestan Balinese Bamum Batak Bengali Bopomofo Brahmi Braille Buginese Buhid Canadian_Aboriginal
    Carian Cham Cherokee Coptic Cuneiform Cypriot Cyrillic Deseret Devanagari Egyptian_Hieroglyphs Ethiopic Georgian
    Glagolitic Gothic Greek Gujarati Gurmukhi Han Hangul Hanunoo Hebrew Hiragana Imperial_Aramaic Inherited
    Inscriptional_Pahlavi Inscriptional_Parthian Javanese Kaithi Kannada Katakana Kayah_Li Kharoshthi Khmer Lao Lepcha
    Limbu Linear_B Lisu Lycian Lydian Malayalam Mandaic Meetei_Mayek Mongolian Myanmar New_Tai_Lue Nko Ogham Ol_Chiki
    Old_Italic Old_Persian Old_South_Arabian Old_Turkic Oriya Osmanya Phags_Pa Phoenician Rejang Runic Samaritan
    Saurashtra Shavian Sinhala Sundanese Syloti_Nagri Syriac Tagalog Tagbanwa Tai_Le Tai_Tham Tai_Viet Tamil Telugu
    Thaana Thai Tibetan Tifinagh Ugaritic Unknown Vai Yi"""
)


def unicode_group(name: str) -> int | None:
    """The ASCII characters of a general category or a script that RE2/J knows; None for another name."""
    if name in _SCRIPTS_OUTSIDE_ASCII:
        return NOTHING
    return _category(name) if name in _CATEGORIES else _SCRIPTS_OF_ASCII.get(name)


@cache
def _category(name: str) -> int:
    import unicodedata  # Few patterns have such a group.

    return sum(1 << number for number in range(128) if unicodedata.category(chr(number)).startswith(name))
