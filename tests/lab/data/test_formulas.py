"""Formulas: each text is read by a parser of its own, which counts the bonds of every atom."""

from __future__ import annotations

import pytest

from unspool.errors import ArgumentError
from unspool.lab.data import formulas

VALENCE = {"C": 4, "N": 3, "O": 2, "F": 1}
CONTRIBUTION = {
    **{("C", 0): 0.2, ("C", 1): -0.1, ("C", 2): -0.4, ("C", 3): -0.6, ("C", 4): -0.8},
    **{("N", 0): 0.1, ("N", 1): 0.5, ("N", 2): 0.9, ("N", 3): 1.2},
    **{("O", 0): 0.3, ("O", 1): 1.0, ("O", 2): 1.5, ("F", 0): -0.3, ("F", 1): 0.0},
}


def parse(text: str) -> list[tuple[str, int]]:
    """The element and the number of hydrogens of each atom."""
    atoms: list[list[int | str]] = []
    last, order, open_branches = -1, 1, list[int]()
    for character in text:
        if character == "(":
            open_branches.append(last)
        elif character == ")":
            last = open_branches.pop()
        elif character == "=":
            order = 2
        else:
            atoms.append([character, VALENCE[character]])
            if last >= 0:
                for place in (last, len(atoms) - 1):
                    atoms[place][1] = int(atoms[place][1]) - order
            last, order = len(atoms) - 1, 1
    assert not open_branches
    return [(str(element), int(hydrogens)) for element, hydrogens in atoms]


def test_the_property_is_that_of_the_structure_in_the_text() -> None:
    texts, y = formulas(500, least=1, most=15, seed=1)
    for text, value in zip(texts, y, strict=True):
        atoms = parse(text)
        assert all(hydrogens >= 0 for _, hydrogens in atoms), text
        assert value == pytest.approx(sum(CONTRIBUTION[atom] for atom in atoms), abs=1e-5)


def test_formulas_have_as_many_atoms_as_asked_branches_and_double_bonds() -> None:
    texts, _ = formulas(400, least=3, most=6, seed=2)
    assert {sum(character in VALENCE for character in text) for text in texts} == {3, 4, 5, 6}
    assert set("".join(texts)) == set("CNOF=()")


def test_the_same_letters_have_different_properties() -> None:
    """Counting letters is not enough."""
    texts, y = formulas(3000, least=4, most=6, seed=3)
    found: dict[str, set[float]] = {}
    for text, value in zip(texts, y, strict=True):
        found.setdefault("".join(sorted(text)), set()).add(round(float(value), 3))
    assert max(map(len, found.values())) > 2


def test_impossible_sizes_are_refused() -> None:
    with pytest.raises(ArgumentError, match="least"):
        formulas(3, least=5, most=4)
