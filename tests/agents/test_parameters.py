"""What may stand in the signature of a tool, and what a model is told of it."""

import functools
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, ValidationError

from perdure.agents.context import ToolContext
from perdure.agents.tool import AnyTool, tool
from perdure.runs.errors import ConfigurationError

CONTEXT = ToolContext()


def parameters(of: AnyTool) -> dict[str, Any]:
    """Return the schema of a tool's parameters."""
    found: dict[str, Any] = of.schema["function"]["parameters"]
    return found


def test_parameters_are_called_as_they_like_without_a_warning() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")

        @tool
        def send(
            schema: str,
            json: dict[str, int],
            copy: bool,
            model_config: int,
            model_id: int,
            validate: float,
            _inside: str = "x",
            __class__: str = "y",
            p0: int = 0,
            title: str = "z",
        ) -> None:
            """Send."""

    names = ["schema", "json", "copy", "model_config", "model_id", "validate", "_inside"]
    assert list(parameters(send)["properties"]) == [*names, "__class__", "p0", "title"]
    assert parameters(send)["required"] == names[:-1]
    given = '{"schema":"s","json":{"a":1},"copy":true,"model_config":1,"model_id":2,"validate":0.5'
    assert send.keyword_arguments(given + ',"p0":7}') == {
        "schema": "s",
        "json": {"a": 1},
        "copy": True,
        "model_config": 1,
        "model_id": 2,
        "validate": 0.5,
        "_inside": "x",
        "__class__": "y",
        "p0": 7,
        "title": "z",
    }
    with pytest.raises(ValidationError, match="p1"):
        send.keyword_arguments(given + ',"p1":{}}')


def test_what_is_wrong_is_told_by_the_parameter_s_name() -> None:
    @tool
    def send(json: int) -> None:
        """Send."""

    with pytest.raises(ValidationError) as refused:
        send.keyword_arguments('{"json":"no"}')
    assert [problem["loc"] for problem in refused.value.errors()] == [("json",)]


def test_an_alias_changes_nothing() -> None:
    @tool
    def find(
        query: Annotated[str, Field(alias="q")], limit: Annotated[int, Field(validation_alias="n")]
    ) -> None:
        """Find."""

    assert list(parameters(find)["properties"]) == ["query", "limit"]
    given = {"query": "x", "limit": 3}
    assert find.keyword_arguments('{"query":"x","limit":3}') == given
    with pytest.raises(ValidationError):
        find.keyword_arguments('{"q":"x","n":3}')


class Deep(BaseModel):
    title: str = Field("untitled", title="A title", examples=[{"title": "Emma"}])
    inner: "list[Deep]" = []
    default: dict[str, str] = {"title": "kept"}


def test_titles_are_nowhere_and_what_is_only_called_title_stays() -> None:
    @tool
    def file(deep: Deep, title: str, either: int | Deep) -> None:
        """File."""

    assert parameters(file)["$defs"]["Deep"] == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "default": "untitled", "examples": [{"title": "Emma"}]},
            "inner": {"type": "array", "items": {"$ref": "#/$defs/Deep"}, "default": []},
            "default": {
                "type": "object",
                "additionalProperties": {"type": "string"},
                "default": {"title": "kept"},
            },
        },
    }
    assert parameters(file)["properties"]["title"] == {"type": "string"}


def test_the_description_nearest_to_a_parameter_counts() -> None:
    @tool
    def draw(
        first: int,
        second: Annotated[int, "By a word."],
        third: Annotated[int, Field(ge=0, description="By a field.")],
        fourth: Annotated[int, Field(le=9)],
    ) -> None:
        """Draw.

        Args:
            first: By the docstring.
            second: Not this.
            third: Not this.
            fourth: By the docstring,
                in two lines.
        """

    properties = parameters(draw)["properties"]
    assert [each["description"] for each in properties.values()] == [
        "By the docstring.",
        "By a word.",
        "By a field.",
        "By the docstring,\nin two lines.",
    ]
    assert (properties["third"]["minimum"], properties["fourth"]["maximum"]) == (0, 9)


def test_a_default_that_json_can_not_hold_is_none_for_the_model() -> None:
    nothing = object()

    @tool
    def find(where: Any = nothing) -> None:
        """Find."""

    assert parameters(find)["properties"] == {"where": {}}
    assert find.keyword_arguments("{}")["where"] is nothing


def test_a_default_of_one_call_is_not_that_of_the_next() -> None:
    @tool
    def collect(into: list[int] = []) -> list[int]:  # noqa: B006 - what people write
        """Collect."""
        into.append(1)
        return into

    for _ in range(2):
        assert collect.function(**collect.keyword_arguments("{}")) == [1]


def lookup(table: str, key: str, limit: int = 3) -> str:
    """Look up.

    Args:
        table: Of what.
        key: Which.
        limit: How many.
    """
    return f"{table}.{key}:{limit}"


class Shop:
    """A shop."""

    def __init__(self, name: str) -> None:
        self.name = name

    def stock(self, article: str) -> str:
        """Tell the stock.

        Args:
            article: Which.
        """
        return f"{self.name}: {article}"


class Doubler:
    """Doubles numbers."""

    async def __call__(self, number: int) -> int:
        return 2 * number


@dataclass
class Adder:
    more: int

    def __call__(self, number: Annotated[int, "Which."]) -> int:
        """Add."""
        return number + self.more


def test_a_partial_gives_the_model_only_what_is_left() -> None:
    left = tool(functools.partial(functools.partial(lookup, "stock"), limit=1))
    assert (left.name, left.description) == ("lookup", "Look up.")
    assert parameters(left)["properties"] == {"key": {"type": "string", "description": "Which."}}
    assert left.function(**left.keyword_arguments('{"key":"bolt"}')) == "stock.bolt:1"
    with pytest.raises(ValidationError, match="limit"):
        left.keyword_arguments('{"key":"bolt","limit":9}')


def test_the_method_of_an_object_is_a_tool() -> None:
    stock = tool(effect="read")(Shop("North").stock)
    assert (stock.name, stock.description) == ("stock", "Tell the stock.")
    assert parameters(stock)["properties"]["article"]["description"] == "Which."
    assert stock.function(**stock.keyword_arguments('{"article":"nut"}')) == "North: nut"
    with pytest.raises(ConfigurationError, match=r"tool\(thing.method\)"):
        tool(Shop.stock)


def test_an_object_that_can_be_called_is_a_tool_with_a_name_of_its_own() -> None:
    double = tool(name="double")(Doubler())
    assert (double.is_async, double.description) == (True, "Doubles numbers.")
    add = tool(name="add")(Adder(2))
    assert (add.is_async, add.description) == (False, "Add.")
    assert parameters(add)["properties"]["number"]["description"] == "Which."
    assert add(40) == 42
    assert tool(name="more")(functools.partial(Doubler())).is_async
    with pytest.raises(ConfigurationError, match=r"'Adder' needs a name. Give it: name=…"):
        tool(Adder(2))


def test_a_field_as_a_default_is_refused_with_the_way_out() -> None:
    def find(limit: int = Field(3, ge=1)) -> None: ...

    with pytest.raises(ConfigurationError, match=r"Write Annotated\[type, Field"):
        tool(find)


def plain(city: str, context: ToolContext) -> str:
    return f"{city} {context.call_id}"


def optional(city: str, told: ToolContext | None = None) -> str:
    return f"{city} {told.call_id if told else 'nobody'}"


def annotated(told: Annotated[ToolContext, "Ours."], city: str) -> str:
    return f"{city} {told.call_id}"


@pytest.mark.parametrize("function", [plain, optional, annotated])
def test_a_parameter_of_the_type_tool_context_is_filled_in_and_hidden(
    function: Callable[..., str],
) -> None:
    made = tool(function)
    assert list(parameters(made)["properties"]) == ["city"]
    assert parameters(made)["required"] == ["city"]
    assert made.keyword_arguments('{"city":"Oslo"}') == {"city": "Oslo"}
    given = made.keyword_arguments('{"city":"Oslo"}', CONTEXT)
    assert made.function(**given) == "Oslo test-call"
    for name in ("context", "told"):
        with pytest.raises(ValidationError, match=name):
            made.keyword_arguments(f'{{"city":"Oslo","{name}":{{"run_id":"mine"}}}}', CONTEXT)
