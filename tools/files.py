"""Tools that list, read, search and, where asked for, write the files of one folder.

What keeps them in that folder is in `confined`; here is only what a model is offered.
"""

import os
import secrets
import stat
from itertools import accumulate
from pathlib import Path

from perdure.agents.tool import AnyTool, tool
from perdure.runs.errors import ErrorCode, ToolRefused
from perdure.tools.confined import Confined, entries
from perdure.tools.search import printable, search_tool

MAX_FILE_BYTES = 1024 * 1024
"""Larger files are neither read nor written."""
MAX_SHOWN_BYTES = 48 * 1024
"""Text of one answer; with its last line, less than what a model sees uncut."""
MAX_LISTED = 500
"""Names of one answer."""


def file_tools(folder: Path | str, *, write: bool = False, prefix: str = "") -> list[AnyTool]:
    """Return tools for the files below a folder; nothing outside it can be reached with them.

    Hidden files and links are left out, and refused with the code `path_denied`.

    Args:
        folder: The only folder that is touched.
        write: Add `write_file`, which can overwrite every visible file of the folder.
        prefix: Put before the tools' names, where a worker has such tools for several folders.

    Returns:
        The tools `list_files`, `read_file`, `search_files` and perhaps `write_file`.

    Raises:
        NotADirectoryError: `folder` is not a folder.
    """
    confined = Confined(folder)
    tools: list[AnyTool] = [
        _list_tool(confined, prefix),
        _read_tool(confined, prefix),
        search_tool(folder, prefix=prefix),
    ]
    return [*tools, _write_tool(confined, prefix)] if write else tools


def _list_tool(confined: Confined, prefix: str) -> AnyTool:
    @tool(name=f"{prefix}list_files", effect="read")
    def list_files(folder: str = ".") -> str:
        """List the files and folders in a folder.

        Args:
            folder: Relative to the top folder, such as "notes/2025"; "." is the top folder.

        Returns:
            One name a line, folders first and with a slash, files with their size in bytes.
        """
        with confined.folder(folder) as fd:
            files, folders = entries(fd)
            lines = [f"{printable(each.name)}/" for each in folders]
            lines += [
                f"{printable(each.name)} ({each.stat(follow_symlinks=False).st_size})"
                for each in files
            ]
        if len(lines) > MAX_LISTED:
            lines[MAX_LISTED:] = [f"({len(lines) - MAX_LISTED} more are not shown)"]
        return "\n".join(lines) or "(empty)"

    return list_files


def _read_tool(confined: Confined, prefix: str) -> AnyTool:
    @tool(name=f"{prefix}read_file", effect="read")
    def read_file(path: str, first_line: int = 1) -> str:
        """Read a text file.

        Args:
            path: Relative to the top folder, such as "notes/plan.md".
            first_line: Where to begin; more than 1 to go on in a file that was cut.

        Returns:
            The text. A last line in parentheses says if it is cut, and where to go on.
        """
        if first_line < 1:
            raise ValueError(f"first_line must be at least 1, not {first_line}.")
        data = confined.read(path, MAX_FILE_BYTES)
        if b"\0" in data:
            raise ValueError(f"{path!r} is not a text file.")
        return _from_line(data, first_line)

    return read_file


def _from_line(data: bytes, first_line: int) -> str:
    lines = data.split(b"\n")
    if first_line > len(lines):
        raise ValueError(f"The file has {len(lines)} lines.")
    rest = lines[first_line - 1 :]
    sizes = accumulate(len(line) + 1 for line in rest)
    fitting = sum(1 for size in sizes if size <= MAX_SHOWN_BYTES + 1)
    if fitting == len(rest):
        return b"\n".join(rest).decode(errors="replace")
    # One line that is longer than all that may be shown is cut itself.
    shown = rest[:fitting] or [rest[0][:MAX_SHOWN_BYTES]]
    text = b"\n".join(shown).decode(errors="replace")
    return f"{text}\n(cut; go on with first_line={first_line + len(shown)} of {len(lines)})"


def _write_tool(confined: Confined, prefix: str) -> AnyTool:
    # Keyed: a second execution writes the same again. Not `read`: when it is cut short, the
    # model is to hear that nobody knows whether the file is there.
    @tool(name=f"{prefix}write_file", effect="keyed")
    def write_file(path: str, text: str) -> str:
        """Write a text file, in place of what it held; folders that are missing are made.

        Args:
            path: Relative to the top folder, such as "notes/plan.md".
            text: All that the file will hold.

        Returns:
            How much was written.
        """
        data = text.encode()
        if len(data) > MAX_FILE_BYTES:
            raise ValueError(f"A file may have {MAX_FILE_BYTES} bytes, not {len(data)}.")
        with confined.parent(path, make=True) as (fd, name):
            _replace(fd, name, data)
        return f"{len(data)} bytes were written to {path!r}."

    return write_file


def _replace(folder: int, name: str, data: bytes) -> None:
    """Put a new file in the place of an old one, at once, without opening what is there."""
    mode = None
    try:
        mode = os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode
    except FileNotFoundError:
        pass
    if mode is not None and not stat.S_ISREG(mode):
        raise ToolRefused(
            f"{name!r} is refused: it is not a regular file.", code=ErrorCode.PATH_DENIED
        )
    new = f".{secrets.token_hex(8)}.new"
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(new, flags, 0o666, dir_fd=folder)
    try:
        with open(fd, "wb") as file:
            if mode is not None:
                os.fchmod(fd, stat.S_IMODE(mode) & 0o777)
            file.write(data)
            file.flush()
            os.fsync(fd)
        os.replace(new, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(new, dir_fd=folder)
        raise
