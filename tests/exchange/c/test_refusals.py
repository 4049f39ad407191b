"""Exported functions refuse what the player refuses: foreign weights, unknown ids, short pasts and impossible sizes."""

from __future__ import annotations

import ctypes
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.exchange.c.calls import CALLS
from tests.exchange.c.compiled import Model, as_floats, as_ids, compile_all, floats
from tests.exchange.c.random_stacks import cell_stack
from tests.exchange.c.test_networks import difference, network_of
from tests.exchange.c.test_program_input import build, call

from unspool.data.vocabulary import Characters
from unspool.decoding.sampling import Sampling
from unspool.errors import ArgumentError
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.source import Written
from unspool.exchange.c.zig import MEMORY, compile_wasm
from unspool.runtime.network import Forecaster
from unspool.runtime.play import make_player


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players compute by the equations, in NumPy."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


# ── weights in a file of their own ──


def take(model: Model, blob: bytes, shift: int = 0) -> int:
    """What `init` says to some bytes, which are not aligned where `shift` is 1."""
    room = np.zeros(len(blob) + 8, np.uint8)
    first = -room.ctypes.data % 4 + shift
    room[first : first + len(blob)] = np.frombuffer(blob, np.uint8)
    return int(model("init", room[first:], len(blob), restype=ctypes.c_int))


@pytest.mark.parametrize("int8", [False, True])
def test_foreign_and_damaged_weights_are_refused(tmp_path: Path, int8: bool) -> None:
    network = network_of("language-9")[0]
    head = replace(network.head, bias=network.head.bias + 1)
    own, other = (write_c(one, "model", separate=True, int8=int8) for one in (network, replace(network, head=head)))
    (model,) = compile_all(tmp_path, [own], options=("-O1", "-fsanitize=undefined")).values()
    blob, foreign = own.blob or b"", other.blob or b""
    assert len(blob) == len(foreign) == own.weights_size
    before = model.state.copy()
    assert take(model, blob, shift=1) == -1
    assert take(model, blob[:-4]) == take(model, blob + b"\0" * 4) == take(model, b"") == -2
    assert take(model, bytes(len(blob))) == -2
    assert take(model, foreign) == -3
    rng = np.random.default_rng(0)
    for place in (*range(12), *rng.integers(12, len(blob), 40).tolist(), len(blob) - 1):
        damaged = bytearray(blob)
        damaged[place] ^= 1 << int(rng.integers(8))
        assert take(model, bytes(damaged)) == (-2 if place < 8 else -3 if place < 12 else -4), place
    assert np.array_equal(model.state, before)
    assert take(model, blob) == 0


# ── ids ──


def answers(network: Any, interface: Interface, folder: Path) -> Model:
    (model,) = compile_all(folder, [write_c(network, "model", interface=interface)]).values()
    return model


def test_a_language_model_refuses_ids_that_it_does_not_have(tmp_path: Path) -> None:
    network, _, interface, _ = network_of("language-9")
    model, tokens = answers(network, interface, tmp_path), len(network.embedding.weight)
    logits, before = floats(tokens), model.state.copy()
    for bad in (-1, tokens, 2**31 - 1, -(2**31)):
        assert model("feed", np.int32(bad), restype=ctypes.c_int) == -1
        assert model("step", np.int32(bad), logits, restype=ctypes.c_int) == -1
        assert model("run", as_ids([0, bad]), 2, logits, restype=ctypes.c_int) == -1
        with pytest.raises(ArgumentError):
            make_player(network).predict(np.array([[bad]]), None)  # type: ignore[attr-defined]
    assert np.array_equal(model.state, before)
    assert np.isnan(logits).all()
    assert model("step", np.int32(tokens - 1), logits, restype=ctypes.c_int) == 0


@pytest.mark.parametrize("case", ["classify_words-1", "classify_words-3", "tag-1", "tag-3", "translate-1"])
def test_other_models_refuse_ids_that_they_do_not_have(tmp_path: Path, case: str) -> None:
    network, _, interface, _ = network_of(case)
    model = answers(network, interface, tmp_path)
    good, one = as_ids([1, 1]), np.array([1, 1], np.uint64)
    for bad in (-1, 2**31 - 1):
        ids = as_ids([0, bad])
        if case.startswith("classify") and hasattr(model.library, "model_step"):
            assert model("step", np.int32(bad), np.zeros(1, np.uint32), 0, restype=ctypes.c_int) == -1
        elif case.startswith("classify"):
            y, hashes, counts = floats(4), np.zeros(1, np.uint32), np.zeros(2, np.uint64)
            assert model("run", ids, hashes, counts, 2, y, model.workspace(2), restype=ctypes.c_int) == -1
        elif case.startswith("translate"):
            found = model("run", ids, 2, as_ids([0, 0]), 2, model.workspace(2), restype=ctypes.c_size_t)
            assert found == ctypes.c_size_t(-1).value
        else:
            assert network.speller is not None
            rest = (2, as_ids([7, 7]), *([floats(9)] if network.label else []), model.workspace(2, 1))
            assert model("run", ids, good, one, *rest, restype=ctypes.c_int) == -1
            assert model("run", good, ids, one, *rest, restype=ctypes.c_int) == -1
            assert model("run", good, good, one, *rest, restype=ctypes.c_int) == 0


def test_programs_refuse_ids_that_they_do_not_have(tmp_path: Path) -> None:
    program = build(tmp_path, network_of("translate-1")[0])
    last = len(network_of("translate-1")[0].source.weight) - 1
    assert call(program, f"0 1,{last}\r\n\n007\n")[::2] == (0, "")
    for bad in ("-1", str(last + 1), "4294967296", "4294967297", "99999999999999999999", "x", "1x", "1.5", "+1", "--"):
        code, lines, message = call(program, f"1 2\n1 {bad} 2\n1\n")
        assert (code, len(lines), message) == (1, 1, f"line 2 has what is not an id from 0 to {last}\n"), bad


def test_a_generator_without_a_tokenizer_refuses_such_a_prompt(tmp_path: Path) -> None:
    network = network_of("language-9")[0]
    program, last = build(tmp_path, network), len(network.embedding.weight) - 1
    assert call(program, "", "3", "1", "1", f"0 {last}")[::2] == (0, "")
    for bad in ("-1", "4294967296", str(last + 1), "a"):
        code, lines, message = call(program, "", "3", "1", "1", bad)
        assert (code, lines, message) == (2, [], f"the prompt has what is not an id from 0 to {last}\n")


# ── sampling ──


@pytest.fixture(scope="module")
def sampler(tmp_path_factory: pytest.TempPathFactory) -> tuple[Model, int]:
    """A language model that samples, compiled once, and how many tokens it has."""
    network = network_of("language-9")[0]
    interface = Interface(Characters(["?", *"ab"]))
    return answers(network, interface, tmp_path_factory.mktemp("sampler")), len(network.embedding.weight)


@pytest.mark.parametrize("temperature", [0.0, 1e-38, 1e-30, 1e-8, 0.01, 0.8, 1.0, 50.0, 1e30])
def test_probabilities_are_those_of_the_player(sampler: tuple[Model, int], temperature: float) -> None:
    model, tokens = sampler
    rng = np.random.default_rng(0)
    for scale in (1e-3, 5.0, 1e6):
        logits = as_floats(scale * rng.standard_normal(tokens))
        expected = Sampling(temperature, banned=(2,)).probabilities(logits[None])[0]
        logits[2] = -np.inf
        model._call("probabilities", logits, ctypes.c_float(temperature))
        assert np.isfinite(logits).all()
        assert logits == pytest.approx(expected, abs=2e-6)
        assert logits[2] == 0
        seed = np.array([12345], np.uint32)
        drawn = {int(model._call("sample", logits, seed, restype=ctypes.c_int32)) for _ in range(200)}
        assert drawn <= set(np.flatnonzero(logits).tolist())


# ── the past of a forecaster ──

SEASONS = (0, 1, 3, 4)


def forecaster(season: int) -> tuple[Forecaster, Any]:
    network, batch, _, _ = network_of("forecast-1")
    return replace(network, season=season), batch


@pytest.fixture(scope="module")
def forecasters(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Model]:
    """Models by their season, compiled at once."""
    written = [write_c(forecaster(season)[0], f"season{season}") for season in SEASONS]
    options = ("-O1", "-fsanitize=undefined")
    models = compile_all(tmp_path_factory.mktemp("seasons"), written, options=options)
    return dict(zip(SEASONS, models.values(), strict=True))


@pytest.mark.parametrize("season", SEASONS)
@pytest.mark.parametrize("lookback", [0, 1, 2, 3, 4])
def test_a_past_shorter_than_a_season_is_refused(forecasters: dict[int, Model], season: int, lookback: int) -> None:
    network, batch = forecaster(season)
    past = batch.inputs[0]
    short = batch._replace(inputs=(past[len(past) - lookback :], *batch.inputs[1:]))
    model = forecasters[season]
    model.start()
    run, play = CALLS[Forecaster]
    if lookback >= max(season, 1):
        assert difference(run(model, network, short), play(make_player(network), network, short)) <= 1e-6
        return
    if lookback:
        with pytest.raises(ArgumentError, match="fewer steps than the season"):
            play(make_player(network), network, short)
    steps, y = len(batch.inputs[1]), floats(len(batch.inputs[1]), network.targets, len(network.quantiles))
    given = [as_floats(one[:, 0]) for one in short.inputs[:2]]
    unit, workspace = as_floats(batch.inputs[2][0]), model.workspace(lookback, steps)
    assert model("run", given[0], lookback, given[1], steps, unit, y, workspace, restype=ctypes.c_int) == -1
    assert np.isnan(y).all()


def test_an_interface_with_a_lookback_below_the_season_is_refused() -> None:
    with pytest.raises(ArgumentError, match="season of 4"):
        write_c(forecaster(4)[0], "model", interface=Interface(lookback=3))


# ── sizes ──


@pytest.mark.parametrize("case", ["classify-3", "tag-1", "tag-9", "forecast-1", "translate-1", "translate-3"])
def test_workspaces_that_no_memory_can_hold_have_no_size(tmp_path: Path, case: str) -> None:
    network, _, interface, _ = network_of(case)
    (model,) = compile_all(tmp_path, [write_c(network, "model", interface=interface)]).values()
    most = ctypes.c_size_t(-1).value
    arguments = 2 if case.startswith("forecast") or getattr(network, "speller", None) else 1
    if not hasattr(model.library, "model_workspace"):
        pytest.skip("this model runs step by step")

    def need(steps: int) -> int:
        return int(model._call("workspace", *[steps] * arguments, restype=ctypes.c_size_t))

    each = need(2) - need(1)
    assert need(1000) == need(1) + 999 * each
    for steps in (most // 4 // each + 1, most // each + 1, most // 2, most - 1, most):
        assert need(steps) == most
    fits = most // 4 // each - 1000
    assert need(fits) == need(1) + (fits - 1) * each


def test_weights_beyond_the_memory_of_a_module_are_refused_before_the_compiler_runs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subprocess, "run", None)
    written = write_c(cell_stack(1), "model")
    with pytest.raises(ArgumentError, match=r"has weights of 4,294,967,296 bytes.*int8=True"):
        compile_wasm(replace(written, weights_size=MEMORY))
    assert isinstance(written, Written)
