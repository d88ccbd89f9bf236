"""Which server a model is asked for at, under which name, and what is known of it there."""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perdure.activities.chat_client import ChatClient
from perdure.activities.failure import failed
from perdure.activities.pricing import context_window
from perdure.activities.redaction import Redactor
from perdure.agents.agent import Agent
from perdure.agents.checks import Judge
from perdure.agents.registry import Registry
from perdure.runs.errors import ConfigurationError, ErrorCode, error
from perdure.runs.limits import RateLimit
from perdure.runs.providers import DEFAULT_KEY, DEFAULT_PROVIDER, ModelTable
from perdure.runs.usage import Price

NO_KEY = "none"
"""Sent where no key is needed: the client insists on sending one."""


@dataclass(frozen=True)
class Endpoint:
    """One model at one provider."""

    chat: ChatClient
    provider: str
    model: str
    """As the provider calls it."""
    alias: str = ""
    """What it was asked for as, where that is an alias."""
    price: Price | None = None
    """Its own; else `Prices` knows."""
    listed_at: str | None = None
    """The address under which lists of prices and windows may know the provider."""
    window: int | None = None
    """Tokens that it can read, where the alias says so."""
    at_home: bool = True
    """Whether the agent's own model is at this provider, too."""

    @property
    def lane(self) -> str:
        """What its calls are paced under: one model of one provider, whatever it is called here."""
        return _lane(self.provider, self.model)

    @property
    def context_window(self) -> int | None:
        """Tokens that it can read, where that is known."""
        return self.window or context_window(self.model, self.listed_at)


class Endpoints:
    """All models that a worker can ask for.

    Args:
        table: Providers and aliases.
        prices: Those of the settings, by alias or model.
        rate_limits: The same.
        secrets: What no error may quote, besides the keys.
    """

    def __init__(
        self,
        table: ModelTable,
        prices: Mapping[str, Price] | None = None,
        rate_limits: Mapping[str, RateLimit] | None = None,
        secrets: Iterable[str] = (),
    ) -> None:
        self._table = table
        self._prices = prices or {}
        self.rate_limits = dict(rate_limits or {}) | _limits(table, rate_limits or {})
        """By `Endpoint.lane`."""
        keys = {name: key.get_secret_value() for name, key in table.keys.items()}
        # An error of one provider may quote what belongs to another: each client knows them all.
        hidden = [*keys.values(), *secrets]
        self.redact = Redactor(hidden)
        self._clients = {
            name: ChatClient(keys.get(name, NO_KEY), each.base_url, hidden, name, each)
            for name, each in table.providers.items()
        }

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(each.close() for each in self._clients.values()))

    def of(self, name: str, own: str | None = None) -> Endpoint:
        """Return where to ask for a model.

        Args:
            name: An alias, or the name of a model of the default provider.
            own: The name of the agent's own model.

        Raises:
            ApplicationError: `model_not_found`, when it is neither.
        """
        meant = self._table.stands_for(name)
        client = self._clients.get(meant.provider)
        if client is None:
            missing = f"The worker has no model {name!r}; it has: {self._table.names}."
            raise failed(error(ErrorCode.MODEL_NOT_FOUND, missing, hint=_WAY))
        found = Endpoint(client, meant.provider, name)
        if own is not None:
            home = self._table.stands_for(own).provider
            found = replace(found, at_home=home == meant.provider)
        if name not in self._table.models:
            return found
        return replace(
            found,
            model=meant.model or name,
            alias=name,
            price=self._prices.get(name) or meant.price,
            listed_at=self._table.providers[meant.provider].base_url,
            window=meant.context_window,
        )

    def after(
        self, name: str, own: Sequence[str], chosen: str | None, *, elsewhere: bool
    ) -> str | None:
        """Return the model to fall back to; none when all have been asked.

        Args:
            name: The one that fails.
            own: The agent's own model and, behind it, the agent's own fallbacks.
            chosen: The one that the Run was started with, if it names one.
            elsewhere: Whether it must be at another provider.
        """
        chains = self._table.chain(own[0], own[1:]), self._table.chain(chosen or name)
        chain = next((each for each in chains if name in each), [name])
        left = chain[chain.index(name) + 1 :]
        if elsewhere:
            here = self._table.stands_for(name).provider
            left = [each for each in left if self._table.stands_for(each).provider != here]
        return left[0] if left else None

    def check(self, registry: Registry, default: str) -> None:
        """See to it that there is every model that an agent names.

        Args:
            registry: The agents.
            default: The model of those that name none.

        Raises:
            ConfigurationError: When there is not.
        """
        for agent, _ in registry.listing():
            for each in (agent, *_judges(agent)):
                for name in (each.model or default, *each.fallback_models):
                    if not self._table.is_known(name):
                        raise ConfigurationError(
                            f"Agent {each.name!r} asks for the model {name!r}; "
                            f"the worker has: {self._table.names}.",
                            hint=_WAY,
                        )


_WAY = (
    "Name one of them, add it to perdure.toml, or set "
    f"{DEFAULT_KEY} for models that are no aliases; PERDURE_MODEL is for agents that name none."
)


def _judges(agent: Agent) -> list[Agent]:
    checks = (*agent.input_checks, *agent.output_checks)
    return [check.agent for check in checks if isinstance(check, Judge)]


def _lane(provider: str, model: str) -> str:
    return model if provider == DEFAULT_PROVIDER else f"{model} at {provider}"


def _limits(table: ModelTable, own: Mapping[str, RateLimit]) -> dict[str, RateLimit]:
    """Return the limits of what aliases stand for.

    The settings' of the alias come first, then the file's, then the settings' of the model.
    """
    found: dict[str, RateLimit] = {}
    for name, alias in table.models.items():
        model = alias.model or name
        limit = own.get(name) or alias.rate_limit
        if limit is not None:
            found[_lane(alias.provider, model)] = limit
        elif model in own:
            found.setdefault(_lane(alias.provider, model), own[model])
    return found
