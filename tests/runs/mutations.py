"""Mutations of run folders: bytes, documents, headers and tensors, odd files, links, missing and extra files."""

from __future__ import annotations

import json
import math
import os
import random
import shutil
import tomllib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import safetensors
import safetensors.torch
import tomli_w
import torch
from tests.learning.odd_files import KINDS, put

from unspool.learning.files import read_plain_tensors, read_tensors, write_tensors
from unspool.learning.origin import EDITABLE
from unspool.learning.run_folder import read_origin
from unspool.storage.documents import SEAL, seal
from unspool.storage.tensors import ENTRY

DEEP = "[" * 3000 + "]" * 3000


class Mutation(NamedTuple):
    """What was done, whether checksums were made to fit again, and whether a user may do it."""

    words: str
    forged: bool = False
    legal: bool = False


def mutate(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """Change something in a copy of a run folder."""
    kinds = (
        *((_bytes, 6), (_documents, 8), (_facts, 6), (_tensors, 5), (_header, 4)),
        *((_odd, 4), (_links, 4), (_files, 4)),
    )
    kind = chance.choices([kind for kind, _ in kinds], [weight for _, weight in kinds])[0]
    before = (run / "config.toml").read_bytes()
    found: Mutation = kind(run, other, outside, chance)
    return found._replace(legal=found.legal or _is_legal(run, before))


def _is_legal(run: Path, before: bytes) -> bool:
    """Whether only settings that a user may edit were changed in config.toml."""
    if not (run / "config.toml").is_file():  # a pipe would be waited for
        return False
    try:
        old, new = tomllib.loads(before.decode()), tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        sections = [{**old[name], **new[name]} for name in ("data", "model", "training")]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return False
    if old == new:
        return False
    names = [name for section in sections for name in section]
    flat_old, flat_new = (
        {k: v for s in ("data", "model", "training") for k, v in one[s].items()} for one in (old, new)
    )
    return all(name in EDITABLE or flat_old.get(name) == flat_new.get(name) for name in names)


# ── bytes ──


def _bytes(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    path = _choose(run, chance)
    content = bytearray(path.read_bytes())
    how = chance.choice(["flip", "cut", "insert", "empty", "repeat"])
    place = chance.randrange(len(content)) if content else 0
    if how == "flip" and content:
        for _ in range(chance.choice([1, 1, 2, 10])):
            content[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
    elif how == "cut":
        del content[place:]
    elif how == "insert":
        content[place:place] = chance.randbytes(chance.choice([1, 8, 100]))
    elif how == "empty":
        content.clear()
    else:
        content *= 2
    path.write_bytes(bytes(content))
    return Mutation(f"{how} {path.relative_to(run)} at {place}")


# ── documents ──


def _documents(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    names = [name for name in ("config.toml", "config.toml", "vocabulary.json", "cell.json") if (run / name).exists()]
    path = run / chance.choice(names)
    if chance.random() < 0.05:
        deep = DEEP if path.suffix == ".json" else f"x = {DEEP}"
        path.write_text(deep, encoding="utf-8")
        return Mutation(f"{path.name} nested deeply")
    text = path.read_text(encoding="utf-8")
    document = tomllib.loads(text) if path.suffix == ".toml" else json.loads(text)
    words = _replace(document, chance, path.suffix == ".toml")
    forged = chance.random() < 0.5
    if path.name == "vocabulary.json" and forged:
        document.pop(SEAL, None)
        document = seal(document)
    try:
        path.write_text(tomli_w.dumps(document) if path.suffix == ".toml" else json.dumps(document), encoding="utf-8")
    except (TypeError, ValueError, RecursionError):
        return Mutation(f"{path.name}: {words}, not written")
    if forged:
        _forge_origin(run)
    return Mutation(f"{path.name}: {words}", forged)


def _value(chance: random.Random, toml: bool) -> Any:
    deep: Any = []
    for _ in range(100):
        deep = [deep]
    plain = [
        "",
        "x",
        "\x00\ud7ff",
        0,
        -1,
        1,
        2,
        10**6,
        10**8,
        10**18,
        1e308,
        -0.5,
        True,
        False,
        [],
        {},
        ["a"],
        [1, 2],
        {"a": 1},
    ]
    plain += [math.nan, math.inf, "x" * 10_000, deep, "/dev/zero", "../outside", [[]], 3.5]
    return chance.choice(plain if toml else [*plain, None, 10**23])


def _replace(document: Any, chance: random.Random, toml: bool) -> str:
    """Replace, remove or add a value somewhere in a document."""
    holders = _holders(document, "")
    place, holder = chance.choice(holders)
    keys = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
    how = chance.choice(["replace"] * 6 + ["remove", "add"])
    if how == "add" or not keys:
        value = _value(chance, toml)
        holder.update({"added": value}) if isinstance(holder, dict) else holder.append(value)
        return f"{place} gets {value!r:.40}"
    key = chance.choice(keys)
    if how == "remove":
        del holder[key]
        return f"{place}/{key} is removed"
    value = _value(chance, toml)
    holder[key] = value
    return f"{place}/{key} is {value!r:.40}"


def _holders(document: Any, place: str) -> list[tuple[str, Any]]:
    found = [(place, document)]
    items = document.items() if isinstance(document, dict) else enumerate(document)
    for key, value in items:
        if isinstance(value, dict | list):
            found += _holders(value, f"{place}/{key}")
    return found


def _forge_origin(run: Path) -> None:
    """Make the weights say that they were made with the folder's files as they are now."""
    try:
        config = tomllib.loads((run / "config.toml").read_text(encoding="utf-8"))
        config.pop("format", None)
        origin = read_origin(run, config).facts()
    except Exception:
        return
    for path in (run / "model.safetensors", *(run / "checkpoints").glob("*.safetensors")):
        tensors, facts = read_tensors(path)
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        write_tensors(path, tensors, {**facts, "origin": origin})


# ── files of tensors ──


def _facts(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """Other facts with a checksum that fits; of all checkpoints, so that none is passed over."""
    checkpoints = chance.random() < 0.8
    paths = list((run / "checkpoints").glob("*.safetensors")) if checkpoints else [run / "model.safetensors"]
    seed, words = chance.random(), ""
    for path in paths:
        tensors, facts = read_tensors(path)
        tensors = {name: tensor.clone() for name, tensor in tensors.items()}
        words = _replace(facts, random.Random(seed), toml=False)
        write_tensors(path, tensors, facts)
    return Mutation(f"facts of {'checkpoints' if checkpoints else 'model'}: {words}", forged=True)


def _tensors(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """Other tensors with a checksum that fits."""
    path = chance.choice([run / "model.safetensors", *sorted((run / "checkpoints").glob("*.safetensors"))[-1:]])
    tensors, facts = read_tensors(path)
    tensors = {name: tensor.clone() for name, tensor in tensors.items()}
    name = chance.choice(sorted(tensors))
    one = tensors[name]
    changes: dict[str, Callable[[], Any]] = {
        "nan": lambda: one.float().fill_(math.nan).to(one.dtype) if one.is_floating_point() else one + 1,
        "inf": lambda: one.clone().fill_(math.inf) if one.is_floating_point() else one - 1,
        "huge": lambda: one.clone().fill_(3e38) if one.is_floating_point() else one * 0,
        "double": lambda: one.double(),
        "half": lambda: one.half() if one.is_floating_point() else one.int(),
        "flat": lambda: one.reshape(-1),
        "longer": lambda: torch.cat([one.reshape(-1), one.reshape(-1)]),
        "none": lambda: one.reshape(-1)[:0],
        "scalar": lambda: one.reshape(-1)[:1].sum(),
        "bool": lambda: one.bool(),
    }
    how = chance.choice([*changes, "removed", "renamed", "added"])
    if how in ("removed", "renamed"):
        del tensors[name]
    if how in ("renamed", "added"):
        tensors[f"{name}x" if how == "renamed" else "added"] = one
    if how in changes:
        tensors[name] = changes[how]()
    write_tensors(path, {key: value.contiguous() for key, value in tensors.items()}, facts)
    return Mutation(f"{path.name}: {name} {how}", forged=True)


def _header(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """Another header, without a checksum that fits."""
    path = chance.choice([run / "model.safetensors", *sorted((run / "checkpoints").glob("*.safetensors"))[-1:]])
    if chance.random() < 0.2:
        safetensors.torch.save_file(read_plain_tensors(path), path.with_name("copy"), _no_sum(path, chance))
        os.replace(path.with_name("copy"), path)
        return Mutation(f"{path.name} without a checksum")
    raw = path.read_bytes()
    size = int.from_bytes(raw[:8], "little")
    header = json.loads(raw[8 : 8 + size])
    words = _replace(header, chance, toml=False)
    new = json.dumps(header).encode()
    stated = chance.choice([len(new), len(new), len(new), len(new) + 1, 0, 2**63, 10**8])
    path.write_bytes(stated.to_bytes(8, "little") + new + raw[8 + size :])
    return Mutation(f"header of {path.name}: {words}")


def _no_sum(path: Path, chance: random.Random) -> dict[str, str] | None:
    with safetensors.safe_open(path, "pt") as file:
        facts = json.loads(file.metadata()[ENTRY])
    facts.pop("crc32")
    return chance.choice([None, {}, {ENTRY: json.dumps(facts)}, {ENTRY: "null"}, {ENTRY: DEEP}, {ENTRY: "{"}])


# ── what names stand for ──


def _odd(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """A folder, a pipe, a socket, a device or a link in circles in the place of a file or beside the others."""
    path = chance.choice(
        [_choose(run, chance), run / ".lock", run / "MODEL_CARD.md", run / "checkpoints", run / "tensorboard"]
    )
    kind = chance.choice(KINDS)
    _remove(path)
    put(path, kind)
    return Mutation(f"{path.relative_to(run)} is a {kind}")


def _links(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """A link that leads out of the folder."""
    names = ["metrics.jsonl", "samples.txt", "checkpoints", "tensorboard", ".lock", ".config.toml-0123abcd"]
    path = chance.choice([_choose(run, chance), *(run / name for name in names)])
    same = path.exists() and chance.random() < 0.5
    target = outside / ("link-" + path.name if same else "precious.txt")
    if same:
        shutil.copytree(path, target) if path.is_dir() else shutil.copyfile(path, target)
    elif path.name in ("checkpoints", "tensorboard"):
        target = outside / "folder"
    hard = target.is_file() and chance.random() < 0.4
    _remove(path)
    os.link(target, path) if hard else path.symlink_to(target)
    return Mutation(f"{path.relative_to(run)} is a {'hard ' * hard}link to {target.name}")


def _files(run: Path, other: Path, outside: Path, chance: random.Random) -> Mutation:
    """Files that are missing, swapped, of another run, or too many."""
    path, how = _choose(run, chance), chance.choice(["missing", "swapped", "other", "extra", "locked", "folder"])
    if how == "missing":
        path.unlink()
    elif how == "swapped":
        path.write_bytes(_choose(run, chance).read_bytes())
    elif how == "other":
        theirs = other / path.relative_to(run)
        shutil.copyfile(theirs if theirs.exists() else other / "model.safetensors", path)
    elif how == "extra":
        name = chance.choice(
            ["checkpoints/step-000000099.safetensors", "checkpoints/x", "cell.json", ".x-0123abcd", "y"]
        )
        path = run / name
        path.write_bytes(chance.choice([b"", b"{}", chance.randbytes(100), (run / "model.safetensors").read_bytes()]))
    elif how == "locked":
        path.chmod(0)
    else:
        path = run / chance.choice(["checkpoints/step-000000099.safetensors", ".x-0123abcd", "checkpoints/.y-0123abcd"])
        path.mkdir()
    return Mutation(f"{path.relative_to(run)} is {how}")


def _choose(run: Path, chance: random.Random) -> Path:
    return chance.choice(sorted(path for path in run.rglob("*") if path.is_file() and path.name != ".lock"))


def _remove(path: Path) -> None:
    shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink(missing_ok=True)
