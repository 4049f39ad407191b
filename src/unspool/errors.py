"""The exceptions that unspool raises.

    UnspoolError
    ├── ArgumentError (ValueError)                a value that cannot be used
    │   ├── ArgumentTypeError (TypeError)         a value of the wrong type
    │   ├── DTypeError (TypeError, RuntimeError)  a tensor of the wrong element type
    │   ├── ShapeError (RuntimeError)             a tensor of the wrong rank, width or count
    │   ├── DeviceError (RuntimeError)            tensors on different devices
    │   ├── UnknownNameError (KeyError)           a name that is in no list; says the nearest one
    │   └── DataError                             a file that cannot be read as what it should be
    ├── CellError                                 a `step` that cannot be read as equations
    ├── StorageError (OSError)                    a file that cannot be written; what was there before is untouched
    ├── TrainingError                             training that cannot go on
    │   ├── DivergenceError                       NaN or infinity in a model, in training or in use; says where
    │   └── OthersFailedError                     training that ends here because it does in another process
    ├── ClusterError                              a cluster that was lost during work; what was finished is kept
    ├── BuildError                                a kernel that cannot be built; the layer then runs eagerly
    ├── MissingPackageError (ImportError)         a package of an extra that is not installed; says the `pip install`
    └── ConvergenceError (ArithmeticError)        an iteration that has no limit

DataWarning (UserWarning) is what unspool says about data that it reads all the same.

The built-in parents let code written for torch.nn catch what it always caught.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

#: Extra → the modules that `pip install 'unspool[extra]'` brings and a plain `pip install unspool` does not.
EXTRAS: Mapping[str, tuple[str, ...]] = {
    "train": ("torch", "pydantic", "tomli_w", "polars", "plotly", "jinja2", "filelock", "threadpoolctl"),
    "onnx": ("onnx", "onnxruntime"),
    "keras": ("h5py",),
    "text": ("rjieba", "tokenizers"),
    "molecules": ("rdkit",),
    "sklearn": ("sklearn",),
    "tensorboard": ("tensorboard",),
    "wasm": ("ziglang", "wasmtime"),
    "serve": ("starlette", "uvicorn", "websockets", "redis"),
    "sweep": ("optuna",),
    "dask": ("distributed",),
    "peers": ("jax", "jaxlib", "optax"),
}


class UnspoolError(Exception):
    """Parent of every exception that unspool raises on purpose."""


class ArgumentError(UnspoolError, ValueError):
    """An argument has a value that cannot be used."""

    @classmethod
    def of(cls, name: str, value: object, problem: str, remedy: str) -> ArgumentError:
        """An error that says the argument's name, its value, what is wrong and what to do."""
        return cls(f"`{name}` (={_short(value)}) {problem}. {remedy}.")


class ArgumentTypeError(ArgumentError, TypeError):
    """An argument is of the wrong type."""


class DTypeError(ArgumentError, TypeError, RuntimeError):
    """A tensor has an element type that does not fit."""


class ShapeError(ArgumentError, RuntimeError):
    """A tensor has a rank, width or count that does not fit."""


class DeviceError(ArgumentError, RuntimeError):
    """Two tensors that must meet are on different devices."""


class UnknownNameError(ArgumentError, KeyError):
    """A name that is not in the list it was looked up in."""

    @classmethod
    def among(cls, name: str, value: object, known: Iterable[str]) -> UnknownNameError:
        """An error that suggests the known name nearest to `value`."""
        known = sorted(known)
        nearest = difflib.get_close_matches(str(value).lower(), known, n=1, cutoff=0.5)
        hint = f"Did you mean {nearest[0]!r}? " if nearest else ""
        return cls(f"`{name}` (={value!r}) is not known. {hint}Known: {', '.join(known)}.")

    def __str__(self) -> str:
        return str(self.args[0])


class DataError(ArgumentError):
    """A file, or what is in it, cannot be used as data."""


class DataWarning(UserWarning):
    """Data that is read all the same, and not quite as it should be; the message says how it is read."""


class CellError(UnspoolError):
    """A cell's `step` cannot be read as equations."""

    @staticmethod
    def shown(value: object) -> str:
        """A value of a `step` for a message: its repr, or the beginning of it."""
        return _short(value)


class StorageError(UnspoolError, OSError):
    """A file cannot be written; what was there before is untouched."""


class TrainingError(UnspoolError):
    """Training cannot go on; the message says what became of it, and where the last good state is."""


class DivergenceError(TrainingError):
    """A model has NaN, infinity or absurd numbers, in its weights or results; the message says where and when."""


class OthersFailedError(TrainingError):
    """Training ends in this process because it does in another one, which says why."""


class ClusterError(UnspoolError):
    """A cluster was lost during work, or has no workers any more; what was finished is kept."""


class BuildError(UnspoolError):
    """A kernel cannot be built; the message says why. Layers then run eagerly."""


class MissingPackageError(UnspoolError, ImportError):
    """A package of an extra is not installed; the message says which command brings it."""

    @classmethod
    @contextmanager
    def explaining(cls, wanted: str) -> Iterator[None]:
        """Inside, a failed import of a package that an extra has becomes this error; others stay what they are.

        Args:
            wanted: What needs the package, as the user named it: `unspool train`, `unspool.estimators`.

        Example:
            >>> with MissingPackageError.explaining("`enumerate`"):
            ...     import rdkit
            Traceback (most recent call last):
            unspool.errors.MissingPackageError: `enumerate` needs rdkit: pip install 'unspool[molecules]'
        """
        try:
            yield
        except cls:
            raise  # explained by who knew better what it is for
        except ImportError as error:
            module = (error.name or "").partition(".")[0]
            for extra, modules in EXTRAS.items():
                if module in modules:
                    raise cls(f"{wanted} needs {module}: pip install 'unspool[{extra}]'", name=module) from error
            raise


class ConvergenceError(UnspoolError, ArithmeticError):
    """A fixed-point iteration does not converge, or its limit is not stable."""

    def __init__(self, message: str, radius: float, iterations: int) -> None:
        super().__init__(message, radius, iterations)
        self.radius = radius
        self.iterations = iterations

    def __str__(self) -> str:
        return str(self.args[0])


def _short(value: object, limit: int = 80) -> str:
    """A value for a message: its repr, or the beginning of it."""
    try:
        text = repr(value)
    except ValueError:  # Python prints no whole number of more than 4300 digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= limit else text[: limit - 1] + "…"
