"""Molecules written anew: the same by rdkit's canonical form, the same again, and what is no molecule."""

from __future__ import annotations

import sys

import numpy as np
import pytest
from rdkit import Chem

from unspool.data.labelled import Raw
from unspool.data.molecules import randomize_smiles
from unspool.errors import DataError, MissingPackageError

SMILES = ["C[C@H](N)C(=O)O", "Clc1ccc(Br)cc1[N+](=O)[O-]", "CC(=O)Oc1ccccc1C(=O)O", "C"]


def canonical_form(text: str) -> str:
    return str(Chem.MolToSmiles(Chem.MolFromSmiles(text)))


def raw_of(texts: list[str]) -> Raw:
    return Raw(texts, None, [str(row) for row in range(len(texts))], lambda row: f"m.csv, line {row + 2}", None)


def test_writings_are_of_the_same_molecules() -> None:
    found = randomize_smiles(raw_of(SMILES), 8)
    assert len(found) == 8
    canonical = [canonical_form(text) for text in SMILES]
    for one in found:
        assert [canonical_form(text) for text in one.texts or ()] == canonical
    assert len({(one.texts or [""])[2] for one in found}) >= 6
    assert {(one.texts or [""])[3] for one in found} == {"C"}


def test_writings_depend_on_the_molecule_alone() -> None:
    whole = randomize_smiles(raw_of(SMILES), 3)
    part = randomize_smiles(raw_of(SMILES[2:]), 3)
    assert [one.texts for one in part] == [(one.texts or [])[2:] for one in whole]
    assert [one.place(1) for one in part] == ["m.csv, line 3"] * 3


def test_what_is_no_molecule(capfd: pytest.CaptureFixture[str]) -> None:
    for wrong in ("c1cc", "C(C)(C)(C)(C)C", " "):
        with pytest.raises(DataError, match=r"m.csv, line 3: .* is no molecule .* Correct the SMILES"):
            randomize_smiles(raw_of(["CC", wrong]), 1)
    assert capfd.readouterr().err == ""
    assert randomize_smiles(raw_of(["nonsense"]), 0) == []


def test_numbers_are_no_molecules() -> None:
    with pytest.raises(DataError, match="`augment_smiles` is for molecules, and these are numbers. Leave it out"):
        randomize_smiles(Raw(None, [np.zeros((2, 1))], ["a"], str, None), 1)


def test_without_rdkit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "rdkit.Chem", None)
    with pytest.raises(MissingPackageError, match=r"`augment_smiles` needs rdkit: pip install 'unspool\[molecules\]'"):
        randomize_smiles(raw_of(SMILES), 1)
