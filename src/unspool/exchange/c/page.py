"""The page of an exported model: one HTML file with the model as WebAssembly, which works offline."""

from __future__ import annotations

import base64
import hashlib
import html
import json
from importlib.resources import files
from typing import Any, NamedTuple

from unspool.data.vocabulary import Listed
from unspool.errors import ArgumentError
from unspool.exchange.c.convert import has_tokenizer
from unspool.exchange.c.forecaster import least_past
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.pooled import reads_ngrams
from unspool.exchange.c.source import Written
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator


class Texts(NamedTuple):
    """What a page says: what the model is, what its input is, an example of it, and what the button does."""

    about: str
    input: str
    placeholder: str
    action: str


#: The kinds of networks in the page's script.
KINDS: dict[type, str] = {
    **{Language: "language", Pooled: "pooled", Forecaster: "forecast"},
    **{Tagger: "tag", Translator: "translate"},
}
#: How labels are named in a sentence; more are counted.
NAMED = 6


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
    tokenized = has_tokenizer(network, interface)
    said = _texts(network, interface, written, tokenized)
    model = {
        **{"name": written.name, "kind": KINDS[type(network)], "constants": dict(written.constants)},
        **{"tokenized": tokenized, "tokens": _tokens(network)},
        "wasm": base64.b64encode(wasm).decode(),
        **_facts(network, interface, written),
    }
    script, style = _asset("page.js"), _asset("page.css")
    return _fill(
        _asset("page.html"),
        policy=f"default-src 'none'; script-src 'wasm-unsafe-eval' {_digest(script)}; style-src {_digest(style)}",
        title=html.escape(title),
        about=html.escape(said.about),
        input=html.escape(said.input),
        placeholder=html.escape(said.placeholder),
        example=html.escape(example),
        horizon=str(interface.horizon),
        action=said.action,
        style=style,
        model=json.dumps(model).replace("<", "\\u003c"),
        script=script,
    )


def _check_page(network: Network, title: str) -> None:
    if isinstance(network, Forecaster) and network.decoder.input_size > network.stack.output_size + 1:
        raise ArgumentError.of("html", title, "does not know the future covariates", "Export `c` or `wasm`")


def _texts(network: Network, interface: Interface, written: Written, tokenized: bool) -> Texts:
    one, many = ("text", "Texts") if tokenized else ("sequence of token ids", "Sequences of token ids")
    example = "Type or paste text here." if tokenized else f"Ids from 0 to {_tokens(network) - 1}, such as: 1 0 1"
    match network:
        case Pooled():
            return _pooled_texts(network, interface, written, f"{many}, one per line", example)
        case Forecaster():
            return _forecast_texts(network, interface)
        case Tagger():
            return Texts("This model tags each word of a sentence.", "Sentences, one per line", example, "Tag")
        case Translator():
            return Texts("This model translates.", f"{many}, one per line", example, "Translate")
        case _:
            about = f"This language model continues a {one}."
            return Texts(about, f"{one.capitalize()} to continue", example, "Generate")


def _pooled_texts(network: Pooled, interface: Interface, written: Written, asked: str, example: str) -> Texts:
    labels, width = _labels(interface, written.constants["OUTPUTS"]), written.constants.get("INPUTS", 0)
    read = "sequence of numbers" if width else "text"
    if width:
        asked = f"Sequences, one per line, with {_count(width, 'number')} per step"
        example = " ".join(["0.5"] * width * 2)
    listed = ", ".join(labels) if len(labels) <= NAMED else f"{len(labels)} labels"
    about = {
        "softmax": f"This model sorts a {read} into one of these classes: {listed}.",
        "sigmoid": f"This model says which of these labels fit a {read}: {listed}.",
    }
    return Texts(about.get(network.output, f"This model predicts from a {read}: {listed}."), asked, example, "Predict")


def _forecast_texts(network: Forecaster, interface: Interface) -> Texts:
    width, least = network.stack.input_size, least_past(network, interface)
    each = "" if width == 1 else f", with {width} numbers each"
    asked = f"The past: at least {_count(least, 'step')}, one per line{each}"
    names = ", ".join(_labels(interface, network.targets))
    example = "\n".join(" ".join(["1.5"] * width) for _ in range(min(least, 3)))
    return Texts(f"This model forecasts {names}.", asked, example, "Forecast")


def _count(number: int, unit: str) -> str:
    return f"{number} {unit}{'' if number == 1 else 's'}"


def _tokens(network: Network) -> int:
    """How many tokens a network reads; 0 where it reads numbers."""
    match network:
        case Language():
            return len(network.embedding.weight)
        case Pooled():
            embedding = network.members[0].embedding
            return 0 if embedding is None else len(embedding.weight)
        case Tagger():
            return len(network.words.weight)
        case Translator():
            return len(network.source.weight)
        case _:
            return 0


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
        "quantiles": list(network.quantiles),
        "labels": _labels(interface, network.targets),
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
