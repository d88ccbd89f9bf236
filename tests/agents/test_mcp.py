"""MCP servers as users declare them."""

import re
from typing import Any

import pytest

from perdure import Agent, HttpServer, Secret, StdioServer, tool
from perdure.agents.registry import Registry
from perdure.runs.errors import ConfigurationError

ANY = StdioServer("s", "true")
ACCEPTED = re.compile("[A-Za-z0-9_-]{1,64}")

HOSTILE = ["a b", "a_b", "a/b", "", "é", "x" * 65, "x" * 64, "\ud800", "a\nb", "_", "a b_4bcb86d8"]


def test_every_name_becomes_one_that_providers_accept_and_no_two_the_same() -> None:
    made = [ANY.model_name(name) for name in HOSTILE]
    assert all(ACCEPTED.fullmatch(name) for name in made)
    assert len(set(made)) == len(HOSTILE)
    assert made == [ANY.model_name(name) for name in HOSTILE]
    # A server can't choose a name that another one of its tools is mapped to.
    assert ANY.model_name(made[0].removeprefix("s__")) != made[0]


def refused(**options: Any) -> str:
    with pytest.raises(ConfigurationError) as raised:
        StdioServer(**({"name": "s", "command": "true"} | options))
    return str(raised.value)


@pytest.mark.parametrize("name", ["", "a__b", "_a", "a_", "a b", "ä", "a" * 32, "a.b"])
def test_a_server_needs_a_plain_name(name: str) -> None:
    assert "can't be named" in refused(name=name)


def test_options_that_make_no_sense_are_refused() -> None:
    assert "lists of names" in refused(include="echo")
    assert "args is a list" in refused(args="--all")
    assert "renamed" in refused(rename={"a": "b c"})
    assert "renamed" in refused(rename={"a": "c", "b": "c"})
    assert "effect" in refused(effects={"a": "harmless"})
    assert "timeout_s" in refused(timeout_s=0)
    with pytest.raises(ConfigurationError, match="URL"):
        HttpServer("h", "ftp://example.org")
    with pytest.raises(ConfigurationError, match="Secret"):
        HttpServer("h", "https://user:pw@example.org/mcp")
    with pytest.raises(ConfigurationError, match="Secret"):
        HttpServer("h", "https://example.org/mcp", headers={"authorization": "Bearer x"})


def test_a_tool_can_t_pose_as_one_of_a_server_nor_a_server_as_another() -> None:
    @tool(name="gh__create_issue")
    def create_issue() -> str:
        """Create an issue."""
        return "no"

    gh = StdioServer("gh", "gh-mcp", env={"T": Secret("T")})
    registry = Registry()
    registry.add(Agent(name="one", mcp_servers=[gh]), "here")
    registry.add(
        Agent(
            name="two",
            mcp_servers=[StdioServer("gh", "gh-mcp", env={"T": Secret("T")}, include=["x"])],
        ),
        "here",
    )
    with pytest.raises(ConfigurationError, match="named like one"):
        registry.add(Agent(name="three", tools=[create_issue]), "here")
    with pytest.raises(ConfigurationError, match="different server"):
        registry.add(Agent(name="four", mcp_servers=[StdioServer("gh", "other")]), "here")
    with pytest.raises(ConfigurationError, match="two MCP servers"):
        Agent(name="five", mcp_servers=[gh, gh])
    assert registry.names() == ["one", "two"]
