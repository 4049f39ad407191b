"""Networks are read as they were described; documents that were changed are refused, or are networks all the same."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from copy import deepcopy
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from tests.runtime.small_models import CASES, ROWS, Made, as_numpy, tensors_of

import unspool.models.describe as described
from unspool.cells import LSTM
from unspool.cells.document import dump
from unspool.errors import ArgumentError, DataError
from unspool.models.baselines.encoders import MemorylessEncoder
from unspool.models.describe import describe, has_network
from unspool.models.pooled import Classifier
from unspool.runtime.entries import Entry
from unspool.runtime.network import FORMAT, Language
from unspool.runtime.play import make_player
from unspool.runtime.read import read_network, read_stack
from unspool.runtime.read_stack import MOST_CELLS
from unspool.runtime.sources import Sources
from unspool.settings.model import PooledSettings

#: One case of each kind, with as many parts as there are.
SUBJECTS = (
    "language-9",
    "language-6",
    "classify-8",
    "classify_words-2",
    "tag-0",
    "joint-1",
    "forecast-8",
    "translate-2",
)
ODD: tuple[Any, ...] = (
    *(None, True, False, 0, -1, 1, 2, 3, 2**31, 2**63, 10**5000, 0.5, 1e308, float("nan"), float("inf")),
    *(
        "",
        "W_h",
        "head",
        "softmax",
        "\x00",
        [],
        [[]],
        {},
        {"constant": 0.5},
        {"sum": []},
        {"tensor": "head", "rows": [0, 1]},
    ),
    *({"sum": ["head", {"tensor": "head", "rows": [0, 9]}]}, {"tensor": {"sum": []}, "rows": [0, 1]}),
)


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Changed equations are not worth compiling."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


def document_of(made: Made) -> Any:
    return json.loads(json.dumps(describe(made.model, "some")))


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The path of every entry."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in items:
        yield (*path, key)
        yield from places(part, (*path, key))


def change(document: Any, chance: random.Random) -> str:
    """Change one entry, take it away, put another one's value there, or add one; what was done, for the message."""
    every = list(places(document))
    *path, key = chance.choice(every)
    inner = document
    for step in path:
        inner = inner[step]
    match chance.randrange(5):
        case 0:
            del inner[key]
        case 1:
            if isinstance(inner, list):
                inner.insert(key, inner[key])
            else:
                inner[chance.choice(["more", "W_x", "", "format"])] = 1
        case 2:
            value = document
            for step in chance.choice(every):
                value = value[step]
            inner[key] = deepcopy(value)
        case _:
            inner[key] = chance.choice(ODD)
    return f"{path} {key!r}"


def play(network: Any, made: Made) -> None:
    """Run a network whatever it computes; only its scores, as a search may take as long as it says."""
    try:
        player: Any = make_player(network, **made.extras)
        with np.errstate(all="ignore"):
            if isinstance(network, Language):
                player.measure(as_numpy(made.batch), player.initial_state(ROWS))
            else:
                player.score(as_numpy(made.batch))
    except ArgumentError:  # the batch is for another network
        pass


@cache
def subject(case: str) -> tuple[Made, str]:
    """A model and its document."""
    made = CASES[case]()
    return made, json.dumps(describe(made.model, "some"))


def check_changed(seed: int) -> bool:
    """Whether a changed document is refused."""
    chance = random.Random(seed)
    made, text = subject(chance.choice(SUBJECTS))
    document = json.loads(text)
    done = [change(document, chance) for _ in range(chance.randrange(1, 4))]
    try:
        network = read_network(document, tensors_of(made.model))
    except DataError:
        return True
    try:
        play(network, made)
    except Exception as error:
        raise AssertionError(f"seed {seed}: {done}") from error
    return False


@pytest.mark.parametrize("first", range(0, 200, 20))
def test_changed_documents_are_refused_or_networks(first: int) -> None:
    refused = sum(check_changed(seed) for seed in range(first, first + 20))
    assert refused >= 8


@pytest.mark.long
def test_many_changed_documents_are_refused_or_networks() -> None:
    refused = sum(check_changed(seed) for seed in range(1000, 21_000))
    assert 10_000 < refused < 20_000


@pytest.mark.parametrize("case", SUBJECTS)
def test_every_entry_counts(case: str) -> None:
    """Whichever entry is missing or new, it is said where."""
    made = CASES[case]()
    tensors, document = tensors_of(made.model), document_of(made)
    for path in places(document):
        if path[-1] in ("named", "title") or "cell" in path[:-1] or isinstance(path[-1], int):
            continue
        again = json.loads(json.dumps(document))
        inner = again
        for step in path[:-1]:
            inner = inner[step]
        del inner[path[-1]]
        with pytest.raises(DataError):
            read_network(again, tensors)


WRONG: list[tuple[str, str, Any, str]] = [
    ("language-0", "format", 2, "format is 2, not an integer from 1 to 1"),
    ("language-0", "kind", "poem", "kind is 'poem', not one of language, pooled"),
    ("language-0", "head.weight", "nothing", "head.weight names the tensor 'nothing'"),
    ("language-0", "head.bias", "head", r"head.bias is of shape \(9, 3\), not \(9,\)"),
    ("language-0", "stack.delay", 1, "stack reads ahead"),
    ("language-0", "stack.layers.0.residual", True, "stack.layers|adds what it reads"),
    ("language-0", "stack.layers.0.directions.0.hidden_size", 10**9, "hidden_size is 1000000000"),
    ("language-0", "stack.layers.0.directions.0.cell", [[]], "cell is not equations"),
    ("classify-0", "members", [], "members has 0 entries"),
    ("classify-0", "members.0.window", 2, "merger and `window` belong together"),
    ("classify-0", "members.0.pooling.kind", "last", "inner is given, and the pooling 'last' has none"),
    ("tag-0", "speller", None, "speller and `letters` belong together"),
    ("forecast-0", "quantiles", [0.9, 0.5], "quantiles are not in rising order"),
    ("forecast-0", "quantiles", [0.1, 0.9], "0.5 among them"),
    ("translate-0", "beam_size", 0, "beam_size is 0"),
    ("translate-0", "keys", None, "mix and `keys` belong together"),
]


@pytest.mark.parametrize(
    ("case", "path", "value", "message"), WRONG, ids=[f"{number}-{one[1]}" for number, one in enumerate(WRONG)]
)
def test_errors_name_the_place(case: str, path: str, value: Any, message: str) -> None:
    made = CASES[case]()
    document = inner = document_of(made)
    *steps, last = [int(step) if step.isdigit() else step for step in path.split(".")]
    for step in steps:
        inner = inner[step]
    inner[last] = value
    if path.endswith("residual"):  # fits only where widths differ
        document["stack"]["layers"][0]["directions"][0]["input_size"] = 4
    with pytest.raises(DataError, match=message):
        read_network(document, tensors_of(made.model))


@pytest.mark.parametrize("document", [None, 3, [], {}, {"format": 1}, {"format": True, "kind": "language", "task": ""}])
def test_what_is_no_network(document: Any) -> None:
    with pytest.raises(DataError, match="the network's document is wrong"):
        read_network(document, {})


def test_a_document_cannot_ask_for_memory() -> None:
    """Numbers that are not the file's own are counted, and no width is larger than the file's largest."""
    sources = Sources({"w": np.zeros((1, 100_000), np.float32)})
    tracemalloc.start()
    with pytest.raises(DataError, match="asks for more numbers than the model has"):
        [sources.shaped(Entry({"constant": 1.0}), (100_000,)) for _ in range(1000)]
    assert tracemalloc.get_traced_memory()[1] < 10e6
    tracemalloc.stop()
    made = CASES["language-0"]()
    document = document_of(made)
    document["stack"]["layers"][0]["directions"][0]["cell"]["sizes"] = {"huge": 2**30}
    with pytest.raises(DataError, match="has 'huge' of 1073741824 units, and no tensor is as wide"):
        read_network(document, tensors_of(made.model))


def test_a_document_cannot_name_the_same_tensors_again_and_again() -> None:
    """Every layer of a player has its own copy, so that what is named counts, not what the file holds."""
    made = CASES["language-0"]()
    document, tensors = document_of(made), tensors_of(made.model)
    layer = document["stack"]["layers"][0]["directions"][0]
    size = 256
    layer |= {"input_size": size, "hidden_size": size}
    layer["cell"] = json.loads(dump(LSTM().equations(False)))
    layer["parameters"] = {f"{letter}_{gate}": "w" for letter in "WU" for gate in "ifgo"}
    shared = {"w": np.zeros((size, size), np.float32)}
    stack = document["stack"] | {"layers": document["stack"]["layers"][:1]}
    read_stack(json.loads(json.dumps(stack)), shared)
    stack["layers"] = stack["layers"] * 5000
    with pytest.raises(DataError, match="asks for more numbers than the model has: the same tensors are named again"):
        read_stack(stack, shared)
    sources = Sources(shared)
    with pytest.raises(DataError, match="asks for more numbers"):
        [sources.matrix(Entry({"sum": ["w", "w"]}, "sum")) for _ in range(1000)]
    assert read_network(document_of(made), tensors)  # what a model of our own asks for


def test_members_read_the_same() -> None:
    """Members of one model get the same inputs: tokens of one vocabulary, or as many numbers."""
    made = CASES["classify_words-2"]()
    document, tensors = document_of(made), tensors_of(made.model)
    member = document["members"][0]
    other, more = deepcopy(member), dict(tensors)
    name = member["embedding"]["weight"]
    more["fewer"] = tensors[name][:-1]
    other["embedding"]["weight"] = "fewer"
    document["members"] = [member, deepcopy(member)]
    assert len(read_network(document, more).members) == 2  # type: ignore[union-attr]
    document["members"] = [member, other]
    with pytest.raises(DataError, match=rf"members read different inputs: {len(tensors[name])} tokens.* and .*tokens"):
        read_network(document, more)


def test_a_document_has_few_different_cells() -> None:
    """Each of them may cost seconds of a compiler."""
    made = CASES["language-0"]()
    document = document_of(made)
    layer = document["stack"]["layers"][0]
    document["stack"]["layers"] = [deepcopy(layer) for _ in range(MOST_CELLS + 1)]
    for number, one in enumerate(document["stack"]["layers"]):
        one["directions"][0]["cell"]["title"] = f"cell {number}"
    with pytest.raises(DataError, match="is one cell more than the 32 that a network may have"):
        read_network(document, tensors_of(made.model))


def test_deep_documents() -> None:
    deep: Any = []
    for _ in range(100_000):
        deep = [deep]
    made = CASES["language-0"]()
    for path in ("cell", "parameters", "initial", "reverse"):
        document = document_of(made)
        document["stack"]["layers"][0]["directions"][0][path] = deep
        with pytest.raises(DataError):
            read_network(document, tensors_of(made.model))
    while deep:  # taken apart step by step, as Python would recurse
        deep = deep[0]


@pytest.mark.parametrize("dtype", [torch.float16, torch.int64])
def test_other_types_of_numbers_are_refused(dtype: torch.dtype) -> None:
    made = CASES["language-0"]()
    document, tensors = document_of(made), tensors_of(made.model)
    tensors["head"] = tensors["head"].astype(torch.zeros(0, dtype=dtype).numpy().dtype)
    with pytest.raises(DataError, match="head.weight is of type"):
        read_network(document, tensors)


def test_baselines_have_no_network() -> None:
    numbers: Any = type("Numbers", (), {"tokens": None, "features": 3, "unit": "steps"})
    model = Classifier(PooledSettings(backbone="bag"), numbers, 3)
    assert isinstance(model.encoder, MemorylessEncoder)
    assert not has_network(model)
    with pytest.raises(ArgumentError, match="no recurrent layers.*`backbone='recurrent'`"):
        describe(model)


def test_both_sides_write_and_read_one_format() -> None:
    assert described.FORMAT == FORMAT


def test_weights_are_not_copied() -> None:
    made = CASES["language-0"]()
    tensors = tensors_of(made.model)
    network: Any = read_network(document_of(made), tensors)
    assert np.shares_memory(network.head.weight, tensors["head"])
    assert np.shares_memory(network.embedding.weight, tensors["embedding.weight"])
