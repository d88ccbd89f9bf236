"""A real small language model on this machine, behind an OpenAI-compatible HTTP server.

    weights   finds the model's file and checks its SHA-256
    gguf      reads what a model file says of itself
    backend   runs llama.cpp (package `xllamacpp`) in this process and asks it for text
    messages  a conversation with tools, in the form a small model reads best
    schema    what the model may reply, as one JSON schema
    adapter   an OpenAI chat request to a llama.cpp request and back; pure
    replies   the reply as OpenAI's objects: chunks, completions, errors; pure
    server    the HTTP server and its command line

It is an opt-in way to try the product without an API key. A model of half a billion parameters
calls one tool and answers from its result; it does not plan. Its parts are installed by
`pip install 'perdure[local]'`; importing this package needs none of them.
"""
