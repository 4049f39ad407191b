"""Is the first verdict of an X-ray right, and does its remedy help?

    python -m benchmarks.xray_accuracy --keep accuracy.jsonl            # twenty minutes; resumes where it was stopped
    python -m benchmarks.xray_accuracy --keep accuracy.jsonl --write    # and write the table into docs/xray.md
    python -m benchmarks.xray_accuracy --only "chaos" --limit 4         # a first look

Networks with planted faults and healthy ones are X-rayed, as drawn and after a short training. Precision: of the
networks whose first verdict names a fault, those that have it. Recall: of the networks with a fault, those whose first
verdict names it. A trained network is also trained again as its first verdict advises, from the same seed.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

import torch
from benchmarks.xray_faults import Network, Setup, loss_of
from benchmarks.xray_networks import DEVELOPMENT, FAULTS, HEALTHY, HELD_OUT, Planted, all_networks
from torch import Tensor, nn

from unspool.errors import UnspoolError
from unspool.insight.catalogue import CATALOGUE
from unspool.insight.measurements import take_measurements
from unspool.insight.report.contract import Verdict
from unspool.insight.subjects.module import take_model
from unspool.insight.verdicts.judge import judge
from unspool.learning.gates import gate_penalty, neighboring_gates
from unspool.nn import Stack
from unspool.nn.leaves import map_leaves
from unspool.storage.files import write_file

TARGET = Path(__file__).parent.parent / "docs" / "xray.md"
BEGIN, END = "<!-- accuracy: written by benchmarks/xray_accuracy.py -->", "<!-- end of accuracy -->"
#: What rules read; the other measures are only shown.
MEASURES = (
    *("flow", "forgetting", "need", "truncation", "gates", "activations", "attenuation", "participation"),
    *("input_sizes", "lyapunov"),
)
UPDATES, LR = 200, 3e-3
#: A validation loss below this, a twentieth of the target's variance: the task is learned, whatever was planted.
LEARNED = 0.05
#: Seeds of the data that is looked at, and that the loss is validated on.
LOOK, VALIDATION = 10**6, 10**7


@dataclass(frozen=True)
class Result:
    """What an X-ray said about one network, and what following it brought."""

    name: str
    kind: str
    part: str
    trained: bool
    right: bool
    said: tuple[str, ...]  # keys of all verdicts, the first one first
    fault: bool  # the first verdict names a fault or a warning
    before: float | None = None  # validation loss
    after: float | None = None  # validation loss after the remedy; None if there was none to follow

    @property
    def learned(self) -> bool:
        """Whether a network learned its task in spite of a fault, which training removed or which does no harm."""
        return self.kind != HEALTHY and self.before is not None and self.before < LEARNED

    @property
    def helped(self) -> bool | None:
        """Whether the remedy lowered the validation loss; None if none was followed."""
        if self.after is None or self.before is None:
            return None
        return math.isfinite(self.after) and not self.after >= self.before


def examine(planted: Planted, updates: int = UPDATES) -> Result:
    """X-ray one network, and follow the first remedy if it was trained."""
    model = Network(planted.setup)
    before = train(model, planted.setup, updates) if planted.trained else None
    verdicts = look(model, planted)
    first = verdicts[0]
    fault = first.severity in ("fault", "warning")
    after = None
    if planted.trained and fault and planted.kind != HEALTHY:
        followed = planted.setup.follow(first.key, first.settings)
        after = train(Network(followed), followed, updates)
    return Result(
        planted.name,
        planted.kind,
        planted.part,
        planted.trained,
        first.key in planted.right,
        tuple(verdict.key for verdict in verdicts),
        fault,
        before,
        after,
    )


def look(model: Network, planted: Planted) -> Sequence[Verdict]:
    """The verdicts on a network; of one that is not trained without a loss, unless its fault is in the loss."""
    setup = planted.setup
    x, y = setup.task.draw(LOOK + setup.seed)
    with_loss = planted.trained or planted.kind == "memory too short for the loss"
    try:
        specimen = take_model(
            model, setup.read(x), loss=(lambda predicted: loss_of(predicted, y)) if with_loss else None, bptt=setup.bptt
        )
        return judge(specimen, take_measurements(specimen, CATALOGUE, only=MEASURES))
    except UnspoolError as error:
        return (Verdict("refused", "fault", "The network was refused", str(error), ""),)


def train(model: Network, setup: Setup, updates: int) -> float:
    """Train, and return the loss on data of its own; infinite if training broke down."""
    optimizer = torch.optim.AdamW(model.parameters(), LR, weight_decay=setup.weight_decay)
    for number in range(updates):
        x, y = setup.task.draw(number)
        loss = loss_of(predict(model, setup, setup.read(x)), y) + penalty(model, setup, setup.read(x))
        if not torch.isfinite(loss):
            return math.inf
        optimizer.zero_grad()
        loss.backward()
        if setup.clip:
            nn.utils.clip_grad_norm_(model.parameters(), setup.clip)
        optimizer.step()
    with torch.no_grad():
        x, y = setup.task.draw(VALIDATION, rows=128)
        found = float(loss_of(model(setup.read(x)), y))
    return found if math.isfinite(found) else math.inf


def predict(model: Network, setup: Setup, x: Tensor) -> Tensor:
    """The output; with `bptt` in windows between which no gradient passes."""
    if setup.bptt is None or setup.bptt >= len(x):
        predicted: Tensor = model(x)
        return predicted
    state, parts = None, []
    for window in x.split(setup.bptt):
        output, state = model.layers(window, state) if state is not None else model.layers(window)
        state = map_leaves(Tensor.detach, state)
        parts.append(model.head(output))
    return torch.cat(parts)


def penalty(model: Network, setup: Setup, x: Tensor) -> Tensor:
    """The penalty on closed gates, where the setup asks for it and the layers are ours."""
    if not setup.gate_penalty or not isinstance(model.layers, Stack):
        return torch.zeros(())
    sequences, _ = model.layers(x, every_layer=True)
    pairs = neighboring_gates(model.layers, x, sequences)
    return setup.gate_penalty * torch.stack([gate_penalty(o, i) for o, i in pairs]).sum()


# ---- results, kept line by line


def read_kept(path: Path | None) -> dict[str, Result]:
    """Results by name; a line that was cut off in the middle is left out."""
    found: dict[str, Result] = {}
    lines = path.read_text(encoding="utf-8").splitlines() if path is not None and path.exists() else []
    for line in lines:
        try:
            entry = json.loads(line)
        except json.JSONDecodeError:
            continue
        found[entry["name"]] = Result(**{**entry, "said": tuple(entry["said"])})
    return found


def run(networks: Iterable[Planted], keep: Path | None = None, updates: int = UPDATES) -> list[Result]:
    """Examine all networks that are not kept yet, and keep each result as soon as it is there."""
    kept = read_kept(keep)
    results = []
    for planted in networks:
        if planted.name not in kept:
            begun = time.monotonic()
            kept[planted.name] = result = examine(planted, updates)
            if keep is not None:
                with keep.open("a", encoding="utf-8") as file:
                    file.write(json.dumps(asdict(result)) + "\n")
            print(
                f"{'  ' if result.right else '✗ '}{planted.name}: {', '.join(result.said)} "
                f"({time.monotonic() - begun:.1f} s)",
                flush=True,
            )
        results.append(kept[planted.name])
    return results


# ---- the table


@dataclass(frozen=True)
class Scores:
    """The figures of one part."""

    precision: float
    recall: float
    healthy: float
    helped: float
    count: int


def score(results: Sequence[Result]) -> Scores:
    """Precision, recall, healthy called healthy, and remedies that helped; NaN where there is nothing to count."""
    ill = [one for one in results if one.kind != HEALTHY]
    named = [one for one in results if one.fault]
    sound = [one for one in results if one.kind == HEALTHY]
    followed = [one.helped for one in results if one.helped is not None]
    return Scores(
        _fraction([one.right and one.kind != HEALTHY for one in named]),
        _fraction([one.right for one in ill]),
        _fraction([one.right for one in sound]),
        _fraction(followed),
        len(results),
    )


def _fraction(found: Sequence[bool]) -> float:
    return sum(found) / len(found) if found else math.nan


def document(results: Sequence[Result]) -> str:
    """The tables for the documentation: figures by part, each kind, and every network that was judged wrongly."""
    parts = {name: [one for one in results if one.part == name] for name in (DEVELOPMENT, HELD_OUT)}
    parts["random"] = [one for one in results if not one.trained]
    parts["trained"] = [one for one in results if one.trained]
    parts["trained, without those that learned their task in spite of a fault"] = [
        one for one in parts["trained"] if not one.learned
    ]
    parts["all"] = list(results)
    lines = [
        "| networks | number | precision | recall | healthy called healthy | remedies that helped |",
        "|---|---|---|---|---|---|",
    ]
    for name, found in parts.items():
        scores = score(found)
        figures = [scores.precision, scores.recall, scores.healthy, scores.helped]
        lines.append(f"| {name} | {scores.count} | " + " | ".join(_percent(one) for one in figures) + " |")
    lines += ["", "| planted | development | held out | remedies that helped |", "|---|---|---|---|"]
    for kind in (*FAULTS, HEALTHY):
        cells = [_count([one.right for one in parts[part] if one.kind == kind]) for part in (DEVELOPMENT, HELD_OUT)]
        helped = _count([one.helped for one in results if one.kind == kind and one.helped is not None])
        lines.append(f"| {kind} | {cells[0]} | {cells[1]} | {helped} |")
    wrong = [one for one in results if not one.right]
    lines += ["", f"Judged wrongly, {len(wrong)} of {len(results)}:", ""]
    lines += [
        f"- {one.name}: said {', '.join(f'`{key}`' for key in one.said)} "
        f"({one.part}{', learned its task' if one.learned else ''})"
        for one in wrong
    ] or ["- none"]
    return "\n".join(lines) + "\n"


def _percent(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.0%}"


def _count(found: Sequence[bool]) -> str:
    return f"{sum(found)} of {len(found)}" if found else "–"


def write(results: Sequence[Result], target: Path = TARGET) -> None:
    """Put the tables between their marks in the document."""
    text = target.read_text(encoding="utf-8")
    before, after = text.split(BEGIN)[0], text.split(END)[1]
    write_file(target, f"{before}{BEGIN}\n\n{document(results)}\n{END}{after}".encode())


def small() -> list[Planted]:
    """One random network of each kind and a trained healthy one: what a test runs."""
    found = {one.kind: one for one in all_networks() if not one.trained and one.part == HELD_OUT}
    trained = next(one for one in all_networks() if one.trained and one.kind == HEALTHY)
    return [*found.values(), replace(trained, part=HELD_OUT)]


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--keep", type=Path, help="a file of results, to resume from")
    options.add_argument("--only", help="kinds whose name contains this")
    options.add_argument("--part", choices=(DEVELOPMENT, HELD_OUT))
    options.add_argument("--limit", type=int, help="the first networks only")
    options.add_argument("--write", action="store_true", help="write the table into docs/xray.md")
    asked = options.parse_args()
    networks = [one for one in all_networks() if (asked.only or "") in one.kind and asked.part in (None, one.part)]
    results = run(networks[: asked.limit], asked.keep)
    print(document(results))
    if asked.write:
        write(results)


if __name__ == "__main__":
    main()
