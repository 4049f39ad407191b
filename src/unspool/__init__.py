"""unspool: write the recurrence once; train it fast, see inside it, run it anywhere.

The public names, each imported when it is first used: `import unspool` needs no torch.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unspool import cells as cells
    from unspool import engine as engine
    from unspool import errors as errors
    from unspool import estimators as estimators
    from unspool import exchange as exchange
    from unspool import export as export
    from unspool import insight as insight
    from unspool import lab as lab
    from unspool import learning as learning
    from unspool import nn as nn
    from unspool.cells import Cell as Cell
    from unspool.cells import sigmoid as sigmoid
    from unspool.cells import tanh as tanh
    from unspool.insight.xray import xray as xray
    from unspool.nn.accelerate import accelerate as accelerate
    from unspool.nn.accelerate import restore as restore
    from unspool.runs.train import train as train
    from unspool.runtime.run_player import load as load
    from unspool.sweeps.sweep import sweep as sweep

__version__ = "0.1.0"

__all__ = [
    "Cell",
    "accelerate",
    "cells",
    "engine",
    "errors",
    "estimators",
    "exchange",
    "export",
    "insight",
    "lab",
    "learning",
    "load",
    "nn",
    "restore",
    "sigmoid",
    "sweep",
    "tanh",
    "train",
    "xray",
]

#: The module of each public name that is not itself a module.
_HOMES = {
    "Cell": "unspool.cells",
    "accelerate": "unspool.nn.accelerate",
    "load": "unspool.runtime.run_player",
    "restore": "unspool.nn.accelerate",
    "sigmoid": "unspool.cells",
    "sweep": "unspool.sweeps.sweep",
    "tanh": "unspool.cells",
    "train": "unspool.runs.train",
    "xray": "unspool.insight.xray",
}


if not TYPE_CHECKING:  # type checkers shall refuse other names

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used (PEP 562)."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        from importlib import import_module

        from unspool.errors import MissingPackageError

        with MissingPackageError.explaining(f"{__name__}.{name}"):
            module = import_module(_HOMES.get(name, f"{__name__}.{name}"))
        value = getattr(module, name) if name in _HOMES else module
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*__all__, *(name for name in globals() if name.startswith("__"))})
