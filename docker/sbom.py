"""Write dist/windrow.cdx.json, a bill of materials (CycloneDX 1.5) of what an installation runs.

uv lists the Python packages of uv.lock with the hashes of their files. The jars of every set in the cache follow,
each with its own hash.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

from windrow.files import write_whole
from windrow.places import Places
from windrow.platform import jars

TARGET = Path("dist/windrow.cdx.json")
_JAR = re.compile(r"(?P<name>.+?)-(?P<version>\d[^/]*)\.jar")
_POM = re.compile(r"META-INF/maven/(?P<group>[^/]+)/(?P<name>[^/]+)/pom\.properties")


def main(uv: str) -> None:
    """Write the file, and say what is in it."""
    words = ["export", "--frozen", "--no-dev", "--all-extras", "--format", "cyclonedx1.5", "--quiet"]
    done = subprocess.run([uv, *words, "--preview-features", "sbom-export"], capture_output=True, text=True, check=True)
    bill = json.loads(done.stdout)
    packages = len(bill["components"])
    folder = jars.folder(Places.from_env(os.environ))
    found = sorted({path.name: path for path in folder.rglob("*.jar")}.values())
    bill["components"] += [component(path) for path in found]
    TARGET.parent.mkdir(exist_ok=True)
    write_whole(TARGET, json.dumps(bill, indent=1) + "\n")
    print(f"{TARGET}: {packages} Python packages, {len(found)} jars from {folder}")


def component(path: Path) -> dict[str, Any]:
    """Return a jar as CycloneDX describes a component."""
    named = _JAR.fullmatch(path.name)
    name, version = (named["name"], named["version"]) if named else (path.stem, "")
    group = _group(path, name)
    kind = f"maven/{group}" if group else "generic"
    return {
        "type": "library",
        "bom-ref": f"jar:{path.name}",
        **({"group": group} if group else {}),
        "name": name,
        "version": version,
        "purl": f"pkg:{kind}/{name}@{version}",
        "hashes": [{"alg": "SHA-256", "content": hashlib.sha256(path.read_bytes()).hexdigest()}],
    }


def _group(path: Path, name: str) -> str | None:
    """The group of a jar that carries its own Maven descriptor."""
    with zipfile.ZipFile(path) as jar:
        found = (_POM.fullmatch(entry) for entry in jar.namelist())
        return next((one["group"] for one in found if one and one["name"] == name), None)


if __name__ == "__main__":
    main(sys.argv[1])
