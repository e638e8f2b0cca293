"""The layers of the packages, the folders of the repository, and what no file may name.

Imports are read from the syntax tree of every module, inside functions too, so that a lazy import
breaks a layer as surely as one at the top. Imports for type checkers alone count as well.
"""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("theory", "sim", "gpu_runtime", "papers_check")
FOLDERS = {*PACKAGES, "tests", "docs"}

# Folder: modules that no file below it may import. A longer folder adds to a shorter one.
FORBIDDEN = {
    "theory": {"sim", "gpu_runtime", "papers_check", "torch", "transformers", "triton"},
    "sim": {"gpu_runtime", "papers_check"},
    "sim/verifiers": {"theory.verifiers", "theory.generation"},
    "gpu_runtime": {"papers_check", "theory.verifiers", "theory.generation"},
}


def _module_name(path: Path) -> str:
    parts = path.with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


def imported_modules(source: str, path: Path) -> set[str]:
    """Every dotted name that a module imports; `from a import b` gives both a and a.b."""
    package = _module_name(path).split(".")
    if path.name != "__init__.py":
        package = package[:-1]
    names: set[str] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names.add(base)
            names.update(f"{base}.{alias.name}" for alias in node.names)
    return names


def violations(source: str, path: Path, forbidden: set[str]) -> set[str]:
    """The imports of a module that fall on or below a forbidden module."""
    return {
        name
        for name in imported_modules(source, path)
        if any(name == module or name.startswith(f"{module}.") for module in forbidden)
    }


@pytest.mark.parametrize("folder", FORBIDDEN)
def test_imports_point_to_lower_layers(folder: str) -> None:
    found = {}
    for file in sorted((ROOT / folder).rglob("*.py")):
        path = file.relative_to(ROOT)
        if bad := violations(file.read_text(encoding="utf-8"), path, FORBIDDEN[folder]):
            found[str(path)] = sorted(bad)
    assert not found


@pytest.mark.parametrize(
    ("source", "path", "caught"),
    [
        ("import torch.nn", "theory/laws.py", {"torch.nn"}),
        ("def f():\n    import sim", "theory/laws.py", {"sim"}),
        ("from .sim import rounds", "theory/laws.py", set()),
        ("from theory import verifiers", "gpu_runtime/engine.py", {"theory.verifiers"}),
        ("from theory.verifiers.token import run", "sim/verifiers/token.py", None),
        ("from theory.windows import optimal", "gpu_runtime/engine.py", set()),
        ("from . import verifiers", "gpu_runtime/engine.py", set()),
        ("import simulator, torchaudio", "theory/laws.py", set()),
    ],
)
def test_violations_are_seen(source: str, path: str, caught: set[str] | None) -> None:
    folder = max((f for f in FORBIDDEN if path.startswith(f"{f}/")), key=len)
    found = violations(source, Path(path), FORBIDDEN[folder])
    assert found if caught is None else found == caught


def test_theory_needs_the_numeric_libraries_only() -> None:
    allowed = {*sys.stdlib_module_names, "theory", "numpy", "scipy", "sympy", "flint"}
    found = {}
    for file in sorted((ROOT / "theory").rglob("*.py")):
        path = file.relative_to(ROOT)
        if path.parts[1] == "notebooks":
            continue
        tops = {n.split(".")[0] for n in imported_modules(file.read_text(encoding="utf-8"), path)}
        if bad := tops - allowed:
            found[str(path)] = sorted(bad)
    assert not found


def test_theory_stays_free_of_torch() -> None:
    heavy = ("torch", "transformers", "triton", "sim", "gpu_runtime", "papers_check")
    code = f"import sys, theory; print([m for m in {heavy} if m in sys.modules])"
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def tracked() -> list[Path]:
    try:
        listed = subprocess.run(
            ["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=True
        )
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("not a git checkout")
    files = [Path(name) for name in listed.stdout.split("\0") if name]
    return [path for path in files if (ROOT / path).is_file()]


def test_top_level_folders(tracked: list[Path]) -> None:
    folders = {path.parts[0] for path in tracked if len(path.parts) > 1}
    assert {folder for folder in folders if not folder.startswith(".")} <= FOLDERS


def test_every_package_is_typed(tracked: list[Path]) -> None:
    assert {Path(package, "py.typed") for package in PACKAGES} <= set(tracked)


# Written in pieces, so that this file does not match itself.
_PLACES = ("home", "mnt", "opt", "root", "Users", "work")
MACHINE_PATH = re.compile(rf"(?<![\w.~-])/(?:{'|'.join(_PLACES)})/\w")
_HOSTS = ("py" + "pi", "python" + "hosted", "npm" + "js", "conda" + r"\.anaconda")
REGISTRY = re.compile(
    rf"(?:https?|file)://[\w.-]*(?:{'|'.join(_HOSTS)})\.\w+|--(?:extra-)?index" + "-url"
    "|--find" + r"-links|registry\s*=\s*[\"']?https?:"
)


def _named_places(text: str) -> list[str]:
    return [m.group() for pattern in (MACHINE_PATH, REGISTRY) for m in pattern.finditer(text)]


def test_no_file_names_a_machine_path_or_a_registry(tracked: list[Path]) -> None:
    found = {}
    for path in tracked:
        try:
            text = (ROOT / path).read_text(encoding="utf-8")
        except UnicodeDecodeError:  # weights, pictures, Parquet
            continue
        if places := _named_places(text):
            found[str(path)] = places
    assert not found


@pytest.mark.parametrize(
    ("text", "named"),
    [
        ("open('/" + "root/x')", True),
        ("/" + "work/data", True),
        ("https://files.python" + "hosted.org/packages/x", True),
        ("https://py" + "pi.org/simple", True),
        ("pip install --index" + "-url x", True),
        ('source = { registry = "' + 'https://example.org" }', True),
        ("https://github.com/owner/work/blob", False),
        ("tests/exact/root/x", False),
        ("a row of p/work of q", False),
    ],
)
def test_named_places_are_seen(text: str, named: bool) -> None:
    assert bool(_named_places(text)) is named
