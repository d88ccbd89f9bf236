"""Whether a model provider can be reached, and takes the key. Plain HTTP: no model is asked."""

import urllib.error
import urllib.request
from typing import Any, NamedTuple

from perdure.client.configuration import masked_url
from perdure.client.doctor.finding import Finding, fail, in_thread, ok, unknown, warn
from perdure.engine.settings import Settings

OPENAI = "https://api.openai.com/v1"
"""Where the client of OpenAI goes by itself."""
ANSWER_WITHIN_S = 4.0
SCHEMES = ("http://", "https://")


class Provider(NamedTuple):
    """A provider to look at."""

    base_url: str
    key: str | None


async def provider(settings: Settings) -> list[Finding]:
    """Ask the configured provider for its list of models."""
    key = settings.openai_api_key.get_secret_value() if settings.openai_api_key else None
    if key is None and settings.openai_base_url is None:
        return [
            unknown(
                "provider",
                "No model provider is configured here; only workers need one.",
                "Set OPENAI_API_KEY, and OPENAI_BASE_URL for another provider than OpenAI.",
            )
        ]
    return [await look(Provider(settings.openai_base_url or OPENAI, key))]


async def look(asked: Provider) -> Finding:
    """Return whether a provider lists its models."""
    where = masked_url(asked.base_url)
    if not asked.base_url.startswith(SCHEMES):
        return fail("provider", f"{where} is no http or https URL.", "Mend OPENAI_BASE_URL.")
    try:
        status = await in_thread(lambda: _status(asked))
    except (OSError, ValueError) as exc:
        return fail(
            "provider", f"{where} does not answer: {_why(exc)}.", "Check OPENAI_BASE_URL, proxies."
        )
    return _told(where, status, has_key=asked.key is not None)


def _told(where: str, status: int, *, has_key: bool) -> Finding:
    if status == 200:
        return ok("provider", f"{where} answers{' and takes the key' if has_key else ''}.")
    if status == 401:
        said = "refuses the key" if has_key else "wants a key, and none is set"
        return fail(
            "provider", f"{where} {said} (401).", "Set OPENAI_API_KEY to one that is valid."
        )
    if status >= 500:
        return fail("provider", f"{where} answers with {status}.", "Ask who runs it.")
    # Some serve no list of models, and some keys may only ask models.
    return warn(
        "provider",
        f"{where} answers with {status} where its list of models is asked for.",
        "Check OPENAI_BASE_URL: it ends like /v1. Some providers have no such list.",
    )


def _why(exc: Exception) -> str:
    cause = exc.reason if isinstance(exc, urllib.error.URLError) else exc
    if isinstance(cause, TimeoutError):
        return f"not within {ANSWER_WITHIN_S:g} s"
    # Never the text: a URL with a password may be in it.
    told = cause.strerror if isinstance(cause, OSError) else None
    return told or type(cause).__name__


def _status(asked: Provider) -> int:
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
