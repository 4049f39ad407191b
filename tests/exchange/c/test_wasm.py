"""Exported models as WebAssembly give the same bits as compiled C, and the page runs them in a browser."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.browser import fits, opened, wait_for
from tests.exchange.c.compiled import compile_all, floats
from tests.exchange.c.random_stacks import random_stack
from tests.exchange.c.test_networks import network_of

from unspool.data.vocabulary import Characters
from unspool.exchange.c.convert import write_c
from unspool.exchange.c.interface import Interface
from unspool.exchange.c.page import make_page
from unspool.exchange.c.source import Written
from unspool.exchange.c.stack import streams
from unspool.exchange.c.zig import CORTEX_M4, compile_wasm, compile_with_zig
from unspool.runtime.play import make_player

wasmtime = pytest.importorskip("wasmtime")
pytest.importorskip("ziglang")


@pytest.fixture(autouse=True)
def without_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    """Players compute by the equations, in NumPy."""
    monkeypatch.setenv("UNSPOOL_ENGINE", "off")


class Guest:
    """A module under wasmtime, called with NumPy arrays that are copied in and out."""

    def __init__(self, written: Written) -> None:
        engine = wasmtime.Engine()
        self.store, self.name = wasmtime.Store(engine), written.name
        module = wasmtime.Module(engine, compile_wasm(written))
        assert not module.imports
        self.exports = wasmtime.Instance(self.store, module, []).exports(self.store)
        self.state = self.call("allocate", self.call("state_size"))
        self.call("init", self.state)

    def call(self, function: str, *arguments: int) -> Any:
        return self.exports[f"{self.name}_{function}"](self.store, *arguments)

    def put(self, array: Any) -> int:
        place = int(self.call("allocate", array.nbytes))
        self.exports["memory"].write(self.store, array.tobytes(), place)
        return place

    def take(self, place: int, like: Any) -> Any:
        found = self.exports["memory"].read(self.store, place, place + like.nbytes)
        return np.frombuffer(found, like.dtype).reshape(like.shape)


@pytest.mark.long
def test_40_architectures_give_the_bits_of_c(tmp_path: Path) -> None:
    for seed in range(40):
        (tmp_path / str(seed)).mkdir()
        test_wasm_gives_the_bits_of_c(tmp_path / str(seed), seed)


@pytest.mark.parametrize("seed", [3, 8])
def test_wasm_gives_the_bits_of_c(tmp_path: Path, seed: int) -> None:
    stack = random_stack(seed)
    written = write_c(stack, "model")
    (model,) = compile_all(tmp_path, [written], options=("-O2", "-ffp-contract=off")).values()
    x = np.random.default_rng(0).standard_normal((9, stack.input_size)).astype(np.float32)
    y = floats(9, stack.output_size)
    model("run", x, 9, y, *(() if streams(stack) else (model.workspace(9),)))
    guest = Guest(written)
    place = guest.put(y)
    room = () if streams(stack) else (guest.call("allocate", 4 * guest.call("workspace", 9)),)
    guest.call("run", guest.state, guest.put(x), 9, place, *room)
    assert guest.take(place, y).tobytes() == y.tobytes()


def test_sizes_beyond_32_bits_are_refused() -> None:
    """Products and sums that would not fit into 32 bits give no memory, and not a little of it."""
    guest = Guest(write_c(network_of("forecast-1")[0], "model"))
    for size in (2**32 - 1, 2**32 - 16, 2**32 - 65536 - 1, 2**32 - 2**20):
        assert guest.call("allocate", size - 2**32) == 0
    first = guest.call("allocate", 16)
    assert first % 16 == 0
    assert guest.call("allocate", 16) == first + 16  # what was refused has taken nothing
    each = guest.call("workspace", 2, 2) - guest.call("workspace", 1, 1)
    for steps in (2**32 // 4 // each + 1, 2**32 // each + 1, 2**31 - 1):
        assert guest.call("workspace", steps, steps) == -1  # SIZE_MAX, read as a signed number
    assert guest.call("workspace", 1000, 1000) == guest.call("workspace", 1, 1) + 999 * each


def test_the_same_source_is_the_same_module() -> None:
    written = write_c(random_stack(3), "model")
    assert compile_wasm(written) == compile_wasm(written)


def test_a_microcontroller_needs_only_flash_for_the_weights() -> None:
    written = write_c(random_stack(3), "model")
    found = compile_with_zig(written, CORTEX_M4)
    assert found[:4] == b"\x7fELF"
    assert int.from_bytes(found[18:20], "little") == 40  # ARM


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """Debian's Chromium."""
    api = pytest.importorskip("playwright.sync_api")
    with api.sync_playwright() as playwright:
        found = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        yield found
        found.close()


def play(network: Any) -> Any:
    """The player of a network."""
    return make_player(network)


def page_of(case: str, interface: Interface, example: str) -> tuple[Any, str]:
    """A network and its page."""
    network = network_of(case)[0]
    written = write_c(network, "model", interface=interface)
    return network, make_page(network, written, compile_wasm(written), interface, "A <model>", example)


def test_a_page_generates_text(browser: Any, tmp_path: Path) -> None:
    vocabulary = Characters(["<unk>", *"abcdefg\n"])
    network, text = page_of("language-9", Interface(vocabulary), "abc")
    expected, player = "abc", play(network)
    logits, state = player.predict(np.array([vocabulary.ids("abc")]).T, None)
    for _ in range(40):
        token = 1 + int(logits[0, 1:].argmax())  # the unknown is never written
        expected += vocabulary.decode([token])
        logits, state = player.predict(np.array([[token]]), state)
    for width, scheme in ((1280, "light"), (360, "dark")):
        with opened(browser, tmp_path, text, width, scheme) as page:
            page.fill("#count", "40")
            page.fill("#temperature", "0")
            page.click("#go")
            wait_for(page, "document.body.dataset.done === '1'")
            assert page.text_content("#output") == expected
            assert page.evaluate("document.getElementById('canvas').dataset.steps") == "43"
            assert fits(page)


def test_a_page_classifies(browser: Any, tmp_path: Path) -> None:
    labels = ("one", "two", "three", "four")
    network, text = page_of("classify-10", Interface(labels=labels), "0.5 -1 2 0.25 1 -2")
    assert "<model>" not in re.sub(r"<script.*?</script>", "", text, flags=re.DOTALL)
    batch = network_of("classify-10")[1]
    x = np.array([[0.5, -1, 2], [0.25, 1, -2]], np.float64)[:, None]
    player, asked = play(network), batch._replace(inputs=x, lengths=np.array([2]))
    (y,) = player.predictions(player.score(asked).levels[-1], asked)
    with opened(browser, tmp_path, text) as page:
        page.click("#go")
        wait_for(page, "document.body.dataset.done === '1'")
        expected = "  ".join(f"{labels[j]} {100 * y[j]:.1f} %" for j in np.argsort(-y))
        assert page.text_content("#output") == expected


def test_a_page_holds_its_module_and_asks_for_nothing() -> None:
    _, text = page_of("multilabel-1", Interface(labels=("</script>", "b", "c")), "1 2 3")
    model = json.loads(re.search(r'id="model">(.*?)</script>', text, re.DOTALL)[1])  # type: ignore[index]
    assert base64.b64decode(model["wasm"])[:4] == b"\0asm"
    assert model["labels"][0] == "</script>"
    assert "http" not in text.replace("http-equiv", "")
