"""Options that scripts which train by recorded settings share."""

from __future__ import annotations

import json
from argparse import ArgumentParser, Namespace, RawDescriptionHelpFormatter
from typing import Any

import torch


def make_parser(title: str | None) -> ArgumentParser:
    """A parser with the options that every such script has."""
    options = ArgumentParser(description=title, formatter_class=RawDescriptionHelpFormatter)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--threads", type=int, default=2)
    options.add_argument("--set", nargs="*", default=[], metavar="NAME=VALUE", help="other settings than the recorded")
    return options


def parse(options: ArgumentParser) -> tuple[Namespace, dict[str, Any]]:
    """What the command line asks for, and the settings that it changes. Sets the number of threads."""
    asked = options.parse_args()
    torch.set_num_threads(asked.threads)
    return asked, {name: json.loads(value) for name, value in (one.split("=", 1) for one in asked.set)}
