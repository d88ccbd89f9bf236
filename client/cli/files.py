"""Files on the command line: `--file`, and the command `files`."""

from collections.abc import Sequence
from pathlib import Path

import typer
from rich.table import Table
from rich.text import Text

from perdure.client.cli.session import err, out, print_json
from perdure.client.cli.words import short, visible
from perdure.client.files import RunFile, content, files_of, save
from perdure.client.manager import RunManager
from perdure.engine.settings import Settings
from perdure.runs.files import FileRef
from perdure.runs.given_file import File
from perdure.runs.run import Run

FILE_OPTION = typer.Option("--file", help="A file to go with it, or an image's URL; repeatable.")


def read_files(given: Sequence[str] | None) -> tuple[File, ...]:
    """Return what stands behind `--file`.

    Raises:
        InvalidRequest: When one can't be read, or not be used.
    """
    return tuple(
        File.from_url(each) if each.startswith(("http://", "https://")) else File.from_path(each)
        for each in given or ()
    )


async def files(settings: Settings, run_id: str, folder: Path | None, *, as_json: bool) -> int:
    """List the files of a Run, and write them into a folder where one is given."""
    manager = await RunManager.connect(settings)
    found = await manager.files(run_id)
    if as_json:
        for each in found:
            print_json(each.model_copy(update={"file": without_content(each.file)}))
    elif folder is None:
        out.print(files_table(found) if found else "No files.")
    for each in found if folder is not None else ():
        if each.file.url is not None:
            err.print(Text(f"Not saved, it is at {each.file.url}", style="dim"))
            continue
        path = save(await content(manager.client, each.file), folder or Path())
        (err if as_json else out).print(Text(str(path)), soft_wrap=True)
    return 0


def without_content(file: FileRef) -> FileRef:
    """Return what a file is, without what is in it."""
    return file.model_copy(update={"data": None})


def files_table(found: Sequence[RunFile]) -> Table:
    """Return files, one a row."""
    table = Table(box=None, pad_edge=False)
    for title in ("FILE", "FROM", "NAME", "TYPE", "BYTES"):
        table.add_column(title, justify="right" if title in ("FILE", "BYTES") else "left")
    for each in found:
        size = f"{each.file.bytes:,}" if each.file.url is None else ""
        name, kind = Text(short(each.file.name)), Text(visible(each.file.media_type))
        table.add_row(str(each.number), Text(visible(each.source)), name, kind, size)
    return table


def files_lines(run: Run) -> list[Text]:
    """Return a line for each file of a Run, for its view."""
    return [
        Text(f"file {each.number} from {visible(each.source)}: {short(each.file.described)}", "dim")
        for each in files_of(run)
    ]
