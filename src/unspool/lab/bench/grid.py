"""Training step and inference on the grid of sizes, against torch.nn, JAX and ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from unspool.lab.bench.agreement import check_agreement
from unspool.lab.bench.cases import GRID, Case
from unspool.lab.bench.contest import contest
from unspool.lab.bench.contestants.contestant import Contestant, Maker, MissingError
from unspool.lab.bench.contestants.jax_scan import jax_scan
from unspool.lab.bench.contestants.modules import torch_nn, unspool
from unspool.lab.bench.contestants.onnx_runtime import onnx_runtime
from unspool.lab.bench.machine import MatrixProduct
from unspool.lab.bench.report import OURS, Finding, Row, compare
from unspool.lab.bench.settings import PEERS, Say, Settings

MAKERS: Mapping[str, Maker] = {OURS: unspool, "torch": torch_nn, "jax": jax_scan, "onnxruntime": onnx_runtime}
#: Where the arithmetic outweighs all else, LSTM training should come close to the large matrix product.
LIMIT = ("LSTM 32,100,64,128", "LSTM 20,35,200,200", "LSTM 128,50,512,512")


def measure(settings: Settings, say: Say) -> Iterator[Row]:
    product = MatrixProduct()
    for case in settings.cases(GRID):
        say(str(case))
        yield from measure_case("grid", case, settings, say, product)


def measure_case(
    question: str, case: Case, settings: Settings, say: Say, product: MatrixProduct | None = None
) -> Iterator[Row]:
    """One row for training and one for inference, all in the same rounds."""
    contestants = enter(case, settings, say)
    besides = {} if product is None else {"product": product}
    *rows, others = contest(question, case, contestants, settings.rounds, besides)
    machine_rate = None if product is None else product.operations / others["product"].median
    for row in rows:
        operations = case.operations(row.kind == "training")
        yield replace(row, operations=operations, machine_rate=machine_rate)


def enter(case: Case, settings: Settings, say: Say) -> dict[str, Contestant]:
    """Those contestants that are installed, after they have shown that they agree."""
    contestants = {}
    for name in (OURS, *settings.against):
        try:
            contestants[name] = MAKERS[name](case, settings.threads)
        except MissingError as missing:
            say(f"! {name} takes no part: {missing}")
    check_agreement(case, contestants)
    return contestants


def judge(rows: Iterable[Row]) -> list[Finding]:
    rows = list(rows)
    training = [row for row in rows if row.kind == "training"]
    inference = [row for row in rows if row.kind == "inference"]
    limits = [
        Finding(
            "grid", "training, part of the large matrix product's rate", 100 * row.fraction, "%", 80, True, row.case
        )
        for row in training
        if row.case in LIMIT and row.fraction is not None
    ]
    return [
        *compare(training, ("torch", "jax"), "training, against the faster of torch and JAX", 2.0, 1.1),
        *compare(training, ("torch",), "training, against torch", 3.0, None),
        *compare(inference, PEERS, "inference, against the fastest of torch, JAX and ONNX Runtime", 1.6, 1.0),
        *compare(inference, ("torch",), "inference, against torch", None, None),
        *limits,
    ]
