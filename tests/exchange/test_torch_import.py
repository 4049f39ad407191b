"""State dicts of torch models into unspool: the models that wrote them are the judges."""

from __future__ import annotations

import json
import pickle
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from unspool.errors import DataError
from unspool.exchange import from_torch
from unspool.exchange.compare import compare_with_source


class LanguageModel(nn.Module):
    """As in torch's examples: encoder, rnn, decoder, perhaps tied."""

    def __init__(self, kind: Any, tied: bool = False, **options: Any) -> None:
        super().__init__()
        self.encoder = nn.Embedding(11, 6)
        self.rnn = kind(6, 6, batch_first=True, **options)
        self.decoder = nn.Linear(12 if options.get("bidirectional") else 6, 11)
        if tied:
            self.decoder.weight = self.encoder.weight

    def forward(self, tokens: Tensor) -> Tensor:
        output: Tensor = self.decoder(self.rnn(self.encoder(tokens))[0])
        return output


class Classifier(nn.Module):
    """A classifier with names of its own, two linear maps, and other sizes."""

    def __init__(self) -> None:
        super().__init__()
        self.word_vectors = nn.Embedding(9, 5)
        self.lower = nn.GRU(5, 4, batch_first=True, bidirectional=True)
        self.upper = nn.LSTM(8, 3, batch_first=True, num_layers=2)
        self.hidden = nn.Linear(3, 7)
        self.classes = nn.Linear(7, 2)

    def forward(self, tokens: Tensor) -> Tensor:
        output, _ = self.upper(self.lower(self.word_vectors(tokens))[0])
        return self.classes(self.hidden(output))  # type: ignore[no-any-return]


MODELS: dict[str, Any] = {
    "lstm": lambda: LanguageModel(nn.LSTM, num_layers=2),
    "gru": lambda: LanguageModel(nn.GRU, bidirectional=True),
    "rnn": lambda: LanguageModel(nn.RNN, bias=False),
    "tied": lambda: LanguageModel(nn.LSTM, tied=True),
    "classifier": Classifier,
}
TOKENS = torch.randint(0, 9, (3, 7), generator=torch.Generator().manual_seed(0))


def made(name: str) -> Any:
    torch.manual_seed(0)
    return MODELS[name]().eval()


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("form", ["dict", "pt", "wrapped", "safetensors"])
def test_a_state_dict_becomes_layers_with_the_same_output(name: str, form: str, tmp_path: Path) -> None:
    theirs = made(name)
    tensors = {f"module.net.{key}": value for key, value in theirs.state_dict().items()}
    source: Any = tensors
    if form == "safetensors":
        source = tmp_path / "model.safetensors"
        distinct = {key: value for key, value in tensors.items() if name != "tied" or "decoder.weight" not in key}
        save_file(distinct, source)
    elif form != "dict":
        source = tmp_path / "model.pt"
        torch.save(tensors if form == "pt" else {"epoch": 3, "state_dict": tensors}, source)
    ours = from_torch(source)
    with torch.no_grad():
        torch.testing.assert_close(ours(TOKENS), theirs(TOKENS), rtol=0, atol=1e-6)
    if name == "tied":
        embedding, _, head = ours.parts
        assert head.module.weight is embedding.module.weight
        assert any("tied" in note for note in ours.notes)


def test_the_report_says_what_was_found_and_what_was_assumed() -> None:
    said = from_torch({**made("rnn").state_dict(), "extra.scale": torch.ones(3)}).report()
    assert "RNN(6, 6" in said
    assert "tanh is assumed" in said
    assert "left out: extra.scale" in said


def test_relu_can_be_said() -> None:
    theirs = nn.RNN(3, 4, nonlinearity="relu", batch_first=True)
    ours = from_torch(theirs.state_dict(), nonlinearity="relu")
    x = torch.randn(2, 5, 3)
    torch.testing.assert_close(ours(x), theirs(x)[0], rtol=0, atol=1e-6)


@pytest.mark.filterwarnings("ignore:LSTM with projections")
def test_single_cells_and_projections_are_read() -> None:
    cell = nn.LSTMCell(3, 4)
    x = torch.randn(2, 3)
    torch.testing.assert_close(from_torch(cell.state_dict())(x.unsqueeze(1))[:, 0], cell(x)[0], rtol=0, atol=1e-6)
    layer = nn.LSTM(3, 4, proj_size=2, batch_first=True, bidirectional=True)
    sequence = torch.randn(2, 5, 3)
    torch.testing.assert_close(from_torch(layer.state_dict())(sequence), layer(sequence)[0], rtol=0, atol=1e-6)


class Evil:
    """Runs when it is loaded."""

    def __reduce__(self) -> Any:
        return (exec, ("raise SystemExit('it ran')",))


def test_files_that_would_run_code_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "evil.pt"
    torch.save({"state_dict": {"a": Evil()}}, path)
    with pytest.raises(DataError, match="refused"):
        from_torch(path)
    path.write_bytes(pickle.dumps(Evil()))
    with pytest.raises(DataError, match="not a file of torch.save"):
        from_torch(path)
    torch.save(nn.LSTM(3, 4), path)
    with pytest.raises(DataError, match="state_dict"):
        from_torch(path)


def test_bad_files_are_one_clear_error(tmp_path: Path) -> None:
    bomb = tmp_path / "bomb.pt"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("archive/data/0", bytes(1 << 24))
    with pytest.raises(DataError, match="say that they hold"):
        from_torch(bomb)
    for name in ("a.pt", "a.safetensors"):
        (tmp_path / name).write_bytes(b"no")
        with pytest.raises(DataError):
            from_torch(tmp_path / name)
    with pytest.raises(DataError, match="No such file"):
        from_torch(tmp_path / "none.pt")
    with pytest.raises(DataError, match="not a file"):
        from_torch(tmp_path)


def test_files_that_claim_more_than_they_hold(tmp_path: Path) -> None:
    """Headers, archives and names cost nothing; what they ask for would."""
    entry = {"dtype": "F32", "shape": [1 << 20, 1 << 12], "data_offsets": [0, 1 << 34]}
    for header, length in (({"weight_ih_l0": entry}, None), ({}, 1 << 40), ({"a": {**entry, "shape": [-1]}}, None)):
        text = json.dumps(header).encode()
        path = tmp_path / "large.safetensors"
        path.write_bytes((length or len(text)).to_bytes(8, "little") + text)
        with pytest.raises(DataError, match="cannot be read"):
            from_torch(path)
    shared = torch.zeros(256, 256)
    torch.save({f"lstm.weight_ih_l{layer}": shared for layer in range(1000)}, tmp_path / "names.pt")
    assert (tmp_path / "names.pt").stat().st_size < 1 << 20
    with pytest.raises(DataError, match="bytes are named as 65,536,000 numbers"):
        from_torch(tmp_path / "names.pt")


def test_several_embeddings_are_refused_and_equal_ones_are_one() -> None:
    """Which one is meant must not depend on the order of names in memory."""
    tensors = dict(made("lstm").state_dict())
    with pytest.raises(DataError, match=r"could be the embedding: encoder.weight, position_embedding.weight\. Leave"):
        from_torch({**tensors, "position_embedding.weight": torch.randn(20, 6)})
    again = from_torch({**tensors, "embedding_copy.weight": tensors["encoder.weight"].clone()})
    assert again.parts[0].name == "encoder"


@pytest.mark.parametrize("name", MODELS)
def test_the_comparison_sees_every_layer_that_was_misread(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.pt"
    torch.save(made(name).state_dict(), path)
    exact, how = compare_with_source(from_torch(path), path)
    assert "torch.nn" in how
    assert exact is not None
    assert exact < 1e-6
    for place in range(len(from_torch(path).parts)):
        wrong = from_torch(path)
        with torch.no_grad():
            next(wrong.parts[place].module.parameters()).mul_(-1)
        found, _ = compare_with_source(wrong, path)
        assert found is not None
        assert found > 1e-2
        with torch.no_grad():
            next(wrong.parts[place].module.parameters()).fill_(float("nan"))
        assert compare_with_source(wrong, path)[0] == float("inf")


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_mutated_files_give_layers_or_a_clear_error(name: str, tmp_path: Path) -> None:
    path, tensors = tmp_path / name, dict(nn.LSTM(3, 4).state_dict())
    torch.save(tensors, path) if name.endswith("pt") else save_file(tensors, path)
    whole, generator = path.read_bytes(), torch.Generator().manual_seed(0)
    refused = 0
    for _ in range(100):
        bad = bytearray(whole)
        for place in torch.randint(0, len(bad), (5,), generator=generator).tolist():
            bad[place] = int(torch.randint(0, 256, (), generator=generator))
        path.write_bytes(bytes(bad))
        try:
            assert from_torch(path).recurrent
        except DataError:
            refused += 1
    assert refused


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda d: {"a.weight": torch.ones(3, 3)}, "no recurrent layer"),
        (lambda d: {}, "no tensors"),
        (lambda d: {k: v for k, v in d.items() if "hh" not in k}, "not complete"),
        (lambda d: {**d, "weight_hh_l0": torch.ones(16, 5)}, "units"),
        (lambda d: {**d, "bias_ih_l0": torch.ones(3)}, "weights of a LSTM"),
        (lambda d: {**d, "weight_ih_l99999999": torch.ones(16, 4)}, "all its layers"),
    ],
)
def test_state_dicts_that_do_not_fit_are_refused(change: Any, said: str) -> None:
    with pytest.raises(DataError, match=said):
        from_torch(change(nn.LSTM(3, 4).state_dict()))
