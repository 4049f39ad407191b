"""Formulas: molecules without rings in a small part of SMILES, with a property that their structure determines."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from unspool.errors import ArgumentError
from unspool.lab.data.sizes import check_sizes

#: Every character of a formula.
ALPHABET = "CNOF=()"
#: Bonds of each element.
VALENCE = {"C": 4, "N": 3, "O": 2, "F": 1}
#: What an atom adds to the property, by its element and the number of hydrogens on it. As in group contributions to
#: solubility, the same letter counts differently by what it is bonded to.
CONTRIBUTION = {
    "C": (0.2, -0.1, -0.4, -0.6, -0.8),  # the last is methane
    "N": (0.1, 0.5, 0.9, 1.2),
    "O": (0.3, 1.0, 1.5),
    "F": (-0.3, 0.0),
}


class _Atom(NamedTuple):
    element: str
    order: int  # of the bond to the atom before it; 0 for the first atom
    parent: int


def formulas(count: int, least: int = 1, most: int = 12, seed: int = 0) -> tuple[list[str], NDArray[np.float32]]:
    """Random formulas such as `CC(=O)OC(F)N`, and the sum of their atoms' contributions.

    An atom's contribution depends on its element and on its number of hydrogens, which is its valence without its
    bonds. Bonds of one atom may be far apart in the text, on both sides of a branch: `C(C(C)(C)C)F`.

    Args:
        count: formulas.
        least: the smallest number of atoms.
        most: the largest number of atoms; each number is equally likely.
        seed: of the random numbers.

    Returns:
        The texts, and y of shape (count,).

    Example:
        >>> texts, y = formulas(3)
        >>> set("".join(texts)) <= set(ALPHABET), y.shape
        (True, (3,))
    """
    check_sizes(count=count)
    if not 1 <= least <= most:
        raise ArgumentError.of("least", least, f"is not from 1 to most (={most})", "Give such as least=1, most=12")
    chance = np.random.default_rng(seed)
    drawn = [_draw(int(chance.integers(least, most + 1)), chance) for _ in range(count)]
    return [_write(atoms, 0) for atoms in drawn], np.array([_property(atoms) for atoms in drawn], np.float32)


def _draw(size: int, chance: np.random.Generator) -> list[_Atom]:
    """Atoms, each bonded to an earlier one that has room; the first elements have room for all."""
    atoms = [_Atom("C" if size > 1 else str(chance.choice(list(VALENCE))), 0, -1)]
    free = [VALENCE[atoms[0].element]]
    while len(atoms) < size:
        # late atoms are preferred, which makes chains with branches and no stars
        open_places = [place for place, room in enumerate(free) if room][-3:]
        parent = int(chance.choice(open_places))
        fluorine_fits = sum(free) > 1 or len(atoms) + 1 == size
        element = str(chance.choice(list("CNOF") if fluorine_fits else list("CNO"), p=_odds(fluorine_fits)))
        order = 2 if min(free[parent], VALENCE[element], sum(free) - 1) > 1 and chance.random() < 0.2 else 1
        atoms.append(_Atom(element, order, parent))
        free[parent] -= order
        free.append(VALENCE[element] - order)
    return atoms


def _odds(fluorine: bool) -> list[float]:
    return [0.6, 0.15, 0.15, 0.1] if fluorine else [0.7, 0.15, 0.15]


def _write(atoms: list[_Atom], place: int) -> str:
    """The text of an atom and of all that hangs on it; every branch but the last is in parentheses."""
    children = [number for number, atom in enumerate(atoms) if atom.parent == place]
    texts = ["=" * (atoms[child].order == 2) + _write(atoms, child) for child in children]
    branches = "".join(f"({text})" for text in texts[:-1])
    return atoms[place].element + branches + "".join(texts[-1:])


def _property(atoms: list[_Atom]) -> float:
    hydrogens = [VALENCE[atom.element] - atom.order for atom in atoms]
    for atom in atoms[1:]:
        hydrogens[atom.parent] -= atom.order
    return sum(CONTRIBUTION[atom.element][left] for atom, left in zip(atoms, hydrogens, strict=True))
