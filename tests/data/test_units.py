"""Units in words."""

from __future__ import annotations

import pytest

from unspool.data.units import common_unit, count_units
from unspool.data.vocabulary import TOKENIZERS


def test_one_is_singular() -> None:
    counts = [count_units(number, "steps") for number in (0, 1, 2, 1000)]
    assert counts == ["0 steps", "1 step", "2 steps", "1,000 steps"]
    assert count_units(1, "words") == "1 word"


@pytest.mark.parametrize(
    ("tokenizer", "unit"), [("char", "characters"), ("byte", "bytes"), ("word", "words"), ("smiles", "tokens")]
)
def test_what_people_count_in(tokenizer: str, unit: str) -> None:
    assert common_unit(TOKENIZERS[tokenizer].unit) == unit
    assert common_unit("atoms") == "tokens"
