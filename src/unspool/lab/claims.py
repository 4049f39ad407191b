"""What the source documents claim, as `claims.toml` lists it."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Literal

#: `exact` claims are identities, `trained` ones are statistics over seeds, `measured` ones are costs on this machine.
Kind = Literal["exact", "trained", "exact + trained", "measured"]

#: The documents by their short names.
DOCUMENTS: Mapping[str, str] = {
    "S0": "Stacked and deep recurrent networks",
    "S1": "Recurrent neural networks: principles and mechanisms",
    "S2": "RNN: notes on language models and their training",
    "S3": "Recurrent neural networks, a first lesson",
    "S4": "Unfolding in time and backpropagation through time",
}


@dataclass(frozen=True)
class Claim:
    """One claim of the documents.

    Attributes:
        name: what a reader types: `unspool lab adding`.
        id: the document and a number, such as `S1-6`; ids that end in `e` are errors in a document.
        heading: the document's own heading.
        question: what a reader would ask.
        claim: what the document says, in a sentence.
        kind: how it can be decided.
        seconds: how long its chapter takes on two cores, quick and full.
    """

    name: str
    id: str
    heading: str
    question: str
    claim: str
    kind: Kind
    seconds: tuple[int, int]

    @property
    def document(self) -> str:
        """The short name of the document, such as `S1`."""
        return self.id[:2]

    @property
    def alone(self) -> bool:
        """Whether the chapter measures time or memory, which others would disturb."""
        return self.kind == "measured"


def _read() -> dict[str, Claim]:
    text = resources.files(__package__).joinpath("claims.toml").read_text(encoding="utf-8")
    return {name: Claim(name, **entry) for name, entry in tomllib.loads(text).items()}


#: Every claim by the name of its chapter, in the order of the documents.
CLAIMS: Mapping[str, Claim] = _read()
