"""Are several processes worth it? Updates a second of one process and of two, and a model of N machines.

    python benchmarks/processes.py
    python benchmarks/processes.py --hidden 512 --rows 128 --picture docs/images/scale.svg

Measures an update of a character model in one process with all cores, with half of the rows, and in two processes that
divide the cores and the rows, in turns; and the sum of gradients between two processes of this machine, of two sizes,
which gives latency and bandwidth. `unspool.learning.scaling` predicts from these what two processes take, which is
compared with what they took, and what N machines with usual connections would.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from limits import bounded
from torch import distributed, nn

import unspool.nn
from unspool.learning import linear_cross_entropy
from unspool.learning.scaling import ETHERNET_1G, ETHERNET_10G, ETHERNET_100G, UpdateCost

TOKENS, STEPS = 65, 64
#: Bytes of two messages whose times give latency and bandwidth.
SMALL, LARGE = 4096, 16_000_000
COUNTS = (1, 2, 4, 8, 16, 32, 64, 128, 256)
#: Minutes that one of the measurements may take, and seconds that it usually does.
LIMIT, USUAL = 10, 15
#: Of the picture, in pixels.
WIDTH, HEIGHT, MARGIN = 900, 480, 60
COLORS = ("#4477aa", "#ee6677", "#228833")
LINKS = {"1 Gbit/s": ETHERNET_1G, "10 Gbit/s": ETHERNET_10G, "100 Gbit/s": ETHERNET_100G}


class Model(nn.Module):
    """Tokens (time, batch) → the loss of predicting the next."""

    def __init__(self, hidden: int, layers: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(TOKENS, hidden)
        self.lstm = unspool.nn.LSTM(hidden, hidden, layers)
        self.head = nn.Linear(hidden, TOKENS)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        output = self.lstm(self.embedding(ids[:-1]))[0]
        return linear_cross_entropy(output, self.head.weight, self.head.bias, ids[1:])


def median_seconds(call: Any, times: int) -> float:
    """Of a call, after two that warm up."""
    found = []
    for place in range(times + 2):
        begun = time.perf_counter()
        call()
        if place >= 2:
            found.append(time.perf_counter() - begun)
    return statistics.median(found)


def work(asked: argparse.Namespace) -> dict[str, float]:
    """What one process measures: updates, and, where there are two, sums of tensors."""
    together = "RANK" in os.environ
    if together:
        distributed.init_process_group("gloo")
    torch.manual_seed(0)
    model = Model(asked.hidden, asked.layers)
    size = sum(each.numel() * each.element_size() for each in model.parameters())
    trained: nn.Module = nn.parallel.DistributedDataParallel(model) if together else model
    rule = torch.optim.Adam(model.parameters(), fused=True)
    ids = torch.randint(TOKENS, (STEPS + 1, asked.rows))

    def update() -> None:
        rule.zero_grad()
        trained(ids).backward()
        rule.step()

    found = {"update": median_seconds(update, asked.updates), "size": float(size)}
    for name, count in (("small", SMALL), ("large", LARGE)) if together else ():
        message = torch.zeros(count // 4)
        found[name] = median_seconds(lambda message=message: distributed.all_reduce(message), asked.updates)
    if together:
        distributed.destroy_process_group()
    return found


def start(asked: argparse.Namespace, rows: int, processes: int, threads: int) -> dict[str, float]:
    """Run `work` in fresh processes; what the first of them found."""
    sizes = ["--hidden", asked.hidden, "--layers", asked.layers, "--rows", rows // processes]
    command = [sys.executable, __file__, "--work", *map(str, sizes), "--updates", str(asked.updates)]
    environment = os.environ | {"OMP_NUM_THREADS": str(threads)}
    own = {"WORLD_SIZE": str(processes), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(find_port())}
    running: list[subprocess.Popen[bytes]] = []
    with tempfile.TemporaryDirectory() as folder, bounded(f"{processes} processes with {rows} rows", LIMIT):
        try:
            for rank in range(processes):
                with (Path(folder) / str(rank)).open("w") as out:
                    given = environment | (own | {"RANK": str(rank)} if processes > 1 else {})
                    running.append(subprocess.Popen(command, env=given, stdout=out))
            if any(process.wait() for process in running):
                raise SystemExit("a process failed; it has said why above")
            found: dict[str, float] = json.loads((Path(folder) / "0").read_text())
        finally:
            for process in running:
                process.kill()
    return found


def find_port() -> int:
    """A port of this machine that nobody uses."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def measure(asked: argparse.Namespace) -> tuple[UpdateCost, Mapping[str, float]]:
    """The cost of an update with this machine's connection to itself, and the measured seconds."""
    cores = os.cpu_count() or 1
    contestants = {
        "one": (asked.rows, 1, cores),
        "one, half of the cores": (asked.rows, 1, max(1, cores // 2)),
        "one, half of the cores and rows": (asked.rows // 2, 1, max(1, cores // 2)),
        "two": (asked.rows, 2, max(1, cores // 2)),
    }
    found: dict[str, list[float]] = {name: [] for name in contestants}
    sums: dict[str, list[float]] = {"small": [], "large": [], "size": []}
    for turn in range(asked.rounds):
        for name, (rows, processes, threads) in contestants.items():
            told = start(asked, rows, processes, threads)
            found[name].append(told["update"])
            print(f"round {turn + 1} of {asked.rounds}, {name}: {told['update'] * 1e3:.2f} ms", flush=True)
            for kind in sums:
                sums[kind] += [told[kind]] if kind in told else []
    seconds = {name: statistics.median(each) for name, each in found.items()}
    small, large = statistics.median(sums["small"]), statistics.median(sums["large"])
    bandwidth = (LARGE - SMALL) / max(large - small, 1e-9)  # between two, each sends as much as a message has
    half = (asked.rows // 2, seconds["one, half of the cores and rows"])
    whole = (asked.rows, seconds["one, half of the cores"])
    return UpdateCost.fit(half, whole, int(sums["size"][0]), (small / 2, bandwidth)), seconds


def tell(cost: UpdateCost, seconds: Mapping[str, float]) -> None:
    """The findings."""
    for name, value in seconds.items():
        print(f"{name:32} {value * 1e3:8.2f} ms an update, {1 / value:8.1f} updates/s")
    print(f"gradients {cost.size / 1e6:.2f} MB; {cost.latency * 1e6:.0f} µs and {cost.bandwidth / 1e9:.2f} GB/s here")
    predicted = cost.seconds(2)
    print(f"two processes: {predicted * 1e3:.2f} ms predicted, {predicted / seconds['two'] - 1:+.0%} of the measured")
    print(f"efficiency of two processes against one with all cores: {seconds['one'] / seconds['two']:.2f}")
    print("\n| machines | " + " | ".join(LINKS) + " |\n|" + "---|" * (len(LINKS) + 1))
    costs = {name: of_machines(cost, seconds, link) for name, link in LINKS.items()}
    for count in COUNTS:
        print(f"| {count} | " + " | ".join(f"{1 / one.seconds(count):,.1f}" for one in costs.values()) + " |")
    for name, one in costs.items():
        print(f"{name}: faster than one from {one.break_even()} machines on, fastest with {one.best()}")


def of_machines(cost: UpdateCost, seconds: Mapping[str, float], link: tuple[float, float]) -> UpdateCost:
    """The cost on machines like this one, each with all its cores, and this connection."""
    faster = seconds["one"] / seconds["one, half of the cores"]
    latency, bandwidth = link
    return replace(cost, fixed=cost.fixed * faster, row=cost.row * faster, latency=latency, bandwidth=bandwidth)


def draw(cost: UpdateCost, seconds: Mapping[str, float]) -> str:
    """Updates per second over the machines, with the break-even marked, as SVG."""
    costs = {name: of_machines(cost, seconds, link) for name, link in LINKS.items()}
    every = range(1, COUNTS[-1] + 1)
    most = max(1 / one.seconds(count) for one in costs.values() for count in every)

    def across(count: int) -> float:
        return MARGIN + (WIDTH - 2 * MARGIN) * math.log2(count) / math.log2(COUNTS[-1])

    def up(rate: float) -> float:
        return HEIGHT - MARGIN - (HEIGHT - 2 * MARGIN) * rate / most

    parts = [text(WIDTH / 2, HEIGHT - 15, "machines"), text(MARGIN + 40, 30, "updates per second")]
    parts += [text(across(count), HEIGHT - MARGIN + 20, str(count)) for count in COUNTS]
    parts += [text(30, up(part * most / 4) + 4, f"{part * most / 4:.0f}") for part in range(5)]
    alone = up(1 / next(iter(costs.values())).seconds(1))
    parts.append(f'<path d="M{MARGIN} {alone:.1f}H{WIDTH - MARGIN}" stroke="gray" stroke-dasharray="4"/>')
    for place, ((name, one), color) in enumerate(zip(costs.items(), COLORS, strict=True)):
        line = " ".join(f"{across(count):.1f},{up(1 / one.seconds(count)):.1f}" for count in every)
        parts.append(f'<polyline points="{line}" fill="none" stroke="{color}" stroke-width="2"/>')
        parts.append(text(MARGIN + 110, 60 + 20 * place, f"{name}, faster than one from {one.break_even()} on", color))
        if count := one.break_even():
            parts.append(
                f'<circle cx="{across(count):.1f}" cy="{up(1 / one.seconds(count)):.1f}" r="6" fill="{color}"/>'
            )
    opening = f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH}" height="{HEIGHT}" font-family="sans-serif">'
    return "\n".join([opening, '<rect width="100%" height="100%" fill="white"/>', *parts, "</svg>\n"])


def text(x: float, y: float, words: str, color: str = "black") -> str:
    """Words in a picture, centered at a place."""
    return f'<text x="{x:.0f}" y="{y:.0f}" font-size="13" text-anchor="middle" fill="{color}">{words}</text>'


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hidden", type=int, default=256)
    options.add_argument("--layers", type=int, default=1)
    options.add_argument("--rows", type=int, default=64, help="of a batch, over all processes")
    options.add_argument("--updates", type=int, default=30)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--picture", type=Path, help="write the curves for 1 to 256 machines there, as SVG")
    options.add_argument("--work", action="store_true", help=argparse.SUPPRESS)
    asked = options.parse_args()
    if asked.work:
        print(json.dumps(work(asked)), flush=True)
        os._exit(0)  # torch's threads may abort a process that takes itself down
    starts = 4 * asked.rounds
    print(f"{starts} measurements, of some {USUAL} s each: about {-(-starts * USUAL // 60)} minutes", flush=True)
    cost, seconds = measure(asked)
    tell(cost, seconds)
    if asked.picture:
        asked.picture.write_text(draw(cost, seconds), encoding="utf-8")
        print(f"{asked.picture} has the picture")


if __name__ == "__main__":
    main()
