"""Which agents a worker knows, and what it says when it can't load one."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from perdure.agents.agent import Agent
from perdure.agents.registry import ENTRY_POINT_GROUP, Registry
from perdure.agents.tool import tool
from perdure.runs.errors import ConfigurationError, ErrorCode

DECLARES = """
from perdure import Agent, tool

@tool
def look() -> str:
    "Look."
    return "seen"

helper = Agent(name="{name}", tools=[look])
"""


@pytest.fixture(autouse=True)
def _modules() -> Iterator[None]:
    """Loading leaves nothing behind for the next test."""
    before = set(sys.modules)
    yield
    for name in set(sys.modules) - before:
        del sys.modules[name]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that the interpreter imports from."""
    monkeypatch.syspath_prepend(tmp_path)
    return tmp_path


def declare(path: Path, name: str = "helper") -> str:
    """Write a module that declares an agent, and return its path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(DECLARES.format(name=name))
    return str(path)


def refused(*sources: str) -> ConfigurationError:
    """Return why these can't be loaded."""
    with pytest.raises(ConfigurationError) as raised:
        Registry.load(sources)
    assert raised.value.code is ErrorCode.CONFIGURATION
    return raised.value


def test_agents_are_loaded_from_a_module(folder: Path) -> None:
    declare(folder / "acme_agents.py")
    registry = Registry.load(["acme_agents"])
    assert registry.names() == ["helper"]
    assert list(registry.tools()) == ["look"]
    assert [(agent.name, source) for agent, source in registry.listing()] == [
        ("helper", "acme_agents")
    ]
    assert registry.agent("helper") is registry.listing()[0][0]
    assert registry.agent("nobody") is None


def test_agents_are_loaded_from_a_file_and_its_folder_is_not_imported_from(
    tmp_path: Path,
) -> None:
    before = list(sys.path)
    path = declare(tmp_path / "agents.py")
    assert Registry.load([path]).names() == ["helper"]
    assert sys.path == before
    assert "agents" not in sys.modules


def test_a_file_named_like_an_installed_package_shadows_nothing(tmp_path: Path) -> None:
    import json

    assert Registry.load([declare(tmp_path / "json.py")]).names() == ["helper"]
    assert sys.modules["json"] is json


def test_two_files_of_one_name_are_two_sources(tmp_path: Path) -> None:
    one = declare(tmp_path / "one" / "agents.py", "a")
    two = declare(tmp_path / "two" / "agents.py", "b")
    error = refused(one, two)
    assert "'look'" in error.message
    (tmp_path / "two" / "agents.py").write_text(
        "from perdure import Agent\nagent = Agent(name='b')\n"
    )
    registry = Registry.load([one, two])
    assert [source for _, source in registry.listing()] == [one, two]


def test_agents_are_loaded_by_the_name_of_an_entry_point(folder: Path) -> None:
    declare(folder / "acme_agents.py")
    metadata = folder / "acme-1.0.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text(f"[{ENTRY_POINT_GROUP}]\nacme = acme_agents\n")
    assert Registry.load(["acme"]).names() == ["helper"]


def test_the_same_source_twice_is_the_same_agents(folder: Path) -> None:
    declare(folder / "acme_agents.py")
    assert Registry.load(["acme_agents", "acme_agents"]).names() == ["helper"]


def test_two_agents_of_one_name_are_refused_naming_both_places(folder: Path) -> None:
    declare(folder / "acme_agents.py")
    declare(folder / "other_agents.py")
    error = refused("acme_agents", "other_agents")
    assert error.message == ("Agent 'helper' is declared in 'acme_agents' and in 'other_agents'.")


def test_two_tools_of_one_name_are_refused_and_a_shared_one_is_not() -> None:
    @tool
    def look() -> str:
        """Look."""
        return "seen"

    @tool(name="look")
    def look_again() -> str:
        """Look again."""
        return "seen"

    registry = Registry()
    registry.add(Agent(name="a", tools=[look]), "one")
    registry.add(Agent(name="b", tools=[look]), "two")
    with pytest.raises(ConfigurationError, match="'c' has a tool 'look'"):
        registry.add(Agent(name="c", tools=[look_again]), "three")
    assert registry.names() == ["a", "b"]


def test_a_module_that_declares_no_agent_is_refused(folder: Path) -> None:
    (folder / "empty_agents.py").write_text("")
    error = refused("empty_agents")
    assert "'empty_agents' declares no agent" in error.message
    assert error.hint


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("import no_such_module", "ModuleNotFoundError"),
        ("1 / 0", "ZeroDivisionError"),
        ("def", "SyntaxError"),
        ("raise SystemExit(3)", "SystemExit"),
    ],
)
def test_a_module_that_can_not_be_imported_is_told_by_name_and_reason(
    body: str, said: str, folder: Path
) -> None:
    (folder / "broken_agents.py").write_text(body)
    for source in ("broken_agents", str(folder / "broken_agents.py")):
        error = refused(source)
        assert source in error.message
        assert said in error.message


def test_what_a_module_says_of_its_own_configuration_is_kept(folder: Path) -> None:
    (folder / "odd_agents.py").write_text("from perdure import Agent\nAgent(name='my agent')\n")
    assert refused("odd_agents").message == "An agent can't be named 'my agent'."


@pytest.mark.parametrize("source", ["./nowhere/agents.py", "nowhere.agents", ""])
def test_a_source_that_does_not_exist_is_told(source: str) -> None:
    assert repr(source)[1:-1].removeprefix("./") in refused(source).message
