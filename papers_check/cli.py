"""The ``specproof`` command."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from cyclopts import App
from rich.console import Console
from rich.markup import escape

try:
    _VERSION = version("specproof")
except PackageNotFoundError:  # a source tree that was never installed
    _VERSION = "unknown"

COMMANDS: dict[str, str] = {
    "check": "papers_check.commands.check:check",
    "list": "papers_check.commands.catalogue:list_algorithms",
    "exact": "papers_check.commands.exact:exact",
    "bounds": "papers_check.commands.bounds:bounds",
    "window": "papers_check.commands.window:window",
    "pareto": "papers_check.commands.pareto:pareto",
    "decode": "papers_check.commands.decode:decode",
    "audit": "papers_check.commands.audit:audit",
    "bench": "papers_check.commands.bench:bench",
    "models": "papers_check.commands.models:models",
    "notebooks": "papers_check.commands.notebooks:notebooks",
}
"""Command name to ``module:function``; a module is imported only when its command is asked for."""


def build(names: Sequence[str]) -> App:
    """The command line with some of its commands."""
    app = App(
        name="specproof",
        help="Speculative decoding: exact theory, simulation, and a runtime held against them.",
        version=_VERSION,
    )
    for name in names:
        module, function = COMMANDS[name].split(":")
        app.command(getattr(importlib.import_module(module), function), name=name)
    app.register_install_completion_command()
    return app


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line; bad input or an unwritable file is a line on stderr, exit code 2."""
    arguments = list(sys.argv[1:] if argv is None else argv)
    chosen = [arguments[0]] if arguments and arguments[0] in COMMANDS else list(COMMANDS)
    try:
        build(chosen)(arguments)
    except (ValueError, OSError) as error:
        console = Console(stderr=True, highlight=False)
        console.print("[red]error:[/red]", escape(str(error)), soft_wrap=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
