"""Molecules as SMILES: other strings for the same molecule, by rdkit."""

from __future__ import annotations

import importlib
import reprlib
from dataclasses import replace
from typing import Any

from unspool.data.labelled import Raw
from unspool.errors import DataError, MissingPackageError

#: Seed of the random strings; rdkit takes 0 for none. It is the same for all molecules, so that the strings of one
#: depend on nothing but itself, and its prediction does not depend on the rest of the file.
SEED = 1


def randomize_smiles(raw: Raw, count: int) -> list[Raw]:
    """The same molecules `count` times over, each time as other random SMILES; small ones may repeat.

    Args:
        raw: Molecules as SMILES.
        count: Random strings per molecule.

    Returns:
        `count` copies of `raw` with other texts.
    """
    if not count:
        return []
    if raw.texts is None:
        raise DataError("`augment_smiles` is for molecules, and these are numbers. Leave it out.")
    chemistry, base = _library()
    with base.BlockLogs():  # it would print what the error says
        strings = [_random_strings(chemistry, raw, index, count) for index in range(len(raw))]
    return [replace(raw, texts=list(texts)) for texts in zip(*strings, strict=True)]


def _random_strings(chemistry: Any, raw: Raw, index: int, count: int) -> list[str]:
    assert raw.texts is not None
    molecule = chemistry.MolFromSmiles(raw.texts[index])
    if molecule is None or not molecule.GetNumAtoms():
        raise DataError(
            f"{raw.place(index)}: {reprlib.repr(raw.texts[index])} is no molecule that rdkit can read. Correct the "
            "SMILES, or leave the row out."
        )
    found: list[str] = list(chemistry.MolToRandomSmilesVect(molecule, count, randomSeed=SEED))
    return found


def _library() -> tuple[Any, Any]:
    with MissingPackageError.explaining("`augment_smiles`"):
        return importlib.import_module("rdkit.Chem"), importlib.import_module("rdkit.rdBase")
