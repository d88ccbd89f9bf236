"""Where models are to be had: providers, and the names that models are asked for by.

`perdure.toml` holds these as tables (docs/models.md); nothing of them is in any history.
"""

from collections.abc import Sequence

from perdure.runs.frozen import Frozen
from perdure.runs.limits import RateLimit
from perdure.runs.usage import Price
from pydantic import Field, PositiveInt, SecretStr

DEFAULT_PROVIDER = "openai"
"""Where every model is that no alias says otherwise of."""
DEFAULT_KEY = "OPENAI_API_KEY"
"""What its key is called, where no file says otherwise."""


class Provider(Frozen, extra="forbid"):
    """A server that speaks Chat Completions."""

    base_url: str | None = None
    """Up to and including `/v1`; OpenAI's own when none is given."""
    api_key: str | None = None
    """The name of the environment variable that holds the key; none for servers without keys."""
    headers: dict[str, str] = Field(default_factory=dict)
    """Sent with every request. No secrets."""


class AliasPrice(Price, extra="forbid"):
    """A price in the file, where a name that is written wrongly is refused."""


class ModelAlias(Frozen, extra="forbid"):
    """What a name stands for that agents, and whoever starts a Run, may ask for."""

    provider: str = DEFAULT_PROVIDER
    model: str | None = None
    """As the provider calls it; the alias itself when none is given."""
    price: AliasPrice | None = None
    rate_limit: RateLimit | None = None
    context_window: PositiveInt | None = None
    """Tokens that the model can read."""
    fallbacks: tuple[str, ...] = ()
    """What to go on with, in this order, when it fails: aliases or names of models."""


class ModelTable(Frozen):
    """All providers and aliases that a worker has."""

    providers: dict[str, Provider] = Field(default_factory=dict)
    models: dict[str, ModelAlias] = Field(default_factory=dict)
    keys: dict[str, SecretStr] = Field(default_factory=dict)
    """The keys themselves, by provider."""

    @property
    def names(self) -> str:
        """The aliases, for a sentence."""
        return ", ".join(sorted(self.models)) or "none"

    def stands_for(self, name: str) -> ModelAlias:
        """Return what a name means: one that is no alias is a model of the default provider."""
        return self.models.get(name) or ModelAlias()

    def is_known(self, name: str) -> bool:
        """Tell whether there is a provider to ask for a model of that name."""
        return self.stands_for(name).provider in self.providers

    def chain(self, name: str, fallbacks: Sequence[str] = ()) -> list[str]:
        """Return a name and what to go on with, each once.

        Args:
            name: Asked for first.
            fallbacks: An agent's own. Without any, those of the alias, then theirs.
        """
        found = list(dict.fromkeys((name, *fallbacks)))
        if fallbacks:
            return found
        for each in found:
            # The list grows while it is walked through: what comes next may have fallbacks, too.
            found.extend(f for f in self.stands_for(each).fallbacks if f not in found)
        return found
