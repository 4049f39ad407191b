"""The kind of every command: one that knows what an unknown option may have been meant to be."""

from __future__ import annotations

from typing import Any

from typer._click.exceptions import NoSuchOption
from typer.core import TyperCommand

from unspool.cli.spelling import option
from unspool.settings.names import SYNONYMS


class SettingsCommand(TyperCommand):
    """A command whose unknown options are suggested by the names that people know from elsewhere."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        try:
            return super().parse_args(ctx, args)
        except NoSuchOption as error:
            if near := self._find_near(error):
                error.message, error.possibilities = f"{error.message}. Did you mean {near}?", None
            raise

    def _find_near(self, error: NoSuchOption) -> str | None:
        """The option that may have been meant: by what others call it, or by its spelling."""
        meant = SYNONYMS.get(error.option_name.lstrip("-").replace("-", "_"))
        known = {name for one in self.params for name in (*one.opts, *one.secondary_opts)}
        return next((name for name in (option(meant or ""), *(error.possibilities or ())) if name in known), None)
