"""accelerate and restore: replace torch.nn's recurrent layers inside a model by ours, and undo that."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from torch import nn
from torch.nn.utils import parametrize

from unspool.errors import ArgumentTypeError
from unspool.nn.drop_in import DropIn
from unspool.nn.rnn import GRU, LSTM, RNN

OURS: dict[type[nn.Module], type[DropIn]] = {ours.torch_class: ours for ours in (RNN, GRU, LSTM)}
REPLACED = "its forward was replaced"


class Changed(list[str]):
    """The names of the layers that changed, as a list; `skipped` says of the other recurrent layers why they did not.

    Example:
        >>> unspool.accelerate(model)
        ['encoder'], skipped: {'decoder': 'Decoder is a subclass of torch.nn.LSTM'}
    """

    def __init__(self, names: list[str], skipped: Mapping[str, str]) -> None:
        super().__init__(names)
        self.skipped = dict(skipped)

    def __repr__(self) -> str:
        return super().__repr__() + (f", skipped: {self.skipped}" if self.skipped else "")


def accelerate(module: nn.Module) -> Changed:
    """Make every torch.nn.RNN, GRU and LSTM inside a model one of ours, in place.

    The layers stay the same objects with the same parameters and hooks, so existing optimizers, references and
    state_dicts keep working. They are still instances of torch.nn's classes, but no longer of exactly that type. Tools
    that look up `type(layer)`, such as `quantize_dynamic`, do not know them: call `restore` first. As with torch.nn's
    layers, torch.compile leaves a model that contains them uncompiled unless `torch._dynamo.config.allow_rnn` is set.

    Args:
        module: a model, or a layer itself.

    Returns:
        The names of the layers that changed, as a list; "" is the module itself. Its `skipped` maps the names of the
        other recurrent layers to the reason why they did not.

    Example:
        >>> model = torch.nn.Sequential(torch.nn.LSTM(64, 128))
        >>> unspool.accelerate(model)
        ['0']
    """
    return _change(module, lambda layer: OURS.get(type(layer)), _why_not_accelerated)


def restore(module: nn.Module) -> Changed:
    """Make every layer of unspool.nn that stands for one of torch.nn's that layer again, in place.

    Args:
        module: a model, or a layer itself.

    Returns:
        The names of the layers that changed, as a list; "" is the module itself. Its `skipped` maps the names of those
        that have no counterpart in torch.nn to the reason.

    Example:
        >>> unspool.accelerate(model)
        ['0']
        >>> unspool.restore(model)
        ['0']
    """
    changed = _change(module, _restored, _why_not_restored)
    for name in changed:
        for extra in ("recompute", "reset"):  # torch.nn's layers have no such attributes
            vars(module.get_submodule(name)).pop(extra, None)
    return changed


def _change(
    module: nn.Module,
    find: Callable[[nn.Module], type[nn.Module] | None],
    why_not: Callable[[nn.Module], str | None],
) -> Changed:
    """Give every layer for which `why_not` has no reason the class that `find` finds for it."""
    if not isinstance(module, nn.Module):
        raise ArgumentTypeError.of("module", module, "is not a torch.nn.Module", "Give the model itself")
    changed, skipped = [], {}
    for name, layer in module.named_modules():
        if reason := why_not(layer):
            skipped[name] = reason
        elif new := find(layer):
            layer.__class__ = new
            changed.append(name)
    return Changed(changed, skipped)


def _why_not_accelerated(layer: nn.Module) -> str | None:
    """Why a recurrent layer of torch.nn stays as it is; None if it does not, or is something else."""
    kind = type(layer)
    if isinstance(layer, nn.RNNCellBase):
        return f"{kind.__name__} runs one step per call"
    if not isinstance(layer, nn.RNNBase) or isinstance(layer, DropIn):
        return None
    if parametrize.is_parametrized(layer):
        return "it is parametrized; accelerate first, then parametrize"
    if kind not in OURS:
        return f"{kind.__name__} is a subclass of torch.nn.{_base(kind).__name__}"
    return REPLACED if "forward" in vars(layer) else None


def _base(kind: type[nn.Module]) -> type[nn.Module]:
    """The nearest class of torch.nn that a subclass derives from."""
    return next((base for base in kind.__mro__ if base in OURS), nn.RNNBase)


def _restored(layer: nn.Module) -> type[nn.Module] | None:
    return layer.torch_class if type(layer) in OURS.values() else None  # type: ignore[return-value]


def _why_not_restored(layer: nn.Module) -> str | None:
    """Why a drop-in stays as it is; None if it does not, or is something else."""
    if not isinstance(layer, DropIn):
        return None
    if parametrize.is_parametrized(layer):
        return "it is parametrized; remove its parametrizations first"
    if type(layer) not in OURS.values():
        return f"{type(layer).__name__} is a subclass of unspool.nn.{type(layer).torch_class.__name__}"
    if "forward" in vars(layer):
        return REPLACED
    return None if layer._matches_torch() else "torch.nn has no GRU with reset='before'"
