"""The short form of the chaos: real processes, real faults, and only invariants."""

import asyncio
import json
import os
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SEED = 20260
"""Fixed, so that a change that breaks a promise is found by whoever makes it. `make chaos`
takes new ones."""


@pytest.mark.timeout(600)
async def test_runs_keep_their_promises_in_chaos(tmp_path: Path) -> None:
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", "tests.chaos", "--quick", "--json"),
        *("--seed", str(SEED), "--folder", str(tmp_path)),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        cwd=ROOT,
        env=os.environ | {"PYTHONPATH": str(ROOT)},
    )
    try:
        out, said = await process.communicate()
    finally:
        if process.returncode is None:
            process.terminate()
            await process.wait()
    assert out, said.decode()
    told = json.loads(out)
    assert told["violations"] == []
    assert process.returncode == 0
    assert told["runs"]["by_status"] == {"completed": told["runs"]["planned"]}
    faults = told["faults"]
    assert [kind for kind, n in faults.items() if not n["happened"] + n["forestalled"]] == []
