"""Our regular expressions of subscriptions beside RE2/J: the same patterns are refused, with the same text, and the same
names match. `topic_patterns.txt` has the table; more are drawn from its pieces, always the same: there are others for
which RE2/J takes minutes.
"""

from __future__ import annotations

import random
import re
from pathlib import Path

from sordini.broker.groups.consumer.machine.patterns.cursor import PatternError
from sordini.broker.groups.consumer.machine.topic_patterns import TopicPattern
from tests.compat.coordinator_classes.java_judge import answers
from tests.support.assignor_groups import result_of
from tests.support.parts import examples

TABLE = [
    line.encode().decode("unicode_escape")
    for line in Path(__file__).with_name("topic_patterns.txt").read_text(encoding="ascii").splitlines()
]
WORDS = """
ab aa aaa aab ba abab foo foo-bar foo.bar foo_bar A1 a.b a-b xxyy orders orders-eu orders.eu.v1 ORDERS Orders-EU
__consumer_offsets a{2 a{00} a{1,01} a{,3} a{a} a{1,2 a-1 1-a k-K S.s
"""
NAMES = [*map(chr, range(128)), *WORDS.split(), "", "a" * 20, "a" * 40, "ab" * 100]
PIECES = r"""
a b A k S 0 - . _ , 2 .* .+ \. \w \d \s \W \b \B ^ $ \A \z | | ( ) ( ) (?: (?i) (?i: (?-i) (?P<n> * + ? *? {2} {0,2}
{1,} {2,1} { } [ ] [a-c] [^a] [[:alpha:]] [^\w] [b-] \pL \p{Lu} \PN \Q \E \x41 \101 \1 \ [:digit:] é \x{212a}
"""
SMALL_LETTERS_IN_BOTH_CASES = re.compile(r"\(\?i\).*\\[pP]\{\^?Ll\}")
"""RE2/J 1.8 lets them match two of the capital letters, K and S; RE2 and we, all of them."""


def drawn_patterns(count: int, seed: int = 0) -> list[str]:
    draw, pieces = random.Random(seed), PIECES.split()
    return ["".join(draw.choice(pieces) for _ in range(draw.randint(1, 9))) for _ in range(count)]


def answer_of(pattern: str) -> dict[str, object]:
    try:
        return {"matching": [NAMES.index(name) for name in result_of(TopicPattern(pattern).matching(NAMES))]}
    except PatternError as error:
        return {"error": str(error)}


def test_patterns_are_refused_and_match_as_by_re2j(tmp_path: Path) -> None:
    assert len(set(TABLE)) > 400
    patterns = [*TABLE, *drawn_patterns(examples(20_000))]
    judged = answers("PatternJudge", [NAMES, *patterns], tmp_path)
    ours = list(map(answer_of, patterns))
    different = [
        f"{pattern!r}: {other} {own}"
        for pattern, other, own in zip(patterns, judged, ours, strict=True)
        if other != own and not SMALL_LETTERS_IN_BOTH_CASES.search(pattern)
    ]
    assert not different, f"{len(different)}: {different[0]}"
    refusals = {str(answer["error"]) for answer in judged if "error" in answer}
    assert len(refusals) >= 11
    assert sum("error" not in answer for answer in judged) > len(patterns) // 5
