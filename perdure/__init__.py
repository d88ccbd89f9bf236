"""Perdure: durable agent Runs on Temporal.

Names are loaded on first use (PEP 562), so that `import perdure.runs`, the pure core, brings
neither Temporal nor a model client along.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from perdure.agents.agent import Agent
    from perdure.agents.approval import ProposedCall
    from perdure.agents.asking import ask_user
    from perdure.agents.context import ToolContext, ToolProgress, tool_context
    from perdure.agents.mcp import HttpServer, Secret, StdioServer
    from perdure.agents.profile import ModelProfile
    from perdure.agents.tool import Tool, tool
    from perdure.client.continuing import Fork
    from perdure.client.deciding import OpenAction
    from perdure.client.listing import RunFilter, RunSummary
    from perdure.client.manager import RunManager
    from perdure.client.sessions import SessionHandle
    from perdure.client.tree import RunTree
    from perdure.runs.actions import Action, Resolution
    from perdure.runs.errors import ErrorCode, PerdureError, RunError, SessionBusy
    from perdure.runs.events import Event
    from perdure.runs.files import FileRef
    from perdure.runs.given_file import File
    from perdure.runs.limits import Limits, Timeouts
    from perdure.runs.retries import RetryRule
    from perdure.runs.run import Run
    from perdure.runs.start import ContextBundle
    from perdure.runs.status import RunStatus, StopReason
    from perdure.runs.steps import Step, ToolCall
    from perdure.runs.usage import Usage
    from perdure.sessions.contract import SessionReport, StartedRun
    from perdure.sessions.parts import SessionSettings

_HOMES = {
    "Action": "perdure.runs.actions",
    "Agent": "perdure.agents.agent",
    "ContextBundle": "perdure.runs.start",
    "ErrorCode": "perdure.runs.errors",
    "Event": "perdure.runs.events",
    "File": "perdure.runs.given_file",
    "FileRef": "perdure.runs.files",
    "Fork": "perdure.client.continuing",
    "HttpServer": "perdure.agents.mcp",
    "Limits": "perdure.runs.limits",
    "ModelProfile": "perdure.agents.profile",
    "OpenAction": "perdure.client.deciding",
    "PerdureError": "perdure.runs.errors",
    "ProposedCall": "perdure.agents.approval",
    "Resolution": "perdure.runs.actions",
    "RetryRule": "perdure.runs.retries",
    "Run": "perdure.runs.run",
    "RunError": "perdure.runs.errors",
    "RunFilter": "perdure.client.listing",
    "RunManager": "perdure.client.manager",
    "RunStatus": "perdure.runs.status",
    "RunSummary": "perdure.client.listing",
    "RunTree": "perdure.client.tree",
    "Secret": "perdure.agents.mcp",
    "SessionBusy": "perdure.runs.errors",
    "SessionHandle": "perdure.client.sessions",
    "SessionReport": "perdure.sessions.contract",
    "SessionSettings": "perdure.sessions.parts",
    "StartedRun": "perdure.sessions.contract",
    "StdioServer": "perdure.agents.mcp",
    "Step": "perdure.runs.steps",
    "StopReason": "perdure.runs.status",
    "Timeouts": "perdure.runs.limits",
    "Tool": "perdure.agents.tool",
    "ToolCall": "perdure.runs.steps",
    "ToolContext": "perdure.agents.context",
    "ToolProgress": "perdure.agents.context",
    "Usage": "perdure.runs.usage",
    "ask_user": "perdure.agents.asking",
    "tool": "perdure.agents.tool",
    "tool_context": "perdure.agents.context",
}

__all__ = [
    "Action",
    "Agent",
    "ContextBundle",
    "ErrorCode",
    "Event",
    "File",
    "FileRef",
    "Fork",
    "HttpServer",
    "Limits",
    "ModelProfile",
    "OpenAction",
    "PerdureError",
    "ProposedCall",
    "Resolution",
    "RetryRule",
    "Run",
    "RunError",
    "RunFilter",
    "RunManager",
    "RunStatus",
    "RunSummary",
    "RunTree",
    "Secret",
    "SessionBusy",
    "SessionHandle",
    "SessionReport",
    "SessionSettings",
    "StartedRun",
    "StdioServer",
    "Step",
    "StopReason",
    "Timeouts",
    "Tool",
    "ToolCall",
    "ToolContext",
    "ToolProgress",
    "Usage",
    "ask_user",
    "tool",
    "tool_context",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'perdure' has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)
