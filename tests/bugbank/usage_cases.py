"""STRM-13 and STRM-14: reports of what was used, odd or repeated."""

from typing import Any

from tests.bugbank.case import STOP, Case
from tests.bugbank.strm_cases import HEL, LO, NO_CHOICES, fine


def counted(*reports: Any) -> list[Any]:
    """Return chunks that report usage one after the other."""
    return [HEL, *({**NO_CHOICES, "usage": report} for report in reports), LO, STOP]


def tokens(prompt: Any, completion: Any, **more: Any) -> dict[str, Any]:
    """Return a usage report."""
    return {"prompt_tokens": prompt, "completion_tokens": completion, **more}


ZERO = tokens(0, 0)
TWELVE = tokens(12, 34)
TOTALS = [
    fine("STRM-13", what, *counted(*reports), usage=(12, 34, True), step={"usage_suspect": False})
    for what, reports in {
        "zero until the end": [ZERO, ZERO, TWELVE],
        "null until the end": [None, None, TWELVE],
        "growing": [tokens(12, 1), tokens(12, 20), TWELVE],
        "the same every time": [TWELVE] * 5,
        "zero again afterwards": [TWELVE, ZERO],
        "an empty object afterwards": [TWELVE, {}],
        "text": [tokens("12", "34")],
        "floats": [tokens(12.0, 34.0)],
    }.items()
]

SUSPECT = [
    fine("STRM-14", what, *counted(*reports), usage=used, step={"usage_suspect": suspect})
    for what, reports, used, suspect in [
        ("a: no prompt", [tokens(0, 34)], (0, 34, True), True),
        ("a: prompt null", [tokens(None, 34)], (0, 34, True), True),
        ("a: only a total", [{"total_tokens": 46}], (0, 0, True), True),
        ("b: running totals", [tokens(9, n) for n in (10, 20, 34)], (9, 34, True), False),
        ("c: null afterwards", [tokens(9, 34), None], (9, 34, True), False),
        ("negative", [tokens(-9, -1)], (0, 0, True), True),
        ("negative completion", [tokens(9, -1)], (9, 0, True), True),
        ("true and false", [tokens(True, False)], (0, 0, True), True),
        ("nonsense", [tokens("many", [1])], (0, 0, True), True),
        ("too large", [tokens(10**30, 1e300)], (0, 0, True), True),
        ("not finite", [tokens(float("nan"), float("inf"))], (0, 0, True), True),
        ("nothing in it", [{}], (0, 0, False), False),
        ("all null", [tokens(None, None)], (0, 0, False), False),
        ("no object", ["many"], (0, 0, False), False),
    ]
]

CASES: list[Case] = [*TOTALS, *SUSPECT]
