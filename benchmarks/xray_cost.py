"""What does an X-ray cost, in seconds per measure, in memory and in megabytes of its page?

    python benchmarks/xray_cost.py                       every case, each in a process of its own
    python benchmarks/xray_cost.py long wide --busy 2    two cases, beside two processes that keep the cores busy
    python benchmarks/xray_cost.py demo --run runs/demo  the run of `make demo`; without one, a run is trained first

Seconds are given as they pass, and as CPU time, which says more about a machine that other work shares.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch

import unspool
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.examination import examine
from unspool.insight.measure import Measure
from unspool.insight.specimen import Specimen
from unspool.insight.subjects.module import take_model
from unspool.insight.subjects.run import take_run
from unspool.lab.data import python_reference

#: Training time of the demo's run where none is given, in minutes.
MINUTES = 1.0


@dataclass(frozen=True)
class Case:
    """A model and its data.

    Attributes:
        about: what it is.
        seconds: that an X-ray of it may take on a quiet machine with two cores.
        gibibytes: of memory that it may take; None for no limit.
        sizes: steps, sequences, inputs, units and layers of an LSTM; None for the demo's run.
    """

    about: str
    seconds: float
    gibibytes: float | None = None
    sizes: tuple[int, int, int, int, int] | None = None


CASES = {
    "demo": Case("the run of `make demo`: LSTM of 256, 8 sequences of 192 characters", 10),
    "long": Case("LSTM of 128, 4 sequences of 5,000 steps", 40, sizes=(5000, 4, 32, 128, 1)),
    "wide": Case("LSTM of 1,024, 4 sequences of 128 steps", 40, sizes=(128, 4, 64, 1024, 1)),
    "deep": Case("two LSTM layers of 512, 4 sequences of 512 steps", 60, 2.0, sizes=(512, 4, 64, 512, 2)),
}


@dataclass(frozen=True)
class Cost:
    """What one X-ray took."""

    case: str
    seconds: float
    cpu: float
    gibibytes: float  # at the peak, of the whole process
    megabytes: float  # of the page
    measures: dict[str, tuple[float, float]]  # by key, seconds and CPU seconds


def measure_cost(name: str, run: Path | None = None, only: Sequence[str] = (), steps: int | None = None) -> Cost:
    """X-ray one case in this process.

    Args:
        name: of the case.
        run: the folder of the demo's run.
        only: keys of the measures to take; all if empty.
        steps: in place of the case's own number of steps.

    Returns:
        Its cost. Recording and verdicts are part of the whole, but of no measure.
    """
    model = _make(name, steps)
    taken: dict[str, tuple[float, float]] = {}
    begun = time.perf_counter(), time.process_time()
    specimen = _take(model, run)
    report = examine(specimen, only=only or None, measures=[_timed(one, taken) for one in CATALOGUE])
    seconds, cpu = time.perf_counter() - begun[0], time.process_time() - begun[1]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    with tempfile.TemporaryDirectory() as folder:
        page = report.save(Path(folder) / "x.html").stat().st_size / 1e6
    return Cost(name, seconds, cpu, peak, page, taken)


def _take(model: tuple[torch.nn.Module, torch.Tensor] | None, run: Path | None) -> Specimen:
    """Record a model; without one, the demo's run."""
    if model is not None:
        return take_model(*model)
    if run is None:
        raise SystemExit("The demo's run is needed: --run FOLDER")
    return take_run(run)


def _make(name: str, steps: int | None) -> tuple[torch.nn.Module, torch.Tensor] | None:
    """The model and the batch of a case; None for the demo's run."""
    sizes = CASES[name].sizes
    if sizes is None:
        return None
    torch.manual_seed(0)
    own, rows, width, hidden, layers = sizes
    return torch.nn.LSTM(width, hidden, num_layers=layers), torch.randn(steps or own, rows, width)


def _timed(measure: Measure[Any], into: dict[str, tuple[float, float]]) -> Measure[Any]:
    """A measure that notes how long it takes."""

    def timed(specimen: Specimen) -> Any:
        begun = time.perf_counter(), time.process_time()
        try:
            return measure.measure(specimen)
        finally:
            into[measure.key] = time.perf_counter() - begun[0], time.process_time() - begun[1]

    return replace(measure, measure=timed)


@contextmanager
def busy_processes(count: int) -> Iterator[None]:
    """Within, so many processes keep cores busy."""
    made = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for one in made:
            one.kill()
            one.wait()


def make_run(folder: Path) -> Path:
    """A run with the demo's settings."""
    text = folder / "python-reference.txt"
    text.write_text(python_reference())
    options: dict[str, Any] = {"hidden": 256, "lr": 4e-3, "batch_size": 32, "bptt": 64, "minutes": MINUTES}
    unspool.train(str(text), out=folder / "demo", quiet=True, **options)
    return folder / "demo"


def tell(cost: Cost) -> str:
    """The table of one case, the most expensive measures first."""
    case = CASES[cost.case]
    lines = [
        f"{cost.case}: {case.about}",
        f"  {cost.seconds:.1f} s (of {case.seconds:.0f}), {cost.cpu:.1f} s of CPU, {cost.gibibytes:.2f} GiB at the peak"
        + (f" (of {case.gibibytes:.0f})" if case.gibibytes else "")
        + f", {cost.megabytes:.2f} MB",
    ]
    order = sorted(cost.measures, key=lambda key: -cost.measures[key][1])
    lines += [f"  {key:<16} {cost.measures[key][0]:7.2f} s {cost.measures[key][1]:7.2f} s of CPU" for key in order]
    return "\n".join(lines)


def _run_apart(name: str, asked: argparse.Namespace) -> Cost:
    """One case in a process of its own, so that its peak of memory is its own."""
    given = ["--alone", *(["--run", str(asked.run)] if asked.run else [])]
    given += [*(["--only", *asked.only] if asked.only else []), *(["--steps", str(asked.steps)] if asked.steps else [])]
    made = subprocess.run([sys.executable, __file__, name, *given], check=True, stdout=subprocess.PIPE, text=True)
    return Cost(**json.loads(made.stdout.splitlines()[-1]))


def _parse() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("cases", nargs="*", metavar="CASE", help=f"of {', '.join(CASES)}; default: all")
    options.add_argument("--run", type=Path, help="the folder of the demo's run")
    options.add_argument("--busy", type=int, default=0, help="processes that keep cores busy meanwhile")
    options.add_argument("--only", nargs="+", default=[], help="keys of the measures to take")
    options.add_argument("--steps", type=int, help="in place of the cases' own number of steps")
    options.add_argument("--alone", action="store_true", help="one case in this process, as JSON")
    asked = options.parse_args()
    if unknown := sorted(set(asked.cases) - set(CASES)):
        options.error(f"no such case: {', '.join(unknown)}. Choose from {', '.join(CASES)}")
    return asked


def main() -> None:
    asked = _parse()
    if asked.alone:
        print(json.dumps(vars(measure_cost(asked.cases[0], asked.run, asked.only, asked.steps))))
        return
    names = asked.cases or list(CASES)
    with tempfile.TemporaryDirectory() as folder:
        if "demo" in names and asked.run is None:
            asked.run = make_run(Path(folder))
        with busy_processes(asked.busy):
            for name in names:
                print(tell(_run_apart(name, asked)), flush=True)


if __name__ == "__main__":
    main()
