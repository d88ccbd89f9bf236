"""MCP servers: where an agent's further tools come from, and how far they are trusted.

What a server says of itself is somebody else's text: names are mapped to what providers accept,
and hints are believed only of servers that are declared `trusted`. A server's tool is always
called `<server>__<tool>`, so that it can neither take another one's place nor be renamed by what
another server offers later.
"""

import hashlib
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, get_args
from urllib.parse import urlsplit

from perdure.agents.approval import ApprovalRule
from perdure.agents.tool import NAME_LENGTH, checked_task_queue
from perdure.runs.errors import ConfigurationError
from perdure.runs.policy import Effect

SEPARATOR = "__"
_SERVER_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9-]|_(?!_)){0,29}(?<!_)")
_TOOL_NAME = re.compile(r"[A-Za-z0-9_-]+")
_MARKED = re.compile(r"_[0-9a-f]{8}")
"""How a mapped name ends. A name that looks so by itself is mapped too: no other one is like it."""


@dataclass(frozen=True)
class Secret:
    """A value that the worker has in its environment, and that is written nowhere.

    Args:
        variable: The name of the environment variable.
        form: What is made of it, such as `Bearer {}`.
    """

    variable: str
    form: str = "{}"


@dataclass(frozen=True)
class McpServer:
    """What both kinds of MCP servers have in common; declare a `StdioServer` or an `HttpServer`.

    Raises:
        ConfigurationError: When the name is unusable, or the options contradict each other.
    """

    name: str
    """Its tools are called `<name>__<tool>`. Up to 31 letters, digits, - and single _."""
    include: Sequence[str] | None = field(default=None, kw_only=True)
    """The tools that the agent gets, as the server names them; all by default."""
    exclude: Sequence[str] = field(default=(), kw_only=True)
    """Tools that it does not get."""
    rename: Mapping[str, str] = field(default_factory=dict, kw_only=True)
    """Other names for tools, behind the server's; the keys are the server's own names."""
    effects: Mapping[str, Effect] = field(default_factory=dict, kw_only=True)
    """What running a tool twice would do, by the server's own names; `unsafe` by default."""
    trusted: bool = field(default=False, kw_only=True)
    """Believe the server's hints: `readOnlyHint` makes a tool `read`, `idempotentHint` `keyed`."""
    approval: ApprovalRule | None = field(default=None, kw_only=True)
    """Which calls wait for a person's yes; the agent's own rule holds as well."""
    timeout_s: float | None = field(default=None, kw_only=True)
    """Seconds that one call may take; the agent's, else 60, when not given."""
    task_queue: str | None = field(default=None, kw_only=True)
    """Temporal task queue whose workers execute its tools, as of a tool. The workers that call
    models list them, so they have to reach the server as well."""
    start_timeout_s: float = field(default=30.0, kw_only=True)
    """Seconds until the server has started and listed its tools."""
    optional: bool = field(default=False, kw_only=True)
    """Go on without its tools while it can't be started, instead of failing the model Step."""

    def __post_init__(self) -> None:
        if _SERVER_NAME.fullmatch(self.name) is None:
            raise ConfigurationError(
                f"An MCP server can't be named {self.name!r}.",
                hint="Use up to 31 letters, digits, - and single _.",
            )
        self._check_names()
        checked_task_queue(self.task_queue)
        for of, effect in self.effects.items():
            if effect not in get_args(Effect):
                raise self._refused(
                    f"the effect {effect!r} of {of!r} is not one of read, keyed, unsafe"
                )
        for option in ("timeout_s", "start_timeout_s"):
            value = getattr(self, option)
            if value is not None and not value > 0:
                raise self._refused(f"{option} is not above 0")

    def _check_names(self) -> None:
        if isinstance(self.include, str) or isinstance(self.exclude, str):
            raise self._refused("include and exclude are lists of names")
        given = list(self.rename.values())
        for new in given:
            if _TOOL_NAME.fullmatch(new) is None or given.count(new) > 1:
                raise self._refused(
                    f"a tool can't be renamed {new!r}: it is used twice, or has "
                    "other characters than letters, digits, _ and -"
                )

    def _refused(self, why: str) -> ConfigurationError:
        return ConfigurationError(f"MCP server {self.name!r}: {why}.")

    @property
    def connection(self) -> tuple[Any, ...]:
        """What makes it the same server for two agents: how it is reached, not what is used."""
        raise NotImplementedError

    @property
    def secrets(self) -> Sequence[Secret]:
        """The values that it is given of the worker's environment."""
        raise NotImplementedError

    @property
    def prefix(self) -> str:
        """How the names of its tools begin."""
        return self.name + SEPARATOR

    def offers(self, tool: str) -> bool:
        """Tell whether the agent gets a tool, by the server's own name."""
        return (self.include is None or tool in self.include) and tool not in self.exclude

    def model_name(self, tool: str) -> str:
        """Return what the model calls a tool: the same for ever, whatever else is offered.

        Args:
            tool: The server's own name for it, which may be any text.
        """
        wanted = self.rename.get(tool, tool)
        room = NAME_LENGTH - len(self.prefix)
        taken = tool not in self.rename and wanted in self.rename.values()
        fits = _TOOL_NAME.fullmatch(wanted) is not None and len(wanted) <= room
        if fits and not taken and _MARKED.fullmatch(wanted[-9:]) is None:
            return self.prefix + wanted
        mark = "_" + hashlib.sha256(tool.encode("utf-8", "surrogatepass")).hexdigest()[:8]
        return self.prefix + re.sub("[^A-Za-z0-9_-]", "_", wanted)[: room - len(mark)] + mark

    def effect(self, tool: str, *, read_only: bool, idempotent: bool) -> Effect:
        """Return what running a tool twice would do.

        Args:
            tool: The server's own name for it.
            read_only: What the server says.
            idempotent: What the server says.
        """
        if tool in self.effects:
            return self.effects[tool]
        if self.trusted and read_only:
            return "read"
        return "keyed" if self.trusted and idempotent else "unsafe"


@dataclass(frozen=True)
class StdioServer(McpServer):
    """An MCP server that the worker starts, as a process of its own.

    It inherits HOME, LANG, LC_ALL, LOGNAME, PATH, SHELL, TERM, TMPDIR, TZ and USER, and nothing
    else of the worker's environment.
    """

    command: str
    """The executable: a path, or a name in PATH."""
    args: Sequence[str] = ()
    env: Mapping[str, str | Secret] = field(default_factory=dict, kw_only=True)
    """Environment variables of the server."""
    cwd: str | None = field(default=None, kw_only=True)
    """The folder it is started in; the worker's by default."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.args, str):
            raise self._refused("args is a list")

    @property
    def connection(self) -> tuple[Any, ...]:
        """What makes it the same server for two agents."""
        return (self.command, *self.args, "", *sorted(self.env.items(), key=str), self.cwd)

    @property
    def secrets(self) -> Sequence[Secret]:
        """The values that it is given of the worker's environment."""
        return [value for value in self.env.values() if isinstance(value, Secret)]


@dataclass(frozen=True)
class HttpServer(McpServer):
    """An MCP server that is reached by HTTP (the transport "streamable HTTP")."""

    url: str
    headers: Mapping[str, str | Secret] = field(default_factory=dict, kw_only=True)
    """Sent with every request. Credentials are `Secret`s."""

    def __post_init__(self) -> None:
        super().__post_init__()
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise self._refused("the address is not an http:// or https:// URL")
        if parts.username or parts.password:
            raise self._refused("credentials stand in its URL; put a Secret into headers instead")
        for header, value in self.headers.items():
            if header.lower() in ("authorization", "cookie") and isinstance(value, str):
                raise self._refused(
                    f"the header {header!r} is no place for a literal; use "
                    "Secret('VARIABLE', 'Bearer {}')"
                )

    @property
    def connection(self) -> tuple[Any, ...]:
        """What makes it the same server for two agents."""
        return (self.url, *sorted(self.headers.items(), key=str))

    @property
    def secrets(self) -> Sequence[Secret]:
        """The values that it is given of the worker's environment."""
        return [value for value in self.headers.values() if isinstance(value, Secret)]
