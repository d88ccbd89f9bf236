"""What the error codes mean that a tool call can end with; the model is told them, too."""

from typing import Literal

from perdure.runs.codes import ErrorCode

Retried = Literal["by us", "no"]

OF_TOOL_CALLS: dict[ErrorCode, tuple[str, Retried, str]] = {
    ErrorCode.TOOL_NOT_FOUND: (
        "The model called a tool that the agent does not have.",
        "no",
        "Nothing: the model was told the names there are.",
    ),
    ErrorCode.TOOL_ARGUMENTS_INVALID: (
        "The model called a tool with arguments that do not fit its schema.",
        "no",
        "Nothing: the model was told what is wrong.",
    ),
    ErrorCode.TOOL_FAILED: (
        "The tool raised an error.",
        "no",
        "Mend the tool; the model was told.",
    ),
    ErrorCode.TOOL_TIMEOUT: (
        "The tool took longer than its limit.",
        "no",
        "Raise the tool's timeout, or make it faster.",
    ),
    ErrorCode.RESULT_NOT_SERIALISABLE: (
        "The tool returned something that JSON can't hold.",
        "no",
        "Return text, a pydantic model or plain JSON types.",
    ),
    ErrorCode.RESULT_TOO_LARGE: (
        "The tool returned more than 64 MiB of text.",
        "no",
        "Let the tool return less, or a reference to where it put the rest.",
    ),
    ErrorCode.OUTCOME_UNKNOWN: (
        "A tool that must not run twice was stopped, or lost, while it was running.",
        "no",
        "Check by hand whether the effect happened.",
    ),
    ErrorCode.ACTION_REJECTED: (
        "A person said no to a tool call, or would not answer.",
        "no",
        "The model reads why; the action says who.",
    ),
    ErrorCode.ACTION_EXPIRED: (
        "Nobody decided in time about a tool call, so it was not executed.",
        "no",
        "Decide sooner, or raise the timeout `action_s`; `perdure approvals` lists what waits.",
    ),
    ErrorCode.APPROVAL_MISSING: (
        "A worker refused to execute a tool call that no person had approved as it stands.",
        "no",
        "Run the same version of the agents on all workers; approve the call when it is asked for.",
    ),
    ErrorCode.AGENT_FAILED: (
        "The Run of an agent that was called as a tool did not complete.",
        "no",
        "Look at that Run: `perdure get --tree` shows it.",
    ),
    ErrorCode.WORKER_BUSY: (
        "The tool was not run: too many sync tools of this worker were stopped and do not end.",
        "no",
        "Restart the worker; let long sync tools look at `ToolContext.cancelled`.",
    ),
    ErrorCode.PATH_DENIED: (
        "The model named a file outside the folder that the tool is confined to, or a link.",
        "no",
        "Nothing: no such file was touched, and the model was told.",
    ),
    ErrorCode.URL_DENIED: (
        "The model named, or was redirected to, an address that the tool does not connect to.",
        "no",
        "Nothing: no connection was made, and the model was told.",
    ),
    ErrorCode.QUERY_DENIED: (
        "The model wrote something other than one statement that reads.",
        "no",
        "Nothing: nothing was changed, and the model was told.",
    ),
    ErrorCode.MCP_CONNECTION_LOST: (
        "The connection to an MCP server broke while it executed a tool.",
        "by us",
        "Look at the server's log; only tools that may run twice are tried again.",
    ),
    ErrorCode.MCP_UNAVAILABLE: (
        "An MCP server of the agent could not be started or reached.",
        "by us",
        "The message says why; see docs/mcp.md.",
    ),
}
