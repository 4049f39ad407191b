"""Molecules as SMILES: the same molecule written in other ways, by rdkit."""

from __future__ import annotations

import importlib
import reprlib
from dataclasses import replace
from typing import Any

from unspool.data.labelled import Raw
from unspool.errors import DataError

#: Of the chance by which writings are drawn; rdkit takes 0 for none. It is one for all molecules, so that the writings
#: of a molecule depend on nothing but the molecule, and a prediction not on what stands beside it in a file.
SEED = 1


def write_anew(raw: Raw, count: int) -> list[Raw]:
    """The molecules, each written in a way by chance, `count` times over; small ones have fewer ways than that."""
    if not count:
        return []
    if raw.texts is None:
        raise DataError("other ways to write a molecule need SMILES, and these are numbers. Leave `enumerate` out.")
    chemistry, base = _library()
    with base.BlockLogs():  # it would say on the screen what the error says
        writings = [_writings(chemistry, raw, row, count) for row in range(len(raw))]
    return [replace(raw, texts=list(texts)) for texts in zip(*writings, strict=True)]


def _writings(chemistry: Any, raw: Raw, row: int, count: int) -> list[str]:
    assert raw.texts is not None
    molecule = chemistry.MolFromSmiles(raw.texts[row])
    if molecule is None or not molecule.GetNumAtoms():
        raise DataError(
            f"{raw.place(row)}: {reprlib.repr(raw.texts[row])} is no molecule that rdkit can read. Correct the "
            "SMILES, or leave the row out."
        )
    found: list[str] = list(chemistry.MolToRandomSmilesVect(molecule, count, randomSeed=SEED))
    return found


def _library() -> tuple[Any, Any]:
    try:
        return importlib.import_module("rdkit.Chem"), importlib.import_module("rdkit.rdBase")
    except ImportError as error:
        raise DataError(
            "other writings of a molecule need rdkit. Run: pip install 'unspool[molecules]', or leave `enumerate` out."
        ) from error
