"""Whether the model providers can be reached, and take their keys. No model is asked."""

import asyncio
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

from perdure.client.configuration import masked_url
from perdure.client.doctor.finding import Finding, fail, failed, in_thread, ok, unknown, warn
from perdure.engine.models import model_table
from perdure.engine.settings import Settings
from perdure.runs.errors import ConfigurationError
from perdure.runs.providers import DEFAULT_KEY, DEFAULT_PROVIDER

OPENAI = "https://api.openai.com/v1"
"""Where the client of OpenAI goes by itself."""
ANSWER_WITHIN_S = 4.0
SCHEMES = ("http://", "https://")


@dataclass(frozen=True)
class _Asked:
    """A provider to look at.

    Attributes:
        name: As in `perdure.toml`.
        base_url: Where it is.
        key: Its key, if it wants one.
        variable: What holds the key.
    """

    name: str
    base_url: str
    key: str | None
    variable: str

    @property
    def check(self) -> str:
        """What a finding about it is called."""
        return "provider" if self.name == DEFAULT_PROVIDER else f"provider {self.name}"

    @property
    def place(self) -> str:
        """Where its address is set."""
        return "OPENAI_BASE_URL" if self.name == DEFAULT_PROVIDER else "its base_url"


async def providers(settings: Settings) -> list[Finding]:
    """Ask all configured providers for their lists of models."""
    try:
        table = model_table(settings)
    except ConfigurationError as exc:
        return [failed("provider", exc)]
    if not table.providers:
        return [
            unknown(
                "provider",
                "No model provider is configured here; only workers need one.",
                "Set OPENAI_API_KEY, and OPENAI_BASE_URL for another provider than OpenAI.",
            )
        ]
    asked = [
        _Asked(
            name,
            each.base_url or OPENAI,
            table.keys[name].get_secret_value() if name in table.keys else None,
            each.api_key or DEFAULT_KEY,
        )
        for name, each in table.providers.items()
    ]
    return list(await asyncio.gather(*map(_looked, asked)))


async def _looked(asked: _Asked) -> Finding:
    """Return whether a provider lists its models."""
    where = masked_url(asked.base_url)
    if not asked.base_url.startswith(SCHEMES):
        return fail(asked.check, f"{where} is no http or https URL.", f"Mend {asked.place}.")
    try:
        status = await in_thread(lambda: _status(asked))
    except (OSError, ValueError) as exc:
        return fail(
            asked.check,
            f"{where} does not answer: {_why(exc)}.",
            f"Check {asked.place}, proxies.",
        )
    return _told(asked, where, status)


def _told(asked: _Asked, where: str, status: int) -> Finding:
    has_key = asked.key is not None
    if status == 200:
        return ok(asked.check, f"{where} answers{' and takes the key' if has_key else ''}.")
    if status == 401:
        said = "refuses the key" if has_key else "wants a key, and none is set"
        return fail(
            asked.check, f"{where} {said} (401).", f"Set {asked.variable} to one that is valid."
        )
    if status >= 500:
        return fail(asked.check, f"{where} answers with {status}.", "Ask who runs it.")
    # Some serve no list of models, and some keys may only ask models.
    return warn(
        asked.check,
        f"{where} answers with {status} where its list of models is asked for.",
        f"Check {asked.place}: it ends like /v1. Some providers have no such list.",
    )


def _why(exc: Exception) -> str:
    cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    if isinstance(cause, TimeoutError):
        return f"not within {ANSWER_WITHIN_S:g} s"
    # Never the text: a URL with a password may be in it.
    told = cause.strerror if isinstance(cause, OSError) else None
    return told or type(cause).__name__


def _status(asked: _Asked) -> int:
    headers = {"Authorization": f"Bearer {asked.key}"} if asked.key else {}
    url = f"{asked.base_url.rstrip('/')}/models"
    request = urllib.request.Request(url, headers=headers)  # noqa: S310 - http or https
    opener = urllib.request.build_opener(_Stay)
    try:
        with opener.open(request, timeout=ANSWER_WITHIN_S) as answer:
            return int(answer.status)
    except urllib.error.HTTPError as exc:
        exc.close()
        return exc.code


class _Stay(urllib.request.HTTPRedirectHandler):
    """Goes nowhere else: the key is only for this host."""

    def redirect_request(self, *_: Any) -> None:
        return None
