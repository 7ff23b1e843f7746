"""The shared skeleton of all pages: it escapes, it knows light and dark, it fetches nothing, it loads nothing heavy."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.resources import files

import pytest
from jinja2 import UndefinedError

from windrow.quality import html

TEMPLATES = sorted(one.name for one in files("windrow.quality").joinpath("templates").iterdir())


def test_every_value_is_escaped_in_title_heading_and_body() -> None:
    page = html.render("skeleton.html", title="<b>&", body="<script>x</script>")
    assert page.count("&lt;b&gt;&amp;") == 2
    assert "<script" not in page
    assert "&lt;script&gt;" in page


def test_a_page_follows_the_reader_into_the_dark() -> None:
    page = html.render("skeleton.html", title="t", body="")
    assert "prefers-color-scheme:dark" in page
    light, dark = re.findall(r":root\{([^}]*)\}", page)
    colours = set(re.findall(r"--[a-z]+", light))
    assert colours == set(re.findall(r"--[a-z]+", dark))
    assert set(re.findall(r"var\((--[a-z]+)\)", page)) <= colours


def test_a_value_that_a_template_misses_is_an_error() -> None:
    with pytest.raises(UndefinedError, match="title"):
        html.render("skeleton.html", body="")


@pytest.mark.parametrize("name", TEMPLATES)
def test_no_template_fetches_anything_runs_a_script_or_has_a_style_of_its_own(name: str) -> None:
    source = files("windrow.quality").joinpath("templates", name).read_text(encoding="utf-8")
    assert not re.search(r"https?://|<script|<img|<link|\son[a-z]+=|@import|url\(|\| *safe", source, re.IGNORECASE)
    assert ("<style" in source) == ("<head" in source) == (name == "skeleton.html")
    if name.endswith(".html") and name not in ("skeleton.html", "macros.html"):
        assert source.startswith('{% extends "skeleton.html" %}')


def test_airflow_s_processes_can_import_it_without_anything_heavy() -> None:
    heavy = "{'pyspark', 'great_expectations', 'deltalake', 'polars', 'pandas', 'matplotlib'}"
    code = f"import sys; import windrow.quality.html; sys.exit(bool({heavy} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
