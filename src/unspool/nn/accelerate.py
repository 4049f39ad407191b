"""accelerate and restore: replace torch.nn's recurrent layers inside a model by ours, and undo that."""

from __future__ import annotations

from torch import nn

from unspool.errors import ArgumentTypeError
from unspool.nn.rnn import GRU, LSTM, RNN

OURS: dict[type[nn.RNNBase], type[nn.RNNBase]] = {nn.RNN: RNN, nn.GRU: GRU, nn.LSTM: LSTM}
TORCHS = {ours: torchs for torchs, ours in OURS.items()}
MARK = "_accelerated"


def accelerate(module: nn.Module) -> list[str]:
    """Make every torch.nn.RNN, GRU and LSTM inside a model one of ours, in place.

    The layers stay the same objects with the same parameters and hooks, so existing optimizers, references and
    state_dicts keep working. Subclasses of torch.nn's layers are left as they are.

    Args:
        module: a model, or a layer itself.

    Returns:
        The names of the layers that changed; "" is the module itself.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.LSTM(64, 128))
        >>> unspool.accelerate(model)
        ['0']
    """
    changed = []
    for name, layer in _modules(module):
        if type(layer) in OURS:
            layer.__class__ = OURS[type(layer)]  # type: ignore[index]
            setattr(layer, MARK, True)
            changed.append(name)
    return changed


def restore(module: nn.Module) -> list[str]:
    """Undo `accelerate`: the layers that it changed are torch.nn's again.

    Args:
        module: a model, or a layer itself.

    Returns:
        The names of the layers that changed; "" is the module itself.

    Example:
        >>> unspool.accelerate(model)
        ['0']
        >>> unspool.restore(model)
        ['0']
    """
    changed = []
    for name, layer in _modules(module):
        if getattr(layer, MARK, False) and type(layer) in TORCHS:
            layer.__class__ = TORCHS[type(layer)]  # type: ignore[index]
            delattr(layer, MARK)
            changed.append(name)
    return changed


def _modules(module: nn.Module) -> list[tuple[str, nn.Module]]:
    if not isinstance(module, nn.Module):
        raise ArgumentTypeError.of("module", module, "is not a torch.nn.Module", "Give the model itself")
    return list(module.named_modules())
