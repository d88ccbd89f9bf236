"""Schemas of outputs that callers gave: sent once, and found again by their digest.

A large one would otherwise stand in the history once for each model call. Nothing here is needed
for correctness: on a miss (another worker, a restart) it is read from the Run's own workflow.
"""

from collections.abc import Awaitable, Callable
from typing import Any

from perdure.activities.failure import failed
from perdure.activities.lru import ByteLru
from perdure.runs.contract import ModelRequest
from perdure.runs.errors import ErrorCode, error
from perdure.runs.messages import canonical_json, digest

CACHE_BYTES = 8 * 1024 * 1024
"""Memory for schemas in one worker: five hundred of the largest."""

Schema = dict[str, Any]
SchemaReader = Callable[[], Awaitable[Schema | None]]
"""Reads the schema out of the Run's workflow."""


class Schemas:
    """Recent schemas of one worker, by digest."""

    def __init__(self) -> None:
        self._known: ByteLru[Schema] = ByteLru(CACHE_BYTES)

    async def completed(self, request: ModelRequest, read: SchemaReader) -> ModelRequest:
        """Return a request with its schema.

        Raises:
            ApplicationError: `internal`, when the workflow has not the schema that it told us.
        """
        if request.output_schema is not None:
            self._keep(request.output_schema)
        wanted = request.output_schema_digest
        if not wanted:
            return request
        schema = self._known.get(wanted)
        if schema is None:
            schema = await read()
            if schema is None or self._keep(schema) != wanted:
                raise failed(error(ErrorCode.INTERNAL, "The schema does not match its digest."))
        return request.model_copy(update={"output_schema": schema})

    def _keep(self, schema: Schema) -> str:
        wired = canonical_json(schema)
        name = digest(wired)
        self._known.keep(name, schema, len(wired))
        return name
