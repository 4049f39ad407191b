"""A word model on wikitext-2 against a plain torch script: words a second, and memory at the peak.

    python benchmarks/word_model.py train.txt

Both train Zaremba's small model (2 × 200, 20 rows, 20 steps, plain descent, clipped at 5) on the same words; the plain
script is what people write: torch.nn.LSTM, a Linear, cross_entropy of all logits, clip_grad_norm_, SGD. Each turn is a
fresh process, the contestants alternate, and ratios are of medians. Memory is the peak of resident memory above
what was there when the data was ready and the model was not.
"""

from __future__ import annotations

import argparse
import json
import re
import statistics
import subprocess
import sys
import time
from pathlib import Path

import torch
from torch import nn

from unspool.data.batches import Windows
from unspool.learning.loop import Loop
from unspool.learning.stopping import Stop
from unspool.models.catalogue import make_learner
from unspool.runs.progress import silent
from unspool.runs.train import plan
from unspool.tasks.lm import LanguageModelling

ROWS, STEPS, WIDTH = 20, 20, 200


def memory(kind: str) -> int:
    """Resident memory in bytes: now (VmRSS), or at its peak since it was last forgotten (VmHWM)."""
    found = re.search(rf"{kind}:\s+(\d+)", Path("/proc/self/status").read_text())
    assert found is not None
    return 1024 * int(found[1])


def forget_peak() -> int:
    """Begin to watch the peak anew; returns the memory now."""
    Path("/proc/self/clear_refs").write_text("5")
    return memory("VmRSS")


def ours(text: Path, updates: int) -> tuple[float, int]:
    """Seconds an update, and memory."""
    config = plan(text, recipe="zaremba-small")
    task = config.task.prepare(config.data, 0)
    before = forget_peak()
    loop = Loop(task, make_learner(task, config.model), config.training, None, silent, Stop())
    times = []
    for _ in range(updates):
        begun = time.perf_counter()
        loop.try_lr(1.0)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[2:]), memory("VmHWM") - before


class Plain(nn.Module):
    """The model of a plain script."""

    def __init__(self, words: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(words, WIDTH)
        self.lstm = nn.LSTM(WIDTH, WIDTH, 2)
        self.head = nn.Linear(WIDTH, words)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)


def plain(text: Path, updates: int) -> tuple[float, int]:
    """The same of a plain script."""
    task = LanguageModelling.prepare(plan(text, recipe="zaremba-small").data, 0)
    windows = Windows(task.corpus.training, ROWS, STEPS)
    before = forget_peak()
    model = Plain(len(task.vocabulary))
    optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
    state = None
    times = []
    for number in range(updates):
        begun = time.perf_counter()
        inputs, targets = (torch.from_numpy(part) for part in windows.window(number))
        optimizer.zero_grad()
        output, state = model.lstm(model.embedding(inputs), state)
        logits = model.head(output)
        loss = nn.functional.cross_entropy(logits.view(-1, logits.shape[-1]), targets.reshape(-1))
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 5.0)
        optimizer.step()
        state = tuple(part.detach() for part in state)
        times.append(time.perf_counter() - begun)
    return statistics.median(times[2:]), memory("VmHWM") - before


CONTESTANTS = {"unspool": ours, "plain torch": plain}


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("text", type=Path)
    options.add_argument("--rounds", type=int, default=3)
    options.add_argument("--updates", type=int, default=40)
    options.add_argument("--one", choices=CONTESTANTS, help="a turn of one contestant, as JSON")
    asked = options.parse_args()
    torch.set_num_threads(2)
    if asked.one:
        print(json.dumps(CONTESTANTS[asked.one](asked.text, asked.updates)))
        return
    found: dict[str, list[list[float]]] = {name: [] for name in CONTESTANTS}
    for _ in range(asked.rounds):
        for name in CONTESTANTS:
            command = [sys.executable, __file__, str(asked.text), "--updates", str(asked.updates), "--one", name]
            found[name].append(json.loads(subprocess.run(command, capture_output=True, check=True).stdout))
    speed, room = {}, {}
    for name, turns in found.items():
        speed[name] = ROWS * STEPS / statistics.median(turn[0] for turn in turns)
        room[name] = statistics.median(turn[1] for turn in turns)
        print(f"{name}: {speed[name]:,.0f} words/s, {room[name] / 1e6:,.0f} MB")
    first, second = CONTESTANTS
    print(f"speed {speed[first] / speed[second]:.2f}×, memory {room[first] / room[second]:.2f}×")


if __name__ == "__main__":
    main()
