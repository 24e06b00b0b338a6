"""What an image is built from, gathered on the host: wheels that the lock names, our own wheel, and the list of both.

So the build itself needs no network, and an image holds what `requirements.lock` beside this file says, hash by hash.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
LOCK = HERE / "requirements.lock"
PIP_LOCK = HERE / "pip.lock"

_PYTHON = "3.11"


class GatheringError(Exception):
    """Something of the image cannot be had; the message says what, and what was tried."""


def gather(folder: Path, *, revision_time: int) -> Path:
    """Fill a folder with everything that the Dockerfile copies, and return it. Raises GatheringError.

    `revision_time` (seconds since 1970) is the time of the files in our wheel, so that the same commit gives the same.
    """
    shutil.rmtree(folder, ignore_errors=True)
    wheels = folder / "wheels"
    wheels.mkdir(parents=True)
    shutil.copy(LOCK, wheels / "requirements.lock")
    shutil.copy(HERE / "assemble.py", folder)
    shutil.copy(HERE / "Dockerfile", folder)
    download = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--require-hashes"]
    target = ["--only-binary=:all:", "--python-version", _PYTHON, "--dest", str(wheels)]
    for lock in (LOCK, PIP_LOCK):
        _run([*download, *target, "--requirement", str(lock)], what=f"the wheels of {lock.name}")
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation", str(ROOT)]
    epoch = {"SOURCE_DATE_EPOCH": str(revision_time)}
    _run([*build, "--wheel-dir", str(wheels)], what="our own wheel", environment=epoch)
    _bill_of_materials(folder / "sbom.cdx.json")
    return folder


def _bill_of_materials(path: Path) -> None:
    """Write what the image holds as CycloneDX JSON."""
    command = [sys.executable, "-m", "cyclonedx_py", "requirements", str(LOCK), "--output-reproducible"]
    command += ["--pyproject", str(ROOT / "pyproject.toml"), "--output-format", "JSON", "--output-file", str(path)]
    _run(command, what="the bill of materials")


def _run(command: list[str], *, what: str, environment: dict[str, str] | None = None) -> None:
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PIP_DISABLE_PIP_VERSION_CHECK": "1", **(environment or {})},
    )
    if done.returncode:
        tail = "\n".join((done.stderr or done.stdout).splitlines()[-15:])
        raise GatheringError(f"{what}: {' '.join(command[:4])} … ended with {done.returncode}:\n{tail}")
