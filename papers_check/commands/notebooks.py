"""``specproof notebooks``: the derivation notebooks, to list, open, or build as static pages."""

from __future__ import annotations

import ast
import difflib
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from cyclopts import App
from rich.console import Console
from rich.markup import escape
from rich.table import Table

import theory
from papers_check.numbers import dumps

FOLDER = Path(theory.__file__).parent / "notebooks"
REMOTE = re.compile(r"https://[^\s\"']+/@marimo-team/frontend@[^/\"']+/dist/")
"""Where a page looks for marimo's files, unless they lie beside it."""

notebooks = App(name="notebooks", help="The derivation notebooks, one theorem each.")


@dataclass(frozen=True)
class Notebook:
    """One notebook: its name (``01_token``), its title, and its file."""

    name: str
    title: str
    path: Path


def found() -> list[Notebook]:
    """All notebooks in order; titles are read off the files, which are not run."""
    files = sorted(FOLDER.glob("[!_]*.py"))
    return [Notebook(file.stem, _title(file), file) for file in files]


def named(name: str) -> Notebook:
    """The notebook called ``name``: "01_token", "token", "01" or "1".

    Raises:
        ValueError: no such notebook; the message suggests the nearest.
    """
    by_name: dict[str, Notebook] = {}
    for entry in found():
        number, _, word = entry.name.partition("_")
        by_name |= dict.fromkeys((entry.name, word, number, number.lstrip("0")), entry)
    if name in by_name:
        return by_name[name]
    near = difflib.get_close_matches(name, by_name, n=1) or [found()[0].name]
    raise ValueError(f"no notebook {name!r}; did you mean {near[0]!r}? See: specproof notebooks")


def _title(file: Path) -> str:
    """The ``app_title`` that a notebook gives itself.

    Raises:
        ValueError: it gives none.
    """
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.keyword) and node.arg == "app_title":
            return str(ast.literal_eval(node.value))
    raise ValueError(f"{file.name} has no app_title; give one to marimo.App")


@notebooks.default
def list_notebooks(*, json: bool = False) -> None:
    """List the notebooks with the theorem of each.

    Parameters
    ----------
    json:
        Print JSON instead of a table.
    """
    entries = found()
    if json:
        rows = [{"name": n.name, "title": n.title, "path": str(n.path)} for n in entries]
        print(dumps({"notebooks": rows}))
        return
    grid = Table("notebook", "theorem")
    for entry in entries:
        grid.add_row(entry.name, escape(entry.title))
    console = Console()
    console.print(grid)
    console.print("open one with: specproof notebooks open NAME", highlight=False)


@notebooks.command(name="open")
def open_notebook(name: str, /, *, edit: bool = False) -> None:
    """Open a notebook in the browser; without a terminal, print the command that would.

    Parameters
    ----------
    name:
        A notebook such as 01_token, token or 1.
    edit:
        Open it in marimo's editor, instead of as a page with live sliders.
    """
    entry = named(name)
    mode = ["edit"] if edit else ["run", "--include-code"]
    command = [sys.executable, "-m", "marimo", *mode, "--no-sandbox", str(entry.path)]
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        print(shlex.join(command))
        return
    _need_marimo()
    if not edit:
        print("The menu at the top right of the page shows the code.")
    sys.exit(subprocess.run(command, check=False).returncode)


@notebooks.command
def html(folder: Path, /, *, offline: bool = False) -> None:
    """Run all notebooks and build them as static pages, with an index.

    Sliders of static pages stay where they are. A notebook whose facts fail is not built, and
    the exit code is then 1.

    Parameters
    ----------
    folder:
        Where the pages go; made if missing.
    offline:
        Put marimo's own files beside the pages (28 MB), which then need no network but a static
        file server, such as: python -m http.server
    """
    _need_marimo()
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    built, failed = [], []
    for entry in found():
        with console.status(f"building {entry.name}"):
            problem = _build(entry, folder / f"{entry.name}.html", offline)
        if problem:
            failed.append(entry.name)
            console.print(f"[red]failed[/red] {entry.name}\n{escape(problem)}", highlight=False)
        else:
            built.append(entry)
            console.print(f"built {entry.name}.html", highlight=False)
    if offline:
        _copy_frontend(folder / "marimo")
    (folder / "index.html").write_text(_index(built), encoding="utf-8")
    console.print(f"index: {folder / 'index.html'}", soft_wrap=True, highlight=False)
    if failed:
        sys.exit(1)


def _build(entry: Notebook, page: Path, offline: bool) -> str:
    """Export one notebook; what went wrong, or an empty string."""
    command = ["-m", "marimo", "export", "html", "--no-sandbox", "--force", "-o", str(page)]
    done = subprocess.run(
        [sys.executable, *command, str(entry.path)], capture_output=True, text=True, check=False
    )
    if done.returncode:
        page.unlink(missing_ok=True)
        return done.stderr.strip() or done.stdout.strip()
    if offline:
        text = page.read_text(encoding="utf-8")
        page.write_text(REMOTE.sub("./marimo/", text), encoding="utf-8")
    return ""


def _copy_frontend(to: Path) -> None:
    spec = find_spec("marimo")
    assert spec is not None
    assert spec.origin is not None
    unused = shutil.ignore_patterns("*.md", "index.html", "*.map")
    shutil.copytree(Path(spec.origin).parent / "_static", to, ignore=unused, dirs_exist_ok=True)


def _index(entries: list[Notebook]) -> str:
    items = "\n".join(
        f'<li value="{int(n.name.partition("_")[0])}"><a href="{n.name}.html">{n.title}</a></li>'
        for n in entries
    )
    return (
        '<!doctype html>\n<html lang="en">\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        "<title>specproof: derivations</title>\n<style>:root { color-scheme: light dark }\n"
        "body { font: 1.1rem/1.6 system-ui; max-width: 44rem; margin: 2rem auto; padding: 0 1rem }"
        f"</style>\n<h1>Speculative decoding, derived</h1>\n<ol>\n{items}\n</ol>\n</html>\n"
    )


def _need_marimo() -> None:
    if find_spec("marimo") is None:
        raise ValueError("notebooks need marimo; pip install 'specproof[explore]'")
