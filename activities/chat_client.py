"""One request to a model provider over HTTP: sent whole, read as a stream, always closed.

The `openai` client does connections, authentication and status codes. Its typed layer is
passed by: it would transform every message of every request again, and it lets broken answers
through as if they were good. It never retries: Temporal owns all retries.
"""

import asyncio
from collections.abc import Iterable

import openai

from perdure.activities.answer_reader import (
    AnswerReader,
    Unusable,
    quoted,
    response_errors,
    timed_out,
)
from perdure.activities.failure import failed
from perdure.activities.openai_chat import Answer, clean
from perdure.activities.provider_errors import provider_error
from perdure.activities.provider_names import Server
from perdure.activities.received import Received
from perdure.activities.redaction import Redactor
from perdure.activities.retry_after import retry_after
from perdure.runs.errors import ErrorCode, RunError, error
from perdure.runs.limits import MAX_REPLY_BYTES, Timeouts
from perdure.runs.messages import without_lone_surrogates
from perdure.runs.providers import DEFAULT_KEY, DEFAULT_PROVIDER, Provider

OPENAI_URL = "https://api.openai.com/v1"
"""Always said: the client would look for OPENAI_BASE_URL, which is not for all providers."""
CONNECT_TIMEOUT_S = 10.0
"""Until a connection stands; the finer time limits are kept by `ChatClient.ask`."""


class ChatClient:
    """Sends requests to one Chat Completions endpoint.

    Args:
        api_key: Bearer token. Never leaves this object except to the provider.
        base_url: Up to and including `/v1`; OpenAI's own when none is given.
        secrets: Others that `redact` is to know: what models are told may come back in errors.
        name: Of the provider; told with its errors, where it is not the default one.
        told: What is configured of it.
    """

    def __init__(
        self,
        api_key: str,
        base_url: str | None,
        secrets: Iterable[str] = (),
        name: str = DEFAULT_PROVIDER,
        told: Provider | None = None,
    ) -> None:
        self._name, self._told = name, told or Provider()
        self.redact = Redactor([api_key, *secrets])
        self._client = openai.AsyncOpenAI(
            api_key=api_key,
            base_url=base_url or OPENAI_URL,
            max_retries=0,
            timeout=openai.Timeout(None, connect=CONNECT_TIMEOUT_S),
            default_headers=self._told.headers,
        )
        if name != DEFAULT_PROVIDER:
            # What the client has from OPENAI_ORG_ID, _PROJECT_ID and _CUSTOM_HEADERS is for
            # OpenAI, and none of anybody else's business.
            self._client.organization = self._client.project = None
            self._client._custom_headers = dict(self._told.headers)

    @property
    def server(self) -> Server:
        """Whom it asks."""
        return Server(self._client.base_url.host, self._client.base_url.port)

    async def close(self) -> None:
        """Close all connections."""
        await self._client.close()

    async def ask(
        self,
        body: bytes,
        answer: Answer,
        timeouts: Timeouts,
        max_bytes: int = MAX_REPLY_BYTES,
    ) -> Received:
        """Send one request and feed what comes back to `answer`, as it comes.

        *Cancellation*: the connection is closed at once; `answer` keeps what came before.

        Args:
            body: The request in wire form.
            answer: Filled in.
            timeouts: All of its model limits are set.
            max_bytes: Longest answer; the stream is closed when it is passed.

        Raises:
            ApplicationError: With the code of what went wrong.
        """
        received = Received()
        answer.max_bytes = max_bytes
        try:
            async with asyncio.timeout(timeouts.model_s):
                await self._ask(body, AnswerReader(answer, received, timeouts, self.redact))
            return received
        except TimeoutError:
            why = timed_out("answer completely", timeouts.model_s)
        except Unusable as exc:
            why = exc.why
        except openai.APIStatusError as exc:
            why = self._refused(exc, received)
        except openai.APIConnectionError as exc:
            reason = type(exc.__cause__).__name__ if exc.__cause__ else "connection error"
            why = _unavailable(f"The provider could not be reached ({reason}).")
        except response_errors() as exc:
            why = _unavailable(f"The provider's answer broke off ({type(exc).__name__}).")
        raise self.failed(why, received, answer)

    async def _ask(self, body: bytes, reader: AnswerReader) -> None:
        stream = await reader.in_time(
            self._client.post(
                "/chat/completions",
                cast_to=object,
                content=body,
                options={"headers": {"Content-Type": "application/json"}},
                stream=True,
                stream_cls=openai.AsyncStream[object],
            )
        )
        try:
            await reader.read(stream.response)
        finally:
            await stream.response.aclose()

    def _refused(self, exc: openai.APIStatusError, received: Received) -> RunError:
        received.head(exc.response)
        received.note(exc.response.content)
        said = exc.body
        if not isinstance(said, dict | list):
            said = {"message": quoted(exc.response.text, self.redact)}
        return provider_error(exc.status_code, said)

    def failed(self, why: RunError, received: Received, answer: Answer) -> Exception:
        """Return the exception that says why there is no usable answer.

        Args:
            why: What went wrong, its message with whatever the provider said.
            received: What came over HTTP.
            answer: What was understood of it; its text is kept with the error.
        """
        partial = clean(answer.text)
        details = received.details(self.redact) | why.details
        if partial:
            details["partial_text"] = self.redact.excerpt(partial)
        why = self._named(why)
        message = self.redact.excerpt(without_lone_surrogates(why.message))
        asked = retry_after(received.headers) if why.retryable else None
        told = why.model_copy(update={"message": message, "details": details})
        return failed(told, retry_after=asked)

    def _named(self, why: RunError) -> RunError:
        """Return an error that says which provider, where there are several."""
        hint = why.hint.replace(DEFAULT_KEY, self._told.api_key or DEFAULT_KEY)
        if self._name == DEFAULT_PROVIDER:
            return why.model_copy(update={"hint": hint})
        where = f"[providers.{self._name}]"
        hint = hint.replace(DEFAULT_KEY, f"api_key in {where}")
        hint = hint.replace("OPENAI_BASE_URL", f"base_url in {where}")
        return why.model_copy(update={"message": f"{self._name}: {why.message}", "hint": hint})


def _unavailable(why: str) -> RunError:
    return error(ErrorCode.LLM_UNAVAILABLE, why, retryable=True)
