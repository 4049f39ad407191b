"""What does an X-ray cost, in seconds, memory and megabytes of its page?

    python benchmarks/xray_cost.py RUN

RUN is a folder that `unspool train` made; that of `make demo` is the one to compare by. The second line is the gradient
flow of two layers of 256 over 1,000 steps of 8 rows: recording, the gradient at every step, and its parts by distance.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import tempfile
import time
from pathlib import Path

import torch

import unspool
from unspool.insight.measures.flow import measure_flow
from unspool.insight.recording import record
from unspool.insight.subjects.module import project


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("run", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    asked = options.parse_args()
    times = []
    for _ in range(asked.rounds):
        begun = time.perf_counter()
        report = unspool.xray(asked.run)
        times.append(time.perf_counter() - begun)
    with tempfile.TemporaryDirectory() as folder:
        size = report.save(Path(folder) / "x.html").stat().st_size
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    print(f"X-ray of {asked.run}: {statistics.median(times):.1f} s, {memory:.2f} GiB at the peak, {size / 1e6:.2f} MB")

    torch.manual_seed(0)
    model, x = torch.nn.LSTM(64, 256, num_layers=2), torch.randn(1000, 8, 64)
    times = []
    for _ in range(asked.rounds):
        begun = time.perf_counter()
        measure_flow(record(model, lambda model: project(model(x))), limit=128)
        times.append(time.perf_counter() - begun)
    print(f"gradient flow, 1,000 steps, 2 layers of 256, 8 rows: {statistics.median(times):.2f} s")


if __name__ == "__main__":
    main()
