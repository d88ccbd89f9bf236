"""TOOL-14 to TOOL-16: numbers stay what they are, or are refused."""

from tests.activities.streams import entry
from tests.bugbank.case import Case, asked, body, done, one
from tests.bugbank.tool_cases import UNUSABLE, calling, told

BIG = [2512292042121000001, 9007199254740993, 2**63, 10**29 + 7, -(2**63) - 1]
EXACT = [
    told(
        "TOOL-14",
        "in arguments and results",
        calling("find", [f'{{"id":{n}}}' for n in BIG]),
        *(f"find {n}" for n in BIG),
        calls=[done(arguments=f'{{"id":{n}}}', result="9223372036854775807") for n in BIG],
        next_request=(
            '{\\"id\\":2512292042121000001}',
            f'{{\\"id\\":{10**29 + 7}}}',
            '"content":"9223372036854775807"',
        ),
    ),
    told(
        "TOOL-14",
        "inside a result",
        one("measure", '{"kind":"big"}'),
        "measure big",
        next_request=("2512292042121000001", str(10**29 + 7), str(-(2**63))),
    ),
    told(
        "TOOL-14",
        "in arguments that came as an object",
        one("find", {"id": 2512292042121000001}),
        "find 2512292042121000001",
    ),
]

NOT_FINITE = [
    told(
        "TOOL-15",
        "in a result",
        one("measure", '{"kind":"nan"}'),
        "measure nan",
        calls=[done(result='{"ratio":null,"rows":[1.0,null]}')],
    ),
    told(
        "TOOL-15",
        "deep in a result",
        one("measure", '{"kind":"nested nan"}'),
        "measure nested nan",
        calls=[done(result='[[null,{"x":[null]}]]')],
    ),
    told(
        "TOOL-15",
        "in the provider's own JSON",
        body(
            {
                "logprob": float("nan"),
                "usage": {"prompt_tokens": float("inf"), "completion_tokens": float("nan")},
                "choices": [{"message": {"tool_calls": [entry("c1", "ping", "{}")]}}],
            }
        ),
        "ping",
        step={"usage_suspect": True},
    ),
]

WHOLE = {"1e16": 10**16, "1E+2": 100, "5.0": 5, "12e0": 12, "1e18": 10**18, "-0.0": 0}
NO_INTEGERS = [
    *("NaN", "Infinity", "-Infinity", "1e999", "1.5", "1e-3", "9007199254740993.0", "1e400"),
    *("1234567890123456789e0", '"1e16x"', "null", "0x10", "+5", "01", "1_000", "[1]", '{"a":1}'),
]
NO_NUMBERS = ["NaN", "Infinity", "-Infinity", "1e999", '"NaN"x']
EXPONENTS = [
    told(
        "TOOL-16",
        "whole numbers in other forms",
        calling("find", [f'{{"id":{n}}}' for n in WHOLE]),
        *(f"find {exact}" for exact in WHOLE.values()),
    ),
    told(
        "TOOL-16",
        "no integers",
        calling("find", [f'{{"id":{n}}}' for n in NO_INTEGERS]),
        calls=[UNUSABLE] * len(NO_INTEGERS),
    ),
    told(
        "TOOL-16",
        "no numbers",
        calling("scale", [f'{{"by":{n}}}' for n in NO_NUMBERS]),
        calls=[UNUSABLE] * len(NO_NUMBERS),
    ),
    told(
        "TOOL-16",
        "beside good ones",
        asked(
            entry("a", "find", '{"id":NaN}'),
            entry("b", "find", '{"id":7}'),
            entry("c", "scale", '{"by":6.022e23}'),
        ),
        *("find 7", "scale 6.022e+23"),
        calls=[UNUSABLE, done(), done()],
    ),
]

CASES: list[Case] = [*EXACT, *NOT_FINITE, *EXPONENTS]
