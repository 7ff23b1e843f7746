"""What text refers to exists: files, rules, worked vectors, links with their anchors, tests and names of code.

Text is everything that people read here: sources with their docstrings, comments and messages, Markdown, YAML, help.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "spark_jobs" / "windrow"
SEMANTICS = ROOT / "docs" / "SEMANTICS.md"

SUFFIXES = {".py", ".md", ".yaml", ".toml", ".conf", ".html"}
NAMED = {"Makefile", "Dockerfile", "run"}
SKIPPED = {".venv", ".windrow", ".git", "__pycache__", "node_modules"}

PATH = re.compile(
    r"(?<![\w./>}-])(?:docs|dags|tests|spark_jobs|plugins|expectations|benchmarks|docker)/[\w./-]*+(?![*<{])"
)
PAGE = re.compile(r"(?<![\w.:/-])[\w./-]+\.md\b")
PLACEHOLDER = "NAME"
OUTSIDE = re.compile(r"(?:\.\.)?/shared/|(?<![\w-])shared/\w+\.md")
RULES = re.compile(r"\b[Rr]ules?\s+(\d+(?:(?:,\s+|\s+and\s+|,\s+and\s+|\s+or\s+|\s+to\s+)\d+)*)")
VECTORS = re.compile(r"\b[Vv]ectors?\s+(\d+(?:(?:,\s+|\s+and\s+|\s+or\s+|\s+to\s+)\d+)*)")
LINK = re.compile(r"\]\(([^)\s]+)\)")
TEST = re.compile(r"(tests/[\w/]+\.py)::(\w+)")
DOTTED = re.compile(r"(?<![\w./-])windrow(?:\.[a-z_]\w*)+(?!\w|/)")
APP_IDS = {"landing", "account", "clock", "publish", "late", "join", "snapshots", "erasures", "exports"} | {
    *("canaries", "configs", "distributions", "lag_impact", "measures", "plans", "quality", "reconciled"),
    *("digest", "actions", "rows", "files", "alerts", "origins"),
}
"""`windrow.landing` and the like are app ids of Delta commits; `windrow.digest`, `windrow.actions` and `windrow.rows`
are keys in them. `windrow.origins` is a table property, `windrow.files` an option of a write by Spark."""
IN_LAYER = re.compile(r"`((?:semantics|config|transforms|io|quality|jobs|cli|simulate|scenarios|platform)(?:\.\w+)+)`")


def sources() -> Iterator[Path]:
    """Every file of the project that people read."""
    folders = [ROOT]
    while folders:
        for path in sorted(folders.pop().iterdir()):
            if path.is_dir() and path.name not in SKIPPED and not path.name.endswith("_cache"):
                folders.append(path)
            elif path.suffix in SUFFIXES or path.name in NAMED:
                yield path


def problems(path: Path, text: str) -> list[str]:
    """What the text of a file refers to and is not there, as `file: what is wrong`."""
    found = [*_files(path, text), *_numbers(text), *_tests(text), *_names(text)]
    if path.suffix == ".md":
        found += _links(path, text)
    return [f"{path.relative_to(ROOT)}: {problem}" for problem in found]


def _files(path: Path, text: str) -> Iterator[str]:
    if outside := OUTSIDE.search(text):
        yield f"{outside[0]} is not part of the repository"
    for name in {match[0].rstrip(".-") for match in (*PATH.finditer(text), *PAGE.finditer(text))}:
        if PLACEHOLDER not in name and not any((folder / name).exists() for folder in (ROOT, path.parent)):
            yield f"no file {name}"


def _numbers(text: str) -> Iterator[str]:
    for word, pattern, known in (("rule", RULES, rules()), ("vector", VECTORS, vectors())):
        for match in pattern.finditer(text):
            for number in map(int, re.findall(r"\d+", match[1])):
                if number not in known:
                    yield f"no {word} {number} in docs/SEMANTICS.md"


def _links(path: Path, text: str) -> Iterator[str]:
    for target in LINK.findall(_without_code(text)):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        page = (path.parent / name).resolve() if name else path
        if name and not page.exists():
            yield f"link to {target}: no such file"
        elif anchor and anchor not in anchors(text if page == path else page.read_text()):
            yield f"link to {target}: no such heading"


def _tests(text: str) -> Iterator[str]:
    for name, test in TEST.findall(text):
        if (ROOT / name).exists() and test not in _defined(ROOT / name):
            yield f"no test {test} in {name}"


def _names(text: str) -> Iterator[str]:
    """Names of the package, `windrow.…` anywhere and `layer.…` in backticks; imports are mypy's business."""
    for name in sorted({match[0].removeprefix("windrow.") for match in DOTTED.finditer(text)} - APP_IDS):
        if not exists(PACKAGE, name):
            yield f"no windrow.{name}"
    for name in sorted(set(IN_LAYER.findall(text))):
        if not exists(PACKAGE, name) and not exists(ROOT / "tests", name):
            yield f"no {name}, neither in windrow nor in tests"


@cache
def exists(place: Path, name: str) -> bool:
    """Whether `a.b.c` is a package, a module, or a name in one, below a folder."""
    parts = name.split(".")
    while parts and (place / parts[0]).is_dir():
        place /= parts.pop(0)
    module = place / f"{parts[0]}.py" if parts else place / "__init__.py"
    if parts and module.exists():
        parts.pop(0)
    elif parts:
        module = place / "__init__.py"
    return not parts or (module.exists() and parts[0] in _defined(module))


@cache
def _defined(module: Path) -> set[str]:
    found: set[str] = set()
    for node in ast.parse(module.read_text()).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            found.add(node.name)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found |= {(alias.asname or alias.name).split(".")[0] for alias in node.names}
        else:
            found |= {target.id for target in ast.walk(node) if isinstance(target, ast.Name)}
    return found


@cache
def rules() -> set[int]:
    return {int(number) for number in re.findall(r"^### Rule (\d+):", SEMANTICS.read_text(), re.MULTILINE)}


@cache
def vectors() -> set[int]:
    page = SEMANTICS.read_text().partition("## Worked vectors")[2]
    return {int(number) for number in re.findall(r"^\| (\d+) \|", page, re.MULTILINE)}


def anchors(text: str) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    headings = re.findall(r"^#{1,6} (.+)$", _without_code(text, inline=False), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings)
    return {heading.strip().replace(" ", "-") for heading in plain}


def _without_code(text: str, *, inline: bool = True) -> str:
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text) if inline else text


def test_every_reference_resolves() -> None:
    found = [problem for path in sources() if path != Path(__file__) for problem in problems(path, path.read_text())]
    assert not found, "\n".join(found)


def test_the_contract_has_its_rules_and_vectors() -> None:
    assert rules() == set(range(1, 25))
    assert vectors() == set(range(1, 25))


def test_scenarios_are_named_after_rules_and_vectors_that_exist() -> None:
    for folder, pattern, known in (("rules", r"rule_(\d+)_", rules()), ("vectors", r"(\d+)_", vectors())):
        names = [path.name for path in (ROOT / "tests" / "scenarios" / folder).rglob("*.yaml")]
        assert names
        assert [name for name in names if not (m := re.match(pattern, name)) or int(m[1]) not in known] == []


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("See docs/MISSING.md.", "no file docs/MISSING.md"),
        ("See NOWHERE.md, rule 3.", "no file NOWHERE.md"),
        ("Run tests/jobs/test_nothing.py.", "no file tests/jobs/test_nothing.py"),
        ("The origin is ../shared/SEMANTICS.md.", "../shared/ is not part of the repository"),
        ("See rule 25.", "no rule 25 in docs/SEMANTICS.md"),
        ("Rules 1 to 25 hold.", "no rule 25 in docs/SEMANTICS.md"),
        ("Rules 3, 8, 10 and 32 hold.", "no rule 32 in docs/SEMANTICS.md"),
        ("Worked vector 25.", "no vector 25 in docs/SEMANTICS.md"),
        ("[here](GONE.txt)", "link to GONE.txt: no such file"),
        ("[here](SEMANTICS.md#rule-99)", "link to SEMANTICS.md#rule-99: no such heading"),
        ("## One\n[here](#two)", "link to #two: no such heading"),
        ("tests/docs/test_tables.py::test_that_is_not_there", "no test test_that_is_not_there"),
        ("`windrow.semantics.close.is_shut`", "no windrow.semantics.close.is_shut"),
        ("`transforms.joins.join`", "no transforms.joins.join"),
    ],
)
def test_what_is_not_there_is_seen(text: str, problem: str) -> None:
    assert any(problem in found for found in problems(ROOT / "docs" / "bad.md", text))


def test_what_is_there_is_no_problem() -> None:
    text = """
## One heading: `code`, and more
[a](SEMANTICS.md#rule-10-label-state) [b](#one-heading-code-and-more) [c](https://example.org/docs/none.md)
rules 1 to 22, vector 23, docs/SEMANTICS.md, tests/docs/
tests/docs/test_references.py::test_what_is_there_is_no_problem
`windrow.semantics.close.is_closed` `transforms.join` `semantics.labels.REASONS` `windrow.landing`
"""
    assert problems(ROOT / "docs" / "good.md", text) == []
