"""`python -m tests.chaos`: execute a plan of faults, check the invariants, print a table."""

import argparse
import asyncio
import random
import shutil
import signal
import sys
import tempfile
from dataclasses import asdict, replace
from pathlib import Path

from rich.console import Console
from temporalio.runtime import LoggingConfig, Runtime, TelemetryConfig, TelemetryFilter

from perdure.engine.connect import leave
from tests.chaos import report
from tests.chaos.evidence import Evidence
from tests.chaos.invariants import violations
from tests.chaos.plan import QUICK, Plan, Size, planned
from tests.chaos.stage import Stage


async def _interruptible(plan: Plan, folder: Path) -> Evidence:
    # Being asked to stop must not leave a server and workers behind; Ctrl-C does not.
    work = asyncio.ensure_future(Stage(plan, folder, _say).execute())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, work.cancel)
    return await work


def _silence_retries() -> None:
    """Let the SDK not log each call that a restarting server makes it repeat."""
    logging = LoggingConfig(TelemetryFilter(core_level="ERROR", other_level="ERROR"))
    Runtime.set_default(Runtime(telemetry=TelemetryConfig(logging=logging)))


def _say(line: str) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\r\x1b[Kchaos: {line} …")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK.runs} Runs, two minutes")
    parser.add_argument("--seed", type=int, help="of the plan; a new one by default")
    parser.add_argument("--runs", type=int, help="how many Runs")
    parser.add_argument("--steps", type=int, help="Steps of each Run")
    parser.add_argument("--rate", type=float, help="Runs started a second")
    parser.add_argument("--workers", type=int, help="worker processes")
    parser.add_argument("--kills", type=int, help="kills by time, beside those at named points")
    parser.add_argument("--stops", type=int, help="workers stopped for longer than a heartbeat")
    parser.add_argument("--restarts", type=int, help="kills of the Temporal server")
    parser.add_argument("--plan", action="store_true", help="only print the plan")
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parser.add_argument("--folder", type=Path, help="keep logs, ledger and database there")
    return parser.parse_args()


def _size(options: argparse.Namespace) -> Size:
    chosen = {
        name: value
        for name, value in vars(options).items()
        if value is not None and name in asdict(QUICK)
    }
    return replace(QUICK if options.quick else Size(), **chosen)


def main() -> None:
    """Execute, print, and leave with 1 when a promise was broken."""
    options = _options()
    seed = random.SystemRandom().randrange(10**6) if options.seed is None else options.seed
    plan = planned(seed, _size(options))
    console = Console(width=120, highlight=False, stderr=options.json)
    report.show_plan(plan, console)
    if options.plan:
        return
    folder = options.folder or Path(tempfile.mkdtemp(prefix="chaos-"))
    folder.mkdir(parents=True, exist_ok=True)
    _silence_retries()
    seen = asyncio.run(_interruptible(plan, folder))
    broken = violations(seen)
    told = report.figures(seen, broken)
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")
    report.show(told, console)
    if options.json:
        told["plan"] = [asdict(fault) for fault in plan.faults]
        sys.stdout.write(report.as_json(told) + "\n")
    if broken:
        console.print(f"Logs, ledger and database are kept in {folder}", markup=False)
    elif options.folder is None:
        shutil.rmtree(folder)
    leave(1 if broken else 0)


if __name__ == "__main__":
    main()
