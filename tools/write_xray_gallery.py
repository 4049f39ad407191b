"""Writes docs/xray_gallery.md and its pictures from X-ray pages: `python -m tools.write_xray_gallery DEMO CLASSIFIER`.

DEMO is the page of a language model, such as `make demo` trains; CLASSIFIER that of a model with several layers.
It needs playwright and Chromium, as the tests of pages do.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import NamedTuple

from PIL import Image
from tools.write_gallery import DOCS, take_pictures


class Picture(NamedTuple):
    """One figure of a page, and what it shows."""

    title: str
    text: str
    selector: str


def _figure(section: str, number: int = 1) -> str:
    return f"#section-{section} figure:nth-of-type({number})"


#: Of a language model over its validation text.
DEMO = {
    "flow": Picture(
        "Where gradients die",
        "What is left of the gradient k steps before the loss. The mark is the horizon, where 1 % is left.",
        _figure("flow"),
    ),
    "truncation": Picture(
        "What truncation costs",
        "How far the gradient of truncated backpropagation is from the full one, for every window.",
        _figure("truncation"),
    ),
    "time_constants": Picture(
        "How long units remember", "Time constants of the units, by their forget gates.", _figure("time_constants")
    ),
    "paths": Picture(
        "Each state by itself",
        "h and c of the same layer, each in its own plane: the memory moves in fewer directions than what is read.",
        _figure("paths"),
    ),
    "units": Picture(
        "What the loss loses without each unit",
        "One run per unit, held at zero at every step. A few units matter, most share their work.",
        _figure("units"),
    ),
    "unit": Picture(
        "One unit over the text",
        "The unit that the loss needs most: its output after each token.",
        _figure("units", 2),
    ),
    "unit_course": Picture("Its gates", "The same unit over time, with its gates and its cell.", _figure("units", 3)),
    "saliency": Picture(
        "What one output rests on",
        "How the surprise of the last prediction changes with each step of the input, by removal and to first order.",
        _figure("saliency", 2),
    ),
    "surprise": Picture(
        "Surprise of each token",
        "The darker, the less expected: words are guessed at their beginnings.",
        _figure("surprise"),
    ),
}
#: Of a classifier with two layers in both directions.
CLASSIFIER = {
    "similarity": Picture(
        "How alike the layers are",
        "Linear CKA and RSA between the input and the layers of a classifier.",
        _figure("similarity"),
    ),
    "decision": Picture(
        "What a decision rests on",
        "The loss of one text, by removing each word: one word decides.",
        _figure("saliency"),
    ),
}


def write(pages: list[Path]) -> str:
    """Take the pictures; the page that shows them."""
    parts = [
        "# Gallery of the X-ray\n\nFigures of [X-ray](xray.md) pages. `unspool xray RUN` draws them for your run.\n"
    ]
    for page, pictures in zip(pages, (DEMO, CLASSIFIER), strict=True):
        figures = {name: picture.selector for name, picture in pictures.items()}
        for name in take_pictures(page, DOCS / "images" / "xray", figures):
            picture = pictures[name]
            _shrink(DOCS / "images" / "xray" / f"{name}.png")
            parts.append(f"## {picture.title}\n\n{picture.text}\n\n![{picture.title}](images/xray/{name}.png)\n")
    return "\n".join(parts)


def _shrink(path: Path) -> None:
    """A palette is enough for a figure."""
    Image.open(path).convert("RGB").quantize(64).save(path, optimize=True)


if __name__ == "__main__":
    (DOCS / "xray_gallery.md").write_text(write([Path(sys.argv[1]), Path(sys.argv[2])]), encoding="utf-8")
