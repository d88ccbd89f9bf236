"""Tool calling for a model too small to do it by itself: a pure mapping, no I/O.

A 0.5B model names the right tool but does not keep to any call format, so the
llama.cpp server reports its calls as plain text. This module turns the tools of
an OpenAI chat request into one JSON schema (a call of one of the tools, or an
answer), which the server enforces token by token, and reads the reply back into
``tool_calls`` or ``content``. It belongs to the local model alone: a provider
that reports tool calls itself is never second-guessed.

What this mapping does not do, on purpose:

* one reply holds at most one call (``parallel_tool_calls`` has no effect);
* ``stop``, ``logprobs`` and ``top_logprobs`` are dropped when tools are given: they would
  apply to the JSON around the answer, not to the answer;
* ``pattern`` is dropped from tool schemas (the grammar only takes anchored ones);
  whoever runs the tool validates its arguments anyway;
* a call with a result can't be repeated at once with the same arguments:
  :func:`repeats_a_call` says so and :func:`answer_only` narrows the request.
"""

JsonObject = dict[str, object]

DEFAULT_MAX_TOKENS = 1024
"""Tokens a reply may have when the request sets no limit. A small model that starts to
repeat itself would otherwise run to the end of the context: minutes on two cores."""
