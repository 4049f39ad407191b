"""State dicts of torch models: recurrent layers with embeddings and heads around them, found by suffixes and shapes."""

from __future__ import annotations

import pickle
import re
import zipfile
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn

from unspool.errors import ArgumentTypeError, DataError
from unspool.exchange.imported import ImportedModel, Part, chained
from unspool.exchange.limits import check_archive, check_file, check_numbers, is_archive
from unspool.nn import GRU, LSTM, RNN

#: What ends the names of a recurrent layer's weights: of torch.nn's layers, and of its cells, which have no number.
WEIGHT = re.compile(
    r"(?P<prefix>.*?)(?P<kind>weight_ih|weight_hh|bias_ih|bias_hh|weight_hr)(?P<rest>(_l\d+(_reverse)?)?)"
)
#: Entries of a checkpoint that hold the state dict.
WRAPPERS = ("state_dict", "model_state_dict", "model", "net", "weights")
KINDS: dict[int, Any] = {4: LSTM, 3: GRU, 1: RNN}
#: Words in the names of embeddings and of heads, for where shapes leave a choice.
EMBEDDING_WORDS = ("emb", "encoder", "wte", "lookup")


def from_torch(source: str | Path | Mapping[str, Any], *, nonlinearity: str = "tanh") -> ImportedModel:
    """Read the recurrent layers of a state dict, and the embedding and the heads around them.

    Args:
        source: A `.safetensors` file, a `.pt` or `.pth` of `torch.save(model.state_dict())`, which is read with
            `weights_only`, or a state dict. Names may have any prefix.
        nonlinearity: "tanh" or "relu" for layers of `torch.nn.RNN`, which a state dict does not tell apart.

    Returns:
        The layers: RNN, GRU and LSTM of unspool.nn with `batch_first`, Embedding and Linear of torch.nn.

    Raises:
        DataError: The file cannot be read, holds something else than tensors, or has no recurrent layer.

    Example:
        model = unspool.exchange.from_torch("lm.pt")
        logits = model(tokens)  # (batch, time)
    """
    tensors = read_tensors(source)
    notes: list[str] = []
    recurrent, used = _recurrent(tensors, nonlinearity, notes)
    if not recurrent:
        raise DataError(
            "there is no recurrent layer: no names end in `weight_ih_l0`. Give a model with RNN, GRU or LSTM."
        )
    rest = {name: tensor for name, tensor in tensors.items() if name not in used}
    around, left = _around(rest, recurrent, notes)
    if left:
        notes.append(f"left out: {', '.join(sorted(left)[:8])}{' …' if len(left) > 8 else ''}")
    return ImportedModel("torch", chained([*around[0], *recurrent, *around[1]]), notes)


def read_tensors(source: Any) -> dict[str, Tensor]:
    """The tensors of real numbers of a file or a state dict, in float32, by their names."""
    found = _read(source)
    if not isinstance(source, Mapping):
        numbers = sum(one.numel() for one in found.values() if isinstance(one, Tensor))
        check_numbers(numbers, Path(source), Path(source).stat().st_size)
    return _floats(found)


def _read(source: Any) -> Mapping[str, Any]:
    if isinstance(source, Mapping):
        return _unwrap(source, "the state dict")
    if not isinstance(source, str | Path):
        problem = f"is a {type(source).__name__}"
        raise ArgumentTypeError.of(
            "source", source, problem, "Give a file or a state dict, as model.state_dict() gives"
        )
    path = Path(source)
    size = check_file(path, ".safetensors or .pt")
    if path.suffix == ".safetensors":
        try:
            return safetensors.torch.load_file(path)
        except (safetensors.SafetensorError, OSError, ValueError, RuntimeError) as error:
            raise DataError(f"{path} cannot be read: {error}. Save it again.") from error
    return _unwrap(_load(path, size), str(path))


def _load(path: Path, size: int) -> Any:
    """What torch.save wrote, without running anything in it."""
    if not is_archive(path):
        raise DataError(f"{path} is not a file of torch.save since torch 1.6. Save it again, or as .safetensors.")
    try:
        with zipfile.ZipFile(path) as archive:
            check_archive(archive, path, size)
        return torch.load(path, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as error:
        said = "it holds objects that only running its code would load"
        raise DataError(f"{path} is refused: {said}. Save model.state_dict(), not the model.") from error
    except DataError:
        raise
    except Exception as error:  # a damaged archive makes torch raise many kinds
        said = str(error).partition("\n")[0].removesuffix(".")
        raise DataError(f"{path} cannot be read: {said}. Save it again.") from error


def _unwrap(found: Any, where: str) -> Mapping[str, Any]:
    """The state dict itself, of a checkpoint that has it in an entry."""
    for _ in range(3):
        if not isinstance(found, Mapping):
            break
        if any(isinstance(one, Tensor) for one in found.values()):
            return found
        name = next((name for name in WRAPPERS if isinstance(found.get(name), Mapping)), None)
        if name is None:
            break
        found = found[name]
    raise DataError(f"{where} has no tensors by name. Save model.state_dict().")


def _floats(found: Mapping[str, Any]) -> dict[str, Tensor]:
    """The dense tensors of real numbers, in float32; refused where one claims more numbers than it has."""
    for name, one in found.items():
        if isinstance(one, Tensor) and one.layout == torch.strided and one.numel() > _stored(one):
            raise DataError(f"tensor {name} of shape {tuple(one.shape)} repeats its numbers. Save a copy of its own.")
    return {
        str(name): one.detach().float().contiguous()
        for name, one in found.items()
        if isinstance(one, Tensor) and one.is_floating_point() and one.layout == torch.strided
    }


def _stored(tensor: Tensor) -> int:
    """How many numbers the memory of a tensor holds."""
    return tensor.untyped_storage().nbytes() // max(tensor.element_size(), 1)


def _recurrent(tensors: Mapping[str, Tensor], nonlinearity: str, notes: list[str]) -> tuple[list[Part], set[str]]:
    """Every recurrent layer of the state dict, and the names of its tensors."""
    groups = recurrent_groups(tensors)
    parts, used = [], set[str]()
    for prefix, names in groups.items():
        layer = _make(prefix, {own: tensors[name] for own, name in names.items()}, nonlinearity)
        if isinstance(layer, RNN):
            notes.append(
                f"{prefix or 'the layer'} is an RNN: its nonlinearity is not in the file, {nonlinearity} is assumed"
            )
        parts.append(Part(prefix.rstrip(".") or "recurrent", layer))
        used.update(names.values())
    return chained(parts) if parts else [], used


def recurrent_groups(names: Iterable[str]) -> dict[str, dict[str, str]]:
    """Prefix of a recurrent layer → the names of its weights in torch.nn → their names in the state dict."""
    groups: dict[str, dict[str, str]] = {}
    for name in names:
        if found := WEIGHT.fullmatch(name):
            own = found["kind"] + (found["rest"] or "_l0")
            groups.setdefault(found["prefix"], {})[own] = name
    return groups


def _make(prefix: str, own: Mapping[str, Tensor], nonlinearity: str) -> nn.Module:
    """torch.nn's layer of these weights, as ours."""
    where = prefix or "the layer"
    if not {"weight_ih_l0", "weight_hh_l0"} <= own.keys() or any(
        own[name].dim() != 2 for name in own if "weight" in name
    ):
        raise DataError(f"{where} has no matrices weight_ih_l0 and weight_hh_l0. The state dict is not complete.")
    rows, input_size = own["weight_ih_l0"].shape
    projected = own.get("weight_hr_l0")
    hidden = own["weight_hh_l0"].shape[1] if projected is None else projected.shape[1]
    kind = KINDS.get(rows // hidden) if hidden and not rows % hidden else None
    if kind is None or (projected is not None and kind is not LSTM):
        raise DataError(f"{where} has {rows} rows for {hidden} units, which is no RNN, GRU or LSTM.")
    options: dict[str, Any] = {
        "num_layers": 1 + max(int(re.findall(r"_l(\d+)", name)[0]) for name in own),
        "bidirectional": "weight_ih_l0_reverse" in own,
        "bias": "bias_ih_l0" in own,
        "batch_first": True,
        **({"nonlinearity": nonlinearity} if kind is RNN else {}),
        **({} if projected is None else {"proj_size": projected.shape[0]}),
    }
    if options["num_layers"] * 2 * (2 if options["bidirectional"] else 1) > len(own):
        raise DataError(f"{where} does not have all its layers. The state dict is not complete.")
    made = kind(input_size, hidden, **options)
    try:
        made.load_state_dict(dict(own))
    except RuntimeError as error:
        said = " ".join(str(error).split())
        raise DataError(f"{where} does not have the weights of a {kind.__name__}: {said}") from error
    layer: nn.Module = made.eval()
    return layer


def _around(
    rest: Mapping[str, Tensor], recurrent: list[Part], notes: list[str]
) -> tuple[tuple[list[Part], list[Part]], set[str]]:
    """Embeddings before, linear maps after the recurrent layers, and the names of what is neither."""
    first, last = recurrent[0].widths[0], {part.widths[1] for part in recurrent}
    matrices = {name: one for name, one in rest.items() if name.endswith("weight") and one.dim() == 2}
    biases = {name.removesuffix("bias"): one for name, one in rest.items() if name.endswith("bias") and one.dim() == 1}
    embeddings = [name for name in matrices if _is_embedding(name, matrices, biases, first, last)]
    _refuse_ambiguity(embeddings, matrices)
    before = [Part(_stem(name), _embedding(matrices[name])) for name in embeddings[:1]]
    after, reached = [], set(last)
    left = [name for name in matrices if name not in embeddings]
    while found := next((name for name in left if matrices[name].shape[1] in reached), None):  # files may sort names
        left.remove(found)
        bias = biases.pop(found.removesuffix("weight"), None)
        after.append(Part(_stem(found), _linear(matrices[found], bias)))
        reached.add(matrices[found].shape[0])
    _tie(before, after, biases, last, notes)
    kept = {f"{part.name}.{own}" for part in (*before, *after) for own in ("weight", "bias")}
    return (before, after), {name for name in rest if name not in kept} - {"weight", "bias"}


def _refuse_ambiguity(embeddings: list[str], matrices: Mapping[str, Tensor]) -> None:
    """Refuse several embeddings that are not the same."""
    if any(not torch.equal(matrices[name], matrices[embeddings[0]]) for name in embeddings[1:]):
        names = ", ".join(sorted(embeddings))
        raise DataError(f"several matrices could be the embedding: {names}. Leave the others out of the state dict.")


def _is_embedding(
    name: str, matrices: Mapping[str, Tensor], biases: Mapping[str, Tensor], width: int, last: set[int]
) -> bool:
    """Whether a matrix is an embedding: as wide as the lowest layer's input, without a bias, and no head.

    Where several could be, or a head could, names decide.
    """
    could = [one for one in matrices if matrices[one].shape[1] == width and one.removesuffix("weight") not in biases]
    named = [one for one in could if any(word in one.lower() for word in EMBEDDING_WORDS)]
    biased = [one for one in matrices if one.removesuffix("weight") in biases and matrices[one].shape[1] in last]
    sure = could if len(could) == 1 and (biased or width not in last) else []
    return name in (named or sure)


def _tie(before: list[Part], after: list[Part], biases: Mapping[str, Tensor], last: set[int], notes: list[str]) -> None:
    """A head whose weights are the embedding's: equal ones become one, and a bias alone is a head without its own."""
    for table in before:
        module: Any = table.module
        tokens, width = module.weight.shape
        for part in after:
            head: Any = part.module
            if head.weight.shape == module.weight.shape and torch.equal(head.weight, module.weight):
                head.weight = module.weight
                notes.append(f"{part.name} is tied to {table.name}")
        lone = [stem for stem, bias in biases.items() if len(bias) == tokens]
        reached = {part.widths[1] for part in after} | last
        if lone and width in reached:
            made = _linear(module.weight.detach(), biases[lone[0]])
            made.weight = module.weight
            after.append(Part(lone[0].rstrip(".") or "head", made))
            notes.append(f"{after[-1].name} is tied to {table.name}")


def _stem(name: str) -> str:
    return name.removesuffix("weight").rstrip(".") or "weight"


def _embedding(matrix: Tensor) -> nn.Embedding:
    made = nn.Embedding(*matrix.shape)
    made.load_state_dict({"weight": matrix})
    return made


def _linear(matrix: Tensor, bias: Tensor | None) -> nn.Linear:
    if bias is not None and bias.shape != matrix.shape[:1]:
        raise DataError(f"a linear map of shape {tuple(matrix.shape)} has a bias of shape {tuple(bias.shape)}.")
    made = nn.Linear(matrix.shape[1], matrix.shape[0], bias=bias is not None)
    made.load_state_dict({"weight": matrix, **({} if bias is None else {"bias": bias})})
    return made
