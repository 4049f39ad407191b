"""Claims and headings: every claim stands under its heading, every heading has a chapter."""

from __future__ import annotations

import pytest

from unspool.errors import UnknownNameError
from unspool.lab.catalogue import find_claim, select
from unspool.lab.claims import CLAIMS, DOCUMENTS
from unspool.lab.headings import headings_of
from unspool.language import Translator


def test_every_claim_stands_under_its_heading() -> None:
    for claim in CLAIMS.values():
        under = {heading.heading: heading.chapters for heading in headings_of(claim.document)}
        assert claim.name in under[claim.heading]


@pytest.mark.parametrize("document", DOCUMENTS)
def test_every_heading_has_known_chapters(document: str) -> None:
    for heading in headings_of(document):
        assert heading.chapters
        assert set(heading.chapters) <= set(CLAIMS)


def test_ids_are_unique_and_complete() -> None:
    ids = [claim.id for claim in CLAIMS.values()]
    assert len(set(ids)) == len(ids)
    counts = {"S0": 13, "S1": 14, "S2": 8, "S3": 11, "S4": 9}
    expected = {f"{short}-{number}" for short, count in counts.items() for number in range(1, count + 1)}
    assert set(ids) == expected | {"S1-e", "S2-e"}


def test_titles_are_for_the_reader() -> None:
    heading = headings_of("S0")[0]
    assert heading.title(Translator("en")) == "Introduction (引言)"
    assert heading.title(Translator("zh")) == "引言"


def test_claims_are_found_by_name_and_id() -> None:
    assert find_claim("s1-6") is find_claim("adding")
    assert [claim.document for claim in select(document="s4")] == ["S4"] * 9
    with pytest.raises(UnknownNameError, match="Did you mean 'kalman'"):
        find_claim("kalmann")
    with pytest.raises(UnknownNameError, match="document"):
        select(document="S9")
