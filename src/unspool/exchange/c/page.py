"""The page of an exported model: one HTML file with the model as WebAssembly, which works offline."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any

from unspool.data.vocabulary import Listed
from unspool.errors import ArgumentError
from unspool.exchange.c.convert import has_tokenizer
from unspool.exchange.c.forecaster import least_past
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.pooled import reads_ngrams
from unspool.exchange.c.source import Written
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator

#: For each kind of network: its name in the page, what the page says about it, its input, the button, the picture.
UNITS = "The units of the top layer, slow ones above: a column per step, blue below zero, red above"
TEXTS: dict[type, tuple[str, str, str, str, str]] = {
    Language: ("language", "A language model.", "Text to continue", "Generate", UNITS),
    Pooled: ("pooled", "A model of whole sequences.", "Sequences, one per line", "Predict", UNITS),
    Forecaster: ("forecast", "A forecaster.", "The past, one step per line", "Forecast", "The past and the forecast"),
    Tagger: ("tag", "A tagger.", "Sentences, one per line", "Tag", ""),
    Translator: ("translate", "A translator.", "Texts, one per line", "Translate", ""),
}


def make_page(
    network: Network | Stack, written: Written, wasm: bytes, interface: Interface, title: str, example: str = ""
) -> str:
    """A page that runs a model in the browser.

    Args:
        network: The model.
        written: The C that it was exported to.
        wasm: That C, compiled.
        interface: Vocabulary, scales and labels.
        title: The page's title.
        example: What the input holds at first.

    Returns:
        The document; it loads nothing, and its policy allows no other script than its own.

    Raises:
        ArgumentError: There is no page for this model.
    """
    if isinstance(network, Stack):
        raise ArgumentError.of("html", title, "is not for layers alone", "Export a model of a task")
    _check_page(network, title)
    kind, about, asked, action, drawn = TEXTS[type(network)]
    model = {
        **{"name": written.name, "kind": kind, "constants": dict(written.constants)},
        "tokenized": has_tokenizer(network, interface),
        "wasm": base64.b64encode(wasm).decode(),
        **_facts(network, interface, written),
    }
    script, style = _asset("page.js"), _asset("page.css")
    return _fill(
        _asset("page.html"),
        policy=f"default-src 'none'; script-src 'wasm-unsafe-eval' {_digest(script)}; style-src {_digest(style)}",
        title=html.escape(title),
        about=about,
        input=asked,
        example=html.escape(example),
        horizon=str(interface.horizon),
        action=action,
        drawn=drawn,
        style=style,
        model=json.dumps(model).replace("<", "\\u003c"),
        script=script,
    )


def _check_page(network: Network, title: str) -> None:
    if isinstance(network, Forecaster) and network.decoder.input_size > network.stack.output_size + 1:
        raise ArgumentError.of("html", title, "does not know the future covariates", "Export `c` or `wasm`")


def _facts(network: Network, interface: Interface, written: Written) -> dict[str, Any]:
    """What the page needs to know of each kind."""
    spaced = {name.lower(): bool(written.constants.get(name, 0)) for name in ("SPACED", "TARGET_SPACED")}
    match network:
        case Pooled():
            labels = _labels(interface, written.constants["OUTPUTS"])
            return {"output": network.output, "labels": labels, "spelled": reads_ngrams(network)}
        case Tagger():
            return {"letters": network.speller is not None, "labels": _labels(interface, written.constants["TAGS"])}
        case Forecaster():
            return _forecast_facts(network, interface)
        case _:
            return {**spaced, "listed": isinstance(interface.vocabulary, Listed)}


def _forecast_facts(network: Forecaster, interface: Interface) -> dict[str, Any]:
    inputs, scale = network.stack.input_size, interface.inputs
    return {
        "least": least_past(network, interface),
        "lookback": interface.lookback,
        "middle": network.quantiles.index(0.5),
        "mean": [0.0] * inputs if scale is None else scale.mean.tolist(),
        "deviation": [1.0] * inputs if scale is None else scale.deviation.tolist(),
        "unit": [1.0] * network.targets if interface.unit is None else interface.unit.tolist(),
    }


def _labels(interface: Interface, count: int) -> list[str]:
    return list(interface.labels) if len(interface.labels) == count else list(map(str, range(count)))


def _asset(name: str) -> str:
    return (files("unspool.exchange.c") / "assets" / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"


def _fill(text: str, **parts: str) -> str:
    """A template with its parts; what a part holds is not looked at again."""
    pieces = text.split("@")
    return "".join(parts[piece] if place % 2 else piece for place, piece in enumerate(pieces))
