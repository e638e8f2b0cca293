"""The notebooks: each runs as a script and asserts its facts, at every end of its sliders too."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("marimo")
pytest.importorskip("altair")

from papers_check.cli import main
from papers_check.commands import notebooks as command

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "theory" / "notebooks"
FILES = sorted(FOLDER.glob("[!_]*.py"))
TOPICS = (
    "token",
    "block",
    "greedy_block",
    "optimal_transport",
    "spectr_gbv",
    "windows",
    "lossy_pareto",
    "hybrid",
    "testing",
    "speed",
)
ALLOWED = {*sys.stdlib_module_names, "theory", "numpy", "altair", "marimo"}

# Sliders all at their start, all at their end, and alternately; a dropdown at its last choice.
ENDS = """
import importlib.util, sys
from pathlib import Path
import marimo as mo

def load(path):
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module.app

def moved(element, end):
    if isinstance(element, mo.ui.dropdown):
        return mo.ui.dropdown(element.options, list(element.options)[-1])
    return mo.ui.slider(element.start, element.stop, value=getattr(element, end))

for path in map(Path, sys.argv[1:]):
    _, names = load(path).run()
    kinds = mo.ui.slider, mo.ui.dropdown
    controls = {name: e for name, e in names.items() if isinstance(e, kinds)}
    for ends in (("start",), ("stop",), ("start", "stop"), ("stop", "start")):
        places = enumerate(sorted(controls.items()))
        load(path).run(defs={n: moved(e, ends[i % len(ends)]) for i, (n, e) in places})
    print(path.stem, len(controls))
"""


def run_python(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=ROOT,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
        capture_output=True,
        text=True,
        check=False,
        stdin=subprocess.DEVNULL,
    )


def test_there_is_one_notebook_for_each_topic() -> None:
    assert [file.stem for file in FILES] == [f"{n:02}_{t}" for n, t in enumerate(TOPICS, 1)]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_runs_as_a_script(path: Path) -> None:
    done = run_python(str(path))
    assert done.returncode == 0, done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("half", [0, 1])
def test_facts_hold_wherever_the_sliders_are(half: int) -> None:
    chosen = FILES[half::2]
    done = run_python("-c", ENDS, *map(str, chosen))
    assert done.returncode == 0, done.stderr
    controls = dict(line.rsplit(" ", 1) for line in done.stdout.splitlines())
    assert sorted(controls) == [path.stem for path in chosen]
    assert all(1 <= int(number) <= 4 for number in controls.values())


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_it_has_all_its_parts(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert re.search(r"^    # \d+\. ", text, re.MULTILINE)
    for part in ("**Theorem", "**Proof", "## Sources", "page.check(", "page.sheet("):
        assert part in text, part
    assert text.count("page.Exercise(") >= 3
    assert re.search(r"charts\.(curves|bars|dots|ranking)\(", text)
    tree = ast.parse(text)
    assert sum(isinstance(node, ast.Assert) for node in ast.walk(tree)) >= 4
    imported = {
        name.split(".")[0]
        for node in ast.walk(tree)
        if isinstance(node, (ast.Import, ast.ImportFrom))
        for name in (
            [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else [alias.name for alias in node.names]
        )
    }
    assert imported <= ALLOWED


@pytest.mark.parametrize(
    ("true", "false"),
    [
        ("== Fraction(10, 9)", "== Fraction(10, 8)"),  # a fact
        ("two + two**2 + two**3", "two + two**2"),  # the solution of an exercise
    ],
)
def test_a_false_fact_fails(true: str, false: str, tmp_path: Path) -> None:
    text = FILES[0].read_text(encoding="utf-8")
    assert text.count(true) == 1
    broken = tmp_path / "broken.py"
    broken.write_text(text.replace(true, false), encoding="utf-8")
    done = run_python(str(broken))
    assert done.returncode == 1
    assert "AssertionError" in done.stderr


def test_answers_of_readers_are_judged() -> None:
    from fractions import Fraction

    from theory.notebooks._page import Exercise

    task = Exercise("", "", Fraction(10, 9), Fraction(10, 9))
    assert all(map(task.answered_by, ("10/9", " 20 / 18 ", "1.111", "1.1111")))
    assert not any(map(task.answered_by, ("", "9/10", "1.12", "1", "ten ninths", "1/0")))


def test_the_command_lists_them(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["notebooks", "--json"])
    assert not ended.value.code
    listed = json.loads(capsys.readouterr().out)["notebooks"]
    assert [entry["name"] for entry in listed] == [file.stem for file in FILES]
    assert len({entry["title"] for entry in listed}) == len(FILES)


@pytest.mark.parametrize("name", ["05_spectr_gbv", "spectr_gbv", "05", "5"])
def test_open_without_a_terminal_prints_the_command(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["notebooks", "open", name])
    assert not ended.value.code
    words = capsys.readouterr().out.split()
    assert words[1:4] == ["-m", "marimo", "run"]
    assert words[-1].endswith("05_spectr_gbv.py")


def test_an_unknown_name_is_one_clear_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main(["notebooks", "open", "spectr"])
    assert ended.value.code == 2
    assert "did you mean 'spectr_gbv'" in capsys.readouterr().err


PAGE = """
import marimo
app = marimo.App(app_title="A page")

@app.cell
def _():
    assert 1 + 1 == {total}
    return

if __name__ == "__main__":
    app.run()
"""


def test_pages_are_built_unless_facts_fail(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    for name, total in (("1_right", 2), ("2_wrong", 3)):
        (tmp_path / f"{name}.py").write_text(PAGE.format(total=total), encoding="utf-8")
    monkeypatch.setattr(command, "FOLDER", tmp_path)
    pages = tmp_path / "pages"
    with pytest.raises(SystemExit) as ended:
        main(["notebooks", "html", str(pages), "--offline"])
    assert ended.value.code == 1
    assert "failed 2_wrong" in capsys.readouterr().out
    assert sorted(page.name for page in pages.glob("*.html")) == ["1_right.html", "index.html"]
    assert "1_right.html" in (pages / "index.html").read_text()
    page = (pages / "1_right.html").read_text()
    files = re.findall(r'(?:src|href)="\./(marimo/[^"]+)"', page)
    assert files
    assert all((pages / file).is_file() for file in files)
    assert "https://cdn" not in page
