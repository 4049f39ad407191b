"""Exported networks of every kind, compiled, answer what their players answer in float64."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.exchange.c.calls import CALLS
from tests.exchange.c.compiled import compile_all, each_compiler, in_double
from tests.runtime.small_models import CASES, as_numpy, tensors_of

from unspool.data.scale import Scale
from unspool.engine.rounding import quantize
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.models.describe import describe
from unspool.runtime.network import Translator
from unspool.runtime.options import PLAIN, PlayOptions
from unspool.runtime.play import make_player
from unspool.runtime.read import read_network

TOLERANCE = 1e-6
Rounding = Callable[[dict[str, Any]], dict[str, Any]]
#: Three of each kind for every run of the tests.
FEW = [case for case in CASES if case.rsplit("-", 1)[1] in ("1", "3", "9")]


def network_of(case: str, by: Rounding = dict) -> tuple[Any, Any, Interface, dict[str, Any]]:
    """A network with weights in float64, its batch, interface, and what its player needs."""
    made = CASES[case]()
    document = json.loads(json.dumps(describe(made.model, "some task")))
    network = read_network(document, by(in_double(tensors_of(made.model))))
    if isinstance(network, Translator):
        network = replace(network, beam_size=1)
    undo = made.extras.get("undo")
    scale = getattr(undo, "__self__", None)
    outputs = scale if isinstance(scale, Scale) else None
    interface = Interface(outputs=outputs, allowed=made.extras.get("allowed"))
    return network, as_numpy(made.batch), interface, made.extras


def difference(found: Any, expected: Any) -> float:
    """The largest absolute difference over the largest absolute value; whole numbers must be equal."""
    if isinstance(expected, list | tuple):
        assert len(found) == len(expected)
        return max((difference(*pair) for pair in zip(found, expected, strict=True)), default=0.0)
    if expected.dtype.kind == "i":
        assert found.tolist() == expected.tolist()
        return 0.0
    assert found.shape == expected.shape
    largest = float(np.abs(expected).max(initial=0.0))
    return float(np.abs(found - expected).max(initial=0.0)) / (largest or 1.0)


def check(
    folder: Path,
    cases: list[str],
    compiler: str,
    options: tuple[str, ...],
    by: Rounding = dict,
    played: PlayOptions = PLAIN,
    **how: Any,
) -> dict[str, float]:
    """The differences of all cases; players have the weights that `by` makes of the exported ones."""
    made = {case: network_of(case) for case in cases}
    written = [write_c(one[0], case, interface=one[2], **how) for case, one in made.items()]
    models = compile_all(folder, written, compiler, options)
    found = {}
    for model, (case, (_, batch, _, extras)) in zip(models.values(), made.items(), strict=True):
        network = network_of(case, by)[0]
        call, play = CALLS[type(network)]
        player = make_player(network, **extras, options=played)
        found[case] = difference(call(model, network, batch), play(player, network, batch))
    return found


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players compute by the equations, in NumPy."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def test_networks_of_every_kind_answer_as_their_players_do(tmp_path: Path) -> None:
    found = check(tmp_path, FEW, "gcc", ("-O1",))
    assert len(found) >= 24
    assert max(found.values()) <= TOLERANCE, found


def test_weights_in_a_file_of_their_own_give_the_same(tmp_path: Path) -> None:
    found = check(tmp_path, FEW[::4], "gcc", ("-O1",), separate=True)
    assert max(found.values()) <= TOLERANCE, found


def rounded(tensors: dict[str, Any]) -> dict[str, Any]:
    """Matrices as eight bits and a scale per row give them; the scores of a chain are not rounded."""
    found = dict(tensors)
    for name, one in tensors.items():
        if one.ndim == 2 and not name.startswith("crf"):
            numbers, scales = quantize(one)
            found[name] = numbers * scales[:, None].astype(np.float64)
    return found


def test_eight_bits_are_the_network_with_rounded_matrices(tmp_path: Path) -> None:
    cases = [case for case in FEW[::2] if not case.startswith("translate")]
    found = check(tmp_path, cases, "gcc", ("-O1",), by=rounded, int8=True)
    assert len(found) >= 10
    assert max(found.values()) <= TOLERANCE, found


EIGHT_BITS = ["language-0", "classify-0", "classify_words-2", "tag-0", "joint-1", "forecast-0"]


@pytest.mark.parametrize(
    ("kernels", "cases"),
    [("off", EIGHT_BITS), ("on", EIGHT_BITS[:2]), pytest.param("on", EIGHT_BITS, marks=pytest.mark.long)],
    ids=["off", "on", "on, all"],
)
def test_eight_bits_are_those_of_the_player(
    kernels: str, cases: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kernels, NumPy and C have the same integers and scales, of embeddings too."""
    monkeypatch.setenv("UNSPOOL_ENGINE", kernels)
    found = check(tmp_path, cases, "gcc", ("-O1",), played=PlayOptions(int8=True), int8=True)
    assert max(found.values()) <= TOLERANCE, found


@pytest.mark.long
@each_compiler
def test_all_networks_answer_as_their_players_do(tmp_path: Path, compiler: str) -> None:
    found = check(tmp_path, list(CASES), compiler, ("-O2",))
    assert max(found.values()) <= TOLERANCE, found


@pytest.mark.parametrize("case", FEW[::5])
def test_the_same_network_is_the_same_text(case: str) -> None:
    texts = []
    for _ in range(2):
        network, _, interface, _ = network_of(case)
        texts.append(write_c(network, case, interface=interface, separate=True))
    assert texts[0] == texts[1]
