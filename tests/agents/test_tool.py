"""Tools: what a model is told of a function, and what a function gets from a model."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, ValidationError

from perdure.agents.agent import Agent
from perdure.agents.tool import AnyTool, Tool, tool
from perdure.runs.errors import ConfigurationError
from perdure.runs.policy import Effect, ToolPolicy


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


class Place(BaseModel):
    """Where."""

    x: int
    y: int = 0


@dataclass
class Size:
    width: int


def parameters(of: AnyTool) -> dict[str, Any]:
    """Return the schema of a tool's parameters."""
    found: dict[str, Any] = of.schema["function"]["parameters"]
    return found


def test_the_schema_comes_from_the_signature_and_the_docstring() -> None:
    @tool
    def search(query: str, limit: int = 10) -> list[str]:
        """Search the files.

        All of them, in any order.

        Args:
            query: What to look for.
            limit: Most results to return.

        Returns:
            Names.
        """
        return [query] * limit

    assert search.schema == {
        "type": "function",
        "function": {
            "name": "search",
            "description": "Search the files.\nAll of them, in any order.",
            "parameters": {
                "type": "object",
                "properties": {
                    "query": {"type": "string", "description": "What to look for."},
                    "limit": {
                        "type": "integer",
                        "default": 10,
                        "description": "Most results to return.",
                    },
                },
                "required": ["query"],
                "additionalProperties": False,
            },
        },
    }


def test_a_function_without_parameters_or_docstring_has_a_schema_too() -> None:
    @tool
    def ping() -> None: ...

    assert ping.description == ""
    assert parameters(ping) == {
        "type": "object",
        "properties": {},
        "additionalProperties": False,
    }
    assert ping.keyword_arguments("{}") == {}


def test_types_of_all_kinds_are_described_and_read() -> None:
    @tool
    def draw(
        colour: Colour,
        style: Literal["thin", "thick"],
        place: Place,
        size: Size,
        places: list[Place],
        width: Annotated[int, Field(ge=1, description="In pixels.")] = 1,
        label: str | None = None,
    ) -> None:
        """Draw."""

    schema = parameters(draw)
    assert schema["required"] == ["colour", "style", "place", "size", "places"]
    assert schema["properties"]["style"]["enum"] == ["thin", "thick"]
    assert schema["$defs"] == {
        "Colour": {"type": "string", "enum": ["red", "blue"]},
        "Place": {
            "type": "object",
            "description": "Where.",
            "properties": {"x": {"type": "integer"}, "y": {"type": "integer", "default": 0}},
            "required": ["x"],
        },
        "Size": {
            "type": "object",
            "properties": {"width": {"type": "integer"}},
            "required": ["width"],
            "additionalProperties": False,
        },
    }
    assert schema["properties"]["label"]["default"] is None
    assert schema["properties"]["width"]["minimum"] == 1
    assert schema["properties"]["width"]["description"] == "In pixels."
    read = draw.keyword_arguments(
        '{"colour":"red","style":"thin","place":{"x":1},"size":{"width":2},"places":[{"x":3}]}'
    )
    assert read == {
        "colour": Colour.RED,
        "style": "thin",
        "place": Place(x=1),
        "size": Size(width=2),
        "places": [Place(x=3)],
        "width": 1,
        "label": None,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        "{}",
        '{"style":"bold"}',
        '{"style":"thin","more":1}',
        '{"style":null}',
        "[]",
        "{",
        '{"style":"thin","width":0}',
    ],
)
def test_arguments_that_do_not_fit_are_refused(arguments: str) -> None:
    @tool
    def draw(style: Literal["thin", "thick"], width: Annotated[int, Field(ge=1)] = 1) -> None:
        """Draw."""

    with pytest.raises(ValidationError):
        draw.keyword_arguments(arguments)


def test_a_tool_is_called_like_the_function_that_it_is() -> None:
    @tool
    def add(a: int, b: int = 2) -> int:
        """Add."""
        return a + b

    @tool(effect="read")
    async def later(a: int) -> int:
        """Add later."""
        return a + 1

    assert add(1) == 3
    assert add(a=1, b=1) == 2
    assert asyncio.run(later(1)) == 2
    assert (add.is_async, later.is_async) == (False, True)


@pytest.mark.parametrize(("effect", "attempts"), [("read", 3), ("keyed", 3), ("unsafe", 1)])
def test_only_what_may_run_twice_is_tried_again_when_a_worker_dies(
    effect: Effect, attempts: int
) -> None:
    @tool(name="Other-name_1", effect=effect, timeout_s=5)
    def look() -> None:
        """Look."""

    assert look.name == "Other-name_1"
    assert look.policy == ToolPolicy(effect=effect, timeout_s=5, max_attempts=attempts)


def test_a_tool_is_unsafe_unless_it_says_otherwise() -> None:
    @tool
    def pay() -> None:
        """Pay."""

    assert isinstance(pay, Tool)
    assert pay.policy == ToolPolicy(effect="unsafe", timeout_s=None, max_attempts=1)


@pytest.mark.parametrize(
    "name", ["", " ", "two words", "a.b", "a/b", "ä", "-a", "a" * 65, "a:b", "a@b", "_private"]
)
def test_names_that_the_api_refuses_are_refused_before(name: str) -> None:
    with pytest.raises(ConfigurationError, match="can't be named"):
        Tool(print_nothing, name, ToolPolicy())


def print_nothing() -> None:
    """Print nothing."""


def test_a_lambda_needs_a_name_of_its_own() -> None:
    with pytest.raises(ConfigurationError, match="<lambda>"):
        tool(lambda: None)


def test_a_parameter_without_a_type_is_refused_by_name() -> None:
    with pytest.raises(ConfigurationError, match="'query' of tool 'search' has no type"):

        @tool
        def search(query):  # type: ignore[no-untyped-def]
            """Search."""


def test_parameters_without_names_are_refused() -> None:
    with pytest.raises(ConfigurationError, match=r"can't take \*queries"):

        @tool
        def search(*queries: str) -> None:
            """Search."""

    with pytest.raises(ConfigurationError, match=r"can't take \*options"):

        @tool
        def find(**options: str) -> None:
            """Find."""


def test_parameters_that_can_not_be_given_by_name_are_refused() -> None:
    with pytest.raises(ConfigurationError, match="'query' of tool 'search' can't be given by name"):

        @tool
        def search(query: str, /) -> None:
            """Search."""


def test_what_no_schema_can_be_made_of_is_refused_where_it_is_declared() -> None:
    with pytest.raises(ConfigurationError, match="'call' can't be described"):

        @tool
        def call(back: Callable[[], None]) -> None:
            """Call back."""

    with pytest.raises(ConfigurationError, match="'hold' can't be described"):

        @tool
        def hold(thing: Opaque) -> None:
            """Hold."""


class Opaque:
    """Something that pydantic knows nothing of."""


def test_an_agent_s_name_must_be_usable_in_addresses() -> None:
    with pytest.raises(ConfigurationError, match="'my agent'"):
        Agent(name="my agent")


def test_an_agent_s_tools_have_names_of_their_own() -> None:
    one = Tool(print_nothing, "look", ToolPolicy())
    two = Tool(print_nothing, "look", ToolPolicy())
    with pytest.raises(ConfigurationError, match="two tools named 'look'"):
        Agent(name="helper", tools=[one, two])
    agent = Agent(name="helper", tools=[one])
    assert agent.tool("look") is one
    assert agent.tool("find") is None
