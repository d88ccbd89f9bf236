"""An MCP server over stdio that does what it is told, the wrong things included.

It speaks the protocol by itself: a server made with the SDK would behave too well, and starts
slowly. Every message that it gets is written to the file of `--log`.
"""

import argparse
import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any

OPTIONS = argparse.ArgumentParser()
OPTIONS.add_argument("--log", default=os.devnull)
OPTIONS.add_argument("--die-in", default="", help="exit when this method is called")
OPTIONS.add_argument("--hang-in", default="", help="never answer this method")
OPTIONS.add_argument("--junk", action="store_true", help="print noise before everything")
OPTIONS.add_argument("--flood", action="store_true", help="never end a line, on both streams")
OPTIONS.add_argument("--stay", action="store_true", help="ignore a closed stdin and SIGTERM")
OPTIONS.add_argument("--endless", action="store_true", help="list tools without an end")
OPTIONS.add_argument(
    "--old", action="store_true", help="start with the tools that `change` removes"
)

OBJECT = {"type": "object", "properties": {}}
WRITING = threading.Lock()


def numbers(*names: str) -> dict[str, Any]:
    return {
        "type": "object",
        "properties": {name: {"type": "integer"} for name in names},
        "required": list(names),
        "additionalProperties": False,
    }


TEXT = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
TOOLS: dict[str, dict[str, Any]] = {
    "echo": {"inputSchema": TEXT, "annotations": {"readOnlyHint": True}},
    "create_issue": {"inputSchema": TEXT, "annotations": {"idempotentHint": True}},
    "arguments": {"inputSchema": OBJECT},
    "add": {"inputSchema": numbers("a", "b")},
    "sleep": {"inputSchema": numbers("s"), "annotations": {"readOnlyHint": True}},
    "die": {"inputSchema": OBJECT},
    "die_reading": {"inputSchema": OBJECT, "annotations": {"readOnlyHint": True}},
    "refuse": {"inputSchema": OBJECT},
    "rpc_error": {"inputSchema": OBJECT},
    "structured": {"inputSchema": OBJECT},
    "media": {"inputSchema": OBJECT},
    "big": {"inputSchema": numbers("size")},
    "blocks": {"inputSchema": numbers("count")},
    "nonsense": {"inputSchema": OBJECT},
    "junk": {"inputSchema": OBJECT},
    "environment": {"inputSchema": OBJECT},
    "leave_child": {"inputSchema": OBJECT},
    "change": {"inputSchema": OBJECT},
    "späť / drop": {"inputSchema": OBJECT},
    "x" * 90: {"inputSchema": OBJECT},
}
LATER = {"grown": {"inputSchema": numbers("size")}, "gone": {"inputSchema": OBJECT}}


class Server:
    """One server on the standard streams."""

    def __init__(self, options: argparse.Namespace) -> None:
        self.options = options
        self.log = open(options.log, "a", buffering=1)
        self.cancelled: dict[Any, threading.Event] = {}
        self.changed = False

    def serve(self) -> None:
        """Answer until stdin is closed."""
        for line in sys.stdin:
            message = json.loads(line)
            self.log.write(line)
            if self.options.junk:
                self.write_raw("[info] got a message\n\n{not json}\n")
            self.answer(message)

    def write_raw(self, text: str) -> None:
        with WRITING:
            sys.stdout.write(text)
            sys.stdout.flush()

    def write(self, **message: Any) -> None:
        self.write_raw(json.dumps({"jsonrpc": "2.0", **message}, ensure_ascii=False) + "\n")

    def answer(self, message: dict[str, Any]) -> None:
        method = message.get("method", "")
        if method == self.options.die_in:
            sys.stderr.write("giving up: no licence for 'token-0123456789'\n")
            sys.stderr.flush()
            os._exit(3)
        if method == self.options.hang_in:
            return
        match method:
            case "initialize":
                version = message["params"]["protocolVersion"]
                self.write(
                    id=message["id"],
                    result={
                        "protocolVersion": version,
                        "capabilities": {"tools": {"listChanged": True}},
                        "serverInfo": {"name": "scripted", "version": "1"},
                    },
                )
            case "tools/list":
                self.write(id=message["id"], result=self.page(message.get("params") or {}))
            case "tools/call":
                self.cancelled[message["id"]] = threading.Event()
                threading.Thread(target=self.call, args=[message], daemon=True).start()
            case "notifications/cancelled":
                self.cancelled[message["params"]["requestId"]].set()

    def page(self, params: dict[str, Any]) -> dict[str, Any]:
        if self.options.endless:
            number = int(params.get("cursor", 0))
            tool = {"name": f"t{number}", "inputSchema": OBJECT, "description": "x" * 10_000}
            return {"tools": [tool] * 20, "nextCursor": str(number + 1)}
        tools = dict(TOOLS)
        if self.changed:
            tools["grown"] = {"inputSchema": numbers("size", "depth")}
        elif self.options.old:
            tools |= LATER
        names = list(tools)
        start = int(params.get("cursor", 0))
        page: dict[str, Any] = {
            "tools": [
                {"name": name, "description": f"Do {name}.", **tools[name]}
                for name in names[start : start + 10]
            ]
        }
        if start + 10 < len(names):
            page["nextCursor"] = str(start + 10)
        return page

    def call(self, message: dict[str, Any]) -> None:
        """Execute a call in a thread of its own."""
        name, arguments = message["params"]["name"], message["params"].get("arguments") or {}
        method = getattr(self, f"do_{name}", None)
        result = method(message["id"], **arguments) if method else f"called {name}"
        if isinstance(result, str):
            result = {"content": [{"type": "text", "text": result}]}
        if not self.cancelled[message["id"]].is_set():
            kind = "error" if "code" in result else "result"
            self.write(id=message["id"], **{kind: result})

    def do_echo(self, _: Any, text: str) -> Any:
        return f"echo: {text}"

    def do_create_issue(self, _: Any, text: str) -> Any:
        return f"create_issue: {text}"

    def do_arguments(*_: Any, **arguments: Any) -> Any:
        return json.dumps(arguments)

    def do_add(self, _: Any, a: int, b: int) -> Any:
        return str(a + b)

    def do_sleep(self, call_id: Any, s: float) -> Any:
        self.cancelled[call_id].wait(s)
        return "slept"

    def do_die(self, _: Any) -> Any:
        os._exit(1)

    do_die_reading = do_die

    def do_refuse(self, _: Any) -> Any:
        return {"isError": True, "content": [{"type": "text", "text": "404 token-0123456789"}]}

    def do_rpc_error(self, _: Any) -> Any:
        return {"code": -32000, "message": "Connection closed by the moon"}

    def do_structured(self, _: Any) -> Any:
        return {"content": [], "structuredContent": {"n": 2512292042121000001, "x": 1.5}}

    def do_media(self, _: Any) -> Any:
        return {"content": MEDIA}

    def do_big(self, _: Any, size: int) -> Any:
        return "ä" + "x" * (size - 2)

    def do_blocks(self, _: Any, count: int) -> Any:
        return {"content": [{"type": "text", "text": "b"}] * count}

    def do_nonsense(self, _: Any) -> Any:
        return {"content": "text"}

    def do_junk(self, _: Any) -> Any:
        self.write_raw("noise\n" * 1000 + '{"jsonrpc": "2.0", "id": 99999, "result": {}}\n')
        return "and the answer"

    def do_environment(self, _: Any) -> Any:
        return json.dumps(dict(os.environ))

    def do_leave_child(self, _: Any) -> Any:
        child = subprocess.Popen(["sleep", "1000"])  # noqa: S607 - whichever there is
        return f"{os.getpid()} {child.pid}"

    def do_change(self, _: Any) -> Any:
        self.changed = True
        self.write(method="notifications/tools/list_changed")
        return "changed"


MEDIA = [
    {"type": "text", "text": "Look:"},
    {"type": "image", "data": "AAAA" * 1000, "mimeType": "image/png"},
    {"type": "audio", "data": "AAA=", "mimeType": "audio/wav"},
    {"type": "resource", "resource": {"uri": "file:///a", "text": "inside"}},
    {"type": "resource", "resource": {"uri": "file:///b", "blob": "AA==", "mimeType": "x/y"}},
    {"type": "resource_link", "name": "c", "uri": "file:///c"},
]


def flood() -> None:
    """Write without ever ending a line."""
    noise = b"x" * 65536
    for stream in (1, 2):
        threading.Thread(
            target=lambda fd=stream: [os.write(fd, noise) for _ in range(4000)], daemon=True
        ).start()


def main() -> None:
    options = OPTIONS.parse_args()
    if options.stay:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if options.flood:
        flood()
    Server(options).serve()
    while options.stay:
        signal.pause()


if __name__ == "__main__":
    main()
