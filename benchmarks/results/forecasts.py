"""Do recurrent forecasts beat the naive ones, and do their intervals hold what they promise?

    python benchmarks/results/forecasts.py --out runs/forecasts

Two series that statsmodels brings along: yearly sunspots (1700 to 2008) and monthly means of carbon dioxide at Mauna
Loa (1958 to 2001; months without a measurement lie on the line between their neighbours). The last fifth of each is
test data, the fifth before it validation data, by which the best weights are chosen. Every step of a part is once the
origin of a forecast. The interval is from the 0.1 to the 0.9 quantile.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from statsmodels.datasets import co2, sunspots

import unspool
from unspool.tasks.forecast import Forecasting

SETTINGS: Mapping[str, dict[str, Any]] = {
    "sunspots": {"horizon": 5, "relative_to": "last", "dropout": 0.2},
    "co2": {"horizon": 12},
}
FIGURES = ("MASE", "RMSE", "MAE", "pinball", "coverage")


def write_series(folder: Path) -> dict[str, Path]:
    """The series as tables."""
    spots = sunspots.load_pandas().data.astype({"YEAR": int})
    months = co2.load_pandas().data["co2"].resample("MS").mean().interpolate()
    paths = {name: folder / f"{name}.csv" for name in SETTINGS}
    spots.to_csv(paths["sunspots"], index=False, header=["year", "spots"])
    months.to_csv(paths["co2"], index_label="month", date_format="%Y-%m")
    return paths


def line(title: str, found: Mapping[str, float]) -> str:
    """A row of a table."""
    cells = [f"{found[name]:.3f}" if name in found else "" for name in FIGURES]
    return f"| {title} | {' | '.join(cells)} |"


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--out", type=Path, default=Path("runs/forecasts"))
    options.add_argument("--seed", type=int, default=0)
    asked = options.parse_args()
    torch.set_num_threads(1)
    print(f"python {' '.join(sys.argv)}, seed {asked.seed}")
    with tempfile.TemporaryDirectory() as folder:
        for name, path in write_series(Path(folder)).items():
            given = {"validation": 0.2, "test": 0.2, "seed": asked.seed, **SETTINGS[name]}
            run = unspool.train(path, out=asked.out / name, overwrite=True, task="forecast", **given)
            assert isinstance(run.task, Forecasting)
            finished = run.finished
            print(f"\n{name}: {finished.step} updates in {finished.seconds:.0f} s; {run.task.describe()['forecast']}\n")
            print(f"| | {' | '.join(FIGURES)} |\n{'|---' * (len(FIGURES) + 1)}|")
            print(line("validation: model", finished.validation))
            for baseline, found in finished.baselines.items():
                print(line(f"validation: {baseline}", found))
            print(line("**test: model**", finished.test))
            for baseline, found in run.task.baselines("test").items():
                print(line(f"test: {baseline}", found))


if __name__ == "__main__":
    main()
