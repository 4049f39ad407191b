"""Write docs/benchmarks.md from the JSON of a run: python benchmarks/write_docs.py results.json"""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path

from unspool.lab.bench import QUESTIONS, Report
from unspool.lab.bench.report import OURS, Row
from unspool.lab.bench.tables import aim, quantity, sorted_rows, written

TARGET = Path(__file__).parent.parent / "docs" / "benchmarks.md"
METHOD = """\
# Benchmarks

```
unspool bench --json results.json --html results.html     # everything below, a quarter of an hour
unspool bench --only grid --quick                         # a first look
unspool bench --only grid --sizes 16,300,40,96            # your own batch size, steps, input and hidden size
python benchmarks/write_docs.py results.json              # write this page
```

`benchmarks/` has one question per file. The method:

- **Correctness first.** All contestants get the same float32 weights and the same input. Outputs and gradients must
  agree before anything is timed.
- **Alternating.** In every round each contestant has one turn, in an order that changes. Before a turn, the threads
  that another library left behind must be asleep (those of ONNX Runtime look for work for tens of milliseconds). Before
  the first round a contestant runs unmeasured for a quarter of a second, and before a short turn for a moment. A turn
  of less than 5 ms is repeated.
- **Medians.** A number is the median over the rounds, ± half the interquartile range. A ratio is the quotient of two
  medians of the same rounds. Above 1, unspool needs less. Ratios below 1 are in bold.
- **A training step** is forward and backward of the sum of the output, with gradients of all parameters and none of the
  input.
- **Contestants.** *unspool*: the drop-ins of `unspool.nn`. *torch*: `torch.nn`. *jax*: `lax.scan` under `jit`, with the
  products with x before the loop, the gates in one product, and weights as arguments. *onnxruntime*: the standard
  operators, inference only. Sizes are B,T,I,H: batch size, steps, input size, hidden size.
- **Single steps** (`stream`) are at batch 1 on one thread, from and to NumPy, with states kept between calls.
  *unspool*: a session's step. *onnxruntime*: the same layer or model, exported to ONNX, its states fed back. *torch*:
  `torch.nn` under `no_grad`; for a user's cell, torch operations with the gates stacked.
- **Steps in C** (`export`) are those of the exported file, compiled by `gcc -O3 -march=native -ffp-contract=fast`.
  Beside them are the step's eight matrix–vector products alone, by the exported file's own function, compiled the same
  way.
- **Elementwise recurrences** (`elementwise`): minGRU as its publication has it. *torch*: the scan in log space in plain
  torch operations. *jax*: `lax.scan` under `jit`, with both products with x as one before the loop.
- **Matrices as states** (`matrix`): gated linear attention and DeltaNet with four heads. *torch loop*, *jax*: the same
  equations step by step, under `jit` in JAX; all that does not read the state is computed for all steps at once.
- **Stacks** (`wavefront`): the same layers with and without `unspool.nn.wavefront.layers_apart()`. One after the other,
  the threads share a layer's units (of up to two rows) or the rows, so that both cores are busy either way. What layers
  at once save is a meeting of the threads at every step, and that both cores read all weights; so they gain most where
  steps are short, and on processors whose cores meet slowly. Which way is faster is measured during the first calls.
- **The machine's rate** is that of a 2048 × 2048 × 2048 product in float32 by torch, measured in the same rounds. Only
  the operations of matrix products count. Where torch's product does not use the processor's AVX-512, a part of it can
  be above 100 %.
"""


def document(report: Report) -> str:
    """The whole page."""
    parts = [METHOD, "## The machine\n", report.about() + "\n" if report.rows else "No run is recorded here yet.\n"]
    parts += [f"> {remark}\n" for remark in report.remarks]
    if report.findings:
        mark = {None: "", True: "✓", False: "✗"}
        rows = [
            [
                mark[found.met],
                f"{found.question}: {found.text}",
                written(found.value, found.unit),
                aim(found),
                found.where,
            ]
            for found in report.findings
        ]
        parts += ["## Findings\n", table(["", "finding", "value", "aim", "where"], rows)]
    for question, rows_of_question in groupby(sorted_rows(report), key=lambda row: row.question):
        text = QUESTIONS[question].text
        parts.append(f"## {text[0].upper()}{text[1:]}\n")
        for kind, rows_of_kind in groupby(rows_of_question, key=lambda row: row.kind):
            parts += [f"### {question}: {kind}\n", measurements(list(rows_of_kind))]
    return "\n".join(parts)


def measurements(rows: list[Row]) -> str:
    """One line a case, one column a contestant."""
    names = list(dict.fromkeys(name for row in rows for name in row.values))
    rated = any(row.fraction is not None for row in rows)
    head = ["case", *names, *(["GFLOP/s", "of the machine's rate"] if rated else [])]
    lines = []
    for row in rows:
        line = [row.case, *(value(row, name) for name in names)]
        if rated:
            line += [f"{(row.rate() or 0) / 1e9:.3g}", f"{row.fraction or 0:.0%}"]
        lines.append(line)
    return table(head, lines)


def value(row: Row, name: str) -> str:
    """`3.21 ms ±4%, 2.10×`."""
    if name not in row.values:
        return "–"
    spread = row.values[name]
    text = quantity(spread.median, row.unit)
    if spread.count > 1:
        text += f" ±{(spread.high - spread.low) / 2 / spread.median:.0%}"
    if name == OURS or OURS not in row.values:
        return text
    ratio = f"{row.ratio(name):.2f}×"
    return f"{text}, {ratio if row.ratio(name) >= 1 else f'**{ratio}**'}"


def table(head: list[str], rows: list[list[str]]) -> str:
    """A table in Markdown."""
    lines = ["| " + " | ".join(row) + " |" for row in [head, ["---"] * len(head), *rows]]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> None:
    if len(arguments) != 1:
        sys.exit(str(__doc__))
    report = Report.from_json(Path(arguments[0]).read_text(encoding="utf-8"))
    TARGET.write_text(document(report), encoding="utf-8")
    print(f"wrote {TARGET}")


if __name__ == "__main__":
    main(sys.argv[1:])
