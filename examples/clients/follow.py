"""Start a Run over HTTP and print what its agent says, whatever happens to the connection.

pip install httpx httpx-sse
PERDURE_URL=http://127.0.0.1:8080 PERDURE_API_KEY=… python follow.py assistant "What is 6 * 7?"
"""

import json
import os
import random
import sys
import time
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
from httpx_sse import connect_sse

URL = os.environ.get("PERDURE_URL", "http://127.0.0.1:8080")
KEY = os.environ.get("PERDURE_API_KEY", "")
EXIT_CODES = {"completed": 0, "failed": 1, "cancelled": 3, "timeout": 4}
NOT_NOW = (429, 502, 503, 504)


def pause(failures: int) -> None:
    """Wait before the next attempt: longer and longer, and not as long as everybody else."""
    time.sleep(random.uniform(0.1, min(0.5 * 2**failures, 10)))


def ask(client: httpx.Client, method: str, path: str, **sent: Any) -> dict[str, Any]:
    """Return the answer to a request, however often it has to be sent."""
    failures = 0
    while True:
        try:
            response = client.request(method, path, **sent)
            if response.status_code not in NOT_NOW:
                return dict(response.raise_for_status().json())
        except httpx.TransportError:
            pass
        pause(failures := failures + 1)


def events(client: httpx.Client, run_id: str) -> Iterator[dict[str, Any]]:
    """Yield what happens, each thing once; the last one has the Run as it ended, in `run`."""
    path, since, failures = f"/v1/runs/{run_id}", dict[str, str](), 0
    while True:
        try:
            with connect_sse(client, "GET", f"{path}/events", headers=dict(since)) as source:
                if source.response.status_code == 204:  # nothing follows what we have
                    yield {"type": "", "run": ask(client, "GET", path)}
                    return
                if source.response.status_code not in NOT_NOW:
                    source.response.raise_for_status()
                    failures = 0
                    for sse in filter(lambda sse: sse.data, source.iter_sse()):  # no comments
                        event, since["Last-Event-ID"] = json.loads(sse.data), sse.id
                        yield event
                        if (event.get("run") or {}).get("is_terminal"):
                            return
        except httpx.TransportError:
            pass
        pause(failures := failures + 1)


def show(event: dict[str, Any], drafts: dict[int, str]) -> None:
    """Print what is new. What a Step says is a draft until the Event comes that ends the Step."""
    step, reply = event.get("step", 0), event.get("reply") or {}
    match event["type"]:
        case "run.step.started" if event["kind"] == "model" and event["purpose"] != "compact":
            drafts[step] = ""
        case "run.output_text.delta":
            drafts[step] = drafts.get(step, "") + event["delta"]
            print(event["delta"], end="", flush=True)
        case "run.step.retrying" if drafts.get(step):
            drafts[step] = ""
            print("\n[void]")
        case "run.reset":  # what follows comes after the event's `run`
            drafts.clear()
            print("\n[void]")
        case "run.step.completed" | "run.step.failed" if step in drafts:
            draft, whole = drafts.pop(step), reply.get("text") or reply.get("refusal") or ""
            print(whole[len(draft) :] if whole.startswith(draft) else f"\n[void]\n{whole}")


def main(agent: str, text: str) -> int:
    """Start a Run and follow it to its end; return an exit code that tells which it was."""
    drafts, body = dict[int, str](), {"agent": agent, "input": text}
    once = {"Idempotency-Key": uuid.uuid4().hex}  # sent again, it starts no second Run
    headers = {"Authorization": f"Bearer {KEY}"} if KEY else {}
    with httpx.Client(base_url=URL, headers=headers, timeout=45) as client:  # 15 s may be silent
        run_id = ask(client, "POST", "/v1/runs", json=body, headers=once)["run_id"]
        print(f"Run {run_id}", file=sys.stderr)
        for event in events(client, run_id):
            show(event, drafts)
    print(event["run"]["error"] or event["run"]["status"], file=sys.stderr)
    return EXIT_CODES[event["run"]["status"]]


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:3]))
