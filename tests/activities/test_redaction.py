"""Secrets never get into anything that is written, in whatever form they come."""

import base64
import json
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perdure.activities.redaction import MASK, MAX_BODY_CHARS, Redactor

SECRET = "p@ss/word+9=?"  # noqa: S105 - made up


@pytest.mark.parametrize(
    "form",
    [
        SECRET,
        quote(SECRET, safe=""),
        base64.b64encode(SECRET.encode()).decode(),
        base64.b64encode(SECRET.encode()).decode().rstrip("="),
    ],
)
def test_a_secret_is_masked_plain_in_an_address_and_in_base64(form: str) -> None:
    said = Redactor([SECRET])(f"before {form} after")
    assert MASK in said
    assert form.rstrip("=") not in said
    assert said.startswith("before ")
    assert said.endswith(" after")


@pytest.mark.parametrize("in_ascii", [False, True])
def test_a_secret_is_masked_where_it_stands_in_json(in_ascii: bool) -> None:
    odd = 'new\nline "quoted" tøken'
    said = json.dumps({"a": [odd]}, ensure_ascii=in_ascii)
    assert Redactor([odd])(said) == '{"a": ["[redacted]"]}'
    assert Redactor([odd]).known_in(said.encode()) == b'{"a": ["[redacted]"]}'


def test_in_data_only_known_secrets_are_masked() -> None:
    data = f"{SECRET} sk-learn-is-a-library".encode()
    assert Redactor([SECRET]).known_in(data) == f"{MASK} sk-learn-is-a-library".encode()


@pytest.mark.parametrize(
    "text",
    [
        "Incorrect API key provided: sk-FAKE1234567890abcd",
        "Incorrect API key provided: sk-proj-********************abcd.",
        "key xai-0123456789abcdef",
        "key gsk_0123456789abcdef",
        "Authorization: Bearer abcdefgh12345678",
    ],
)
def test_what_looks_like_a_key_is_masked_though_it_was_never_ours(text: str) -> None:
    """Case HTTP-08."""
    said = Redactor([])(text)
    assert MASK in said
    assert "abcd" not in said
    assert "5678" not in said


@pytest.mark.parametrize("text", ["", "task-force", "The disk-usage is 9 %.", "sk-", "risk-averse"])
def test_plain_words_stay(text: str) -> None:
    assert Redactor([SECRET])(text) == text


def test_placeholders_are_no_secrets() -> None:
    assert Redactor(["", "x", "none"])("next, none: x") == "next, none: x"


def test_a_secret_that_holds_another_is_masked_whole() -> None:
    assert Redactor(["secret", "secret-longer"])("a secret-longer b") == f"a {MASK} b"


@given(st.integers(0, 40), st.text(st.characters(codec="utf-8"), max_size=20))
def test_no_part_of_a_secret_is_left_at_the_cut_of_a_body(before: int, after: str) -> None:
    body = "x" * (MAX_BODY_CHARS - before) + SECRET + after
    said = Redactor([SECRET]).excerpt(body)
    assert len(said) <= MAX_BODY_CHARS
    assert SECRET[:3] not in said
