"""From a network, or from layers alone, to C: the one place that knows all kinds."""

from __future__ import annotations

from unspool.errors import ArgumentTypeError
from unspool.exchange.c.bare import write_bare
from unspool.exchange.c.forecaster import write_forecaster
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.language import write_language
from unspool.exchange.c.pooled import write_pooled
from unspool.exchange.c.source import Source, Written
from unspool.exchange.c.tagger import write_tagger
from unspool.exchange.c.translator import write_translator
from unspool.runtime.network import Forecaster, Language, Network, Pooled, Stack, Tagger, Translator

KINDS = {
    Stack: "Layers",
    Language: "A language model",
    Pooled: "A model of whole sequences",
    Tagger: "A tagger",
    Forecaster: "A forecaster",
    Translator: "A translator",
}


def write_c(
    network: Network | Stack,
    name: str = "model",
    *,
    interface: Interface | None = None,
    int8: bool = False,
    separate: bool = False,
) -> Written:
    """A network as C99. The same network gives the same text.

    Args:
        network: The model, or layers alone.
        name: What all names start with; what is no identifier is made one.
        interface: Vocabulary, scales and labels.
        int8: Whether to keep matrices in int8 with a scale per row; all else stays float32.
        separate: Whether weights are not in the C file but in bytes of their own, which `init` takes.

    Returns:
        The texts of the C file and of its header, and the weights if they are separate.

    Example:
        write_c(network, "weather").code
    """
    source, interface = Source.new(name, int8, separate), interface or Interface()
    _write_kind(source, network, interface)
    return source.finish(f"{KINDS[type(network)]} in C99, written by unspool. It needs nothing but libm's sqrtf.")


def _write_kind(source: Source, network: Network | Stack, interface: Interface) -> None:
    match network:
        case Stack():
            write_bare(source, network)
        case Language():
            write_language(source, network)
        case Pooled():
            write_pooled(source, network, interface)
        case Tagger():
            write_tagger(source, network, interface)
        case Forecaster():
            write_forecaster(source, network)
        case Translator():
            write_translator(source, network)
        case _:
            raise ArgumentTypeError.of("network", network, "is no network", "Give one of unspool.runtime.network")
