"""Other people's forms of the same models, both ways; each name is imported when it is first used."""

from typing import TYPE_CHECKING

from unspool.errors import MissingPackageError
from unspool.lazy import import_on_use

if TYPE_CHECKING:
    from unspool.exchange.c.export import export_c as export_c
    from unspool.exchange.c.export import export_page as export_page
    from unspool.exchange.c.export import export_wasm as export_wasm
    from unspool.exchange.keras import from_keras as from_keras
    from unspool.exchange.onnx_import import from_onnx as from_onnx
    from unspool.exchange.torch_import import from_torch as from_torch
    from unspool.exchange.varma import LinearSystem as LinearSystem
    from unspool.exchange.varma import Varma as Varma
    from unspool.exchange.varma import from_varma as from_varma
    from unspool.exchange.varma import layer_of as layer_of
    from unspool.exchange.varma import system_of as system_of
    from unspool.exchange.varma import to_varma as to_varma

#: The module of each public name. What is exported needs no torch, and importing this package does not either.
_HOMES = {
    "LinearSystem": "varma",
    "Varma": "varma",
    "export_c": "c.export",
    "export_page": "c.export",
    "export_wasm": "c.export",
    "from_keras": "keras",
    "from_onnx": "onnx_import",
    "from_torch": "torch_import",
    "from_varma": "varma",
    "layer_of": "varma",
    "system_of": "varma",
    "to_varma": "varma",
}
__all__ = sorted(_HOMES)

if not TYPE_CHECKING:  # type checkers shall refuse other names
    _find = import_on_use(__name__, _HOMES)

    def __getattr__(name: str) -> object:
        """Import a public name when it is first used; a package of an extra that is missing is named."""
        with MissingPackageError.explaining(f"{__name__}.{name}"):
            return _find(name)


def __dir__() -> list[str]:
    return sorted({*_HOMES, *(name for name in globals() if name.startswith("__"))})
