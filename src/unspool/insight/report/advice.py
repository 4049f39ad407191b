"""Advice: settings to change, and how they are written for a reader: as Python here, as options by the command line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple


@dataclass(frozen=True)
class Retrain:
    """How to train a run again: from its config, into another folder."""

    config: str
    out: str

    @classmethod
    def of(cls, run: str | Path) -> Retrain:
        """For the folder of a run.

        Example:
            >>> Retrain.of("runs/book").out
            'runs/book-2'
        """
        folder = Path(run)
        return cls(str(folder / "config.toml"), f"{folder}-2")


class Spelling(NamedTuple):
    """How settings are written for a reader.

    Attributes:
        command: Writes how to train a run again with some settings changed.
        text: Rewrites a text that names settings in backticks, as in `lr` or `clip=1`.
    """

    command: Callable[[Retrain, Mapping[str, Any]], str]
    text: Callable[[str], str]


def spell_python(retrain: Retrain, settings: Mapping[str, Any]) -> str:
    """The call that trains a run again, in Python.

    Args:
        retrain: the run's config, and the folder of the new run.
        settings: names of settings with their new values.

    Returns:
        One expression.

    Example:
        >>> print(spell_python(Retrain.of("runs/book"), {"clip": 1.0}))
        unspool.train(config="runs/book/config.toml", out="runs/book-2", clip=1.0)
    """
    given = {"config": retrain.config, "out": retrain.out, **settings}
    return f"unspool.train({', '.join(f'{name}={_literal(value)}' for name, value in given.items())})"


def _literal(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False) if isinstance(value, str) else repr(value)


def _unchanged(text: str) -> str:
    return text


#: Settings as keywords of Python.
PYTHON = Spelling(spell_python, _unchanged)
