"""TOOL: the shapes in which models ask for tools. Inputs of one kind share a turn."""

import json
from collections.abc import Iterable
from typing import Any

from tests.activities.streams import entry, piece
from tests.bugbank.case import CALLS, END, Case, asked, done, one, rejected, stream
from tests.harness.scripted_openai import Reply

INVALID = "tool_arguments_invalid"
UNUSABLE = rejected(INVALID, repaired=None)


def told(number: str, what: str, reply: Reply, *executed: str, **expected: Any) -> Case:
    """Return a case of one strange turn after which the Run goes on and ends well."""
    return Case(number, what, (reply, END), executed=tuple(sorted(executed)), **expected)


def calling(name: str, inputs: Iterable[Any]) -> Reply:
    """Answer with one call for each of these arguments."""
    return asked(*(entry(f"c{n}", name, given) for n, given in enumerate(inputs)))


NOTHING = ["", " ", "\n\t ", "\u00a0", "{}", " {} ", None]
NO_ARGUMENTS = [
    told(
        "TOOL-01",
        "nothing, for a tool without parameters",
        calling("ping", NOTHING),
        *["ping"] * len(NOTHING),
        calls=[done(arguments="{}", result="pong")] * len(NOTHING),
        next_request=('"arguments":"{}"',),
        never_sent=('"arguments":""',),
    ),
    told(
        "TOOL-01",
        "nothing, for a tool with parameters",
        calling("weather", NOTHING),
        calls=[UNUSABLE] * len(NOTHING),
        next_request=(INVALID, "city"),
    ),
    told(
        "TOOL-01",
        "no arguments at all, streamed",
        stream(piece("ping", index=0, id="c1"), CALLS),
        "ping",
        calls=[done(arguments="{}")],
    ),
    told(
        "TOOL-01",
        "the key is missing",
        asked({"id": "c1", "type": "function", "function": {"name": "ping"}}),
        "ping",
    ),
]

CUT = [
    *("{", '{"city', '{"city":"Os', '{"city":"Oslo"', '{"city":}', "}", "city=Oslo", "{'city': 1}"),
    *('{"city":"Oslo"}}', '{"city":"Oslo"}{"city":"Rome"}', "```json\n{}\n```"),
    *("{" + "x" * 300, "[" * 5000, '{"city":"Oslo"} or so', '{"id":' + "9" * 5000 + "}"),
]
WELL = one("weather", '{"city":"Rome"}')
TRUNCATED = [
    told(
        "TOOL-03",
        "cut and broken in many places",
        calling("weather", CUT),
        calls=[rejected(INVALID, raw_arguments=cut[:200]) for cut in CUT],
        next_request=(INVALID, "(char 1)", '"arguments":"{}"'),
    ),
    told(
        "TOOL-03",
        "cut, streamed",
        stream(piece("weather", '{"ci', index=0, id="a"), piece(None, "ty", index=0), CALLS),
        calls=[rejected(INVALID, raw_arguments='{"city')],
    ),
    Case(
        "TOOL-03",
        "three times in a row",
        (one("weather", "{"),) * 3,
        status="failed",
        code="model_misbehaving",
        output=None,
        calls=[UNUSABLE] * 3,
    ),
    Case(
        "TOOL-03",
        "twice, then well, then twice",
        (*[one("weather", "{")] * 2, WELL, *[one("weather", "{")] * 2, END),
        executed=("weather Rome",),
    ),
]

OSLO = '{"city":"Oslo"}'
ENCODED = [json.dumps(OSLO), f" {json.dumps(OSLO)}\n", json.dumps(f" {OSLO} "), '"{\\"city\\":1}"']
NO_OBJECTS = [
    *("[]", "3", '"x"', "null", "true", '""', '"[]"', '"3"', '"null"', '"\\"{}\\""', "[{}]"),
    *([], 3, True, ["{}"], 0, False),
]
NO_FIT = [
    *(json.dumps('{"town":"Oslo"}'), json.dumps(json.dumps(OSLO)), '{"city":null}'),
    *('{"city":["Oslo"]}', '{"city":"Oslo","more":1}', json.dumps('{"city":'), {"town": "Oslo"}),
]
DOUBLE = [
    told(
        "TOOL-04",
        "the object inside a string",
        calling("weather", ENCODED[:3]),
        *["weather Oslo"] * 3,
        calls=[done(repaired="double_encoded")] * 3,
        next_request=('"arguments":"{\\"city\\":\\"Oslo\\"}"',),
    ),
    told(
        "TOOL-04",
        "an empty object inside a string",
        one("ping", '"{}"'),
        "ping",
        calls=[done(arguments="{}", repaired="double_encoded")],
    ),
    told(
        "TOOL-04",
        "nothing to repair",
        calling("weather", [OSLO, {"city": "Oslo"}]),
        *["weather Oslo"] * 2,
        calls=[done(repaired=None)] * 2,
    ),
    told(
        "TOOL-04",
        "half a character inside",
        one("weather", json.dumps('{"city":"\ud83d"}')),
        "weather \ufffd",
        calls=[done(repaired="double_encoded")],
    ),
    told("TOOL-04", "no object", calling("ping", NO_OBJECTS), calls=[UNUSABLE] * len(NO_OBJECTS)),
    told(
        "TOOL-04",
        "an object that does not fit",
        calling("weather", [*NO_FIT, ENCODED[3]]),
        calls=[UNUSABLE] * (len(NO_FIT) + 1),
    ),
]

NAMES = ["get_date", "", "Ping", "functions.ping", "ping ", "a b", "x" * 300, "日付", "tool.ping"]
UNKNOWN = [
    told(
        "TOOL-07",
        "invented names",
        asked(*(entry(f"c{n}", name, "{}") for n, name in enumerate([*NAMES, "call_model"]))),
        calls=[rejected("tool_not_found")] * (len(NAMES) + 1),
        next_request=("tool_not_found", "Tools: ping, weather, pay", "functions.ping"),
    ),
    told(
        "TOOL-07",
        "beside one that there is",
        asked(entry("a", "get_date", "{}"), entry("b", "ping", "{}")),
        "ping",
        calls=[rejected("tool_not_found", name="get_date"), done()],
    ),
    Case(
        "TOOL-07",
        "three times in a row",
        (one("get_date", "{}"),) * 3,
        status="failed",
        code="model_misbehaving",
        output=None,
        calls=[rejected("tool_not_found", name="get_date")] * 3,
    ),
]

PAY = entry("dup_1", "pay", '{"eur":5}')
TWICE = [
    told(
        "TOOL-09",
        "whole",
        asked(PAY, PAY),
        "pay 5",
        step={"duplicate_dropped": 1},
        calls=[done(call_id="dup_1")],
    ),
    told("TOOL-09", "thrice", asked(PAY, PAY, PAY), "pay 5", step={"duplicate_dropped": 2}),
    told(
        "TOOL-09",
        "spelt differently",
        asked(PAY, entry("dup_1", "pay", '{ "eur": 5 }')),
        "pay 5",
        step={"duplicate_dropped": 1},
    ),
    told(
        "TOOL-09",
        "streamed, index by index",
        stream(*(piece("pay", '{"eur":5}', index=n, id="dup_1") for n in (0, 1)), CALLS),
        "pay 5",
        step={"duplicate_dropped": 1},
    ),
    told(
        "TOOL-09",
        "streamed under one index",
        stream(*[piece("pay", '{"eur":5}', index=0, id="dup_1")] * 2, CALLS),
        "pay 5",
        step={"duplicate_dropped": 1},
    ),
    told(
        "TOOL-09",
        "no duplicates: other ids",
        asked(PAY, {**PAY, "id": "dup_2"}),
        *["pay 5"] * 2,
        step={"duplicate_dropped": 0},
    ),
]

A, B = '{"f":"a"}', '{"f":"b"}'
BOTH = ("read a", "read b")
SHARED = [
    done(call_id="x", provider_id=None, result="content of a"),
    done(call_id="call_1_2", provider_id="x", result="content of b"),
]
ONE_ID = [
    told(
        "TOOL-10", "whole", asked(entry("x", "read", A), entry("x", "read", B)), *BOTH, calls=SHARED
    ),
    told(
        "TOOL-10",
        "streamed, index by index",
        stream(piece("read", A, index=0, id="x"), piece("read", B, index=1, id="x"), CALLS),
        *BOTH,
        calls=SHARED,
    ),
    told(
        "TOOL-10",
        "streamed without an index",
        stream(piece("read", A, id="x"), piece("read", B, id="x"), CALLS),
        *BOTH,
        calls=SHARED,
    ),
    told(
        "TOOL-10",
        "the engine's own way of naming is taken",
        asked(entry("call_1_2", "read", A), entry("call_1_2", "read", B)),
        *BOTH,
        calls=[done(call_id="call_1_2"), done(call_id="call_1_2_", provider_id="call_1_2")],
    ),
    Case(
        "TOOL-10",
        "the same id in every turn",
        (one("read", A, "x"), one("read", B, "x"), END),
        executed=BOTH,
        calls=[done(result="content of a"), done(result="content of b")],
    ),
]

CASES: list[Case] = [*NO_ARGUMENTS, *TRUNCATED, *DOUBLE, *UNKNOWN, *TWICE, *ONE_ID]
