"""Installs the wheels of a folder: `python3 assemble.py WHEELS TARGET`. Runs inside the image, with nothing but Python.

pip runs out of its own wheel, so that the base image needs none. The lock's hashes are checked again.
"""

import compileall
import pathlib
import py_compile
import subprocess
import sys

ENTRY = '''"""Runs the service that the image was built for."""

import os
from runpy import run_module

run_module(f"services.{os.environ['SERVICE']}", run_name="__main__", alter_sys=True)
'''


def main() -> None:
    """Install, and compile what was installed: a pod that starts from zero does not compile first."""
    wheels, target = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2])
    (pip,) = wheels.glob("pip-*.whl")
    (own,) = wheels.glob("phalanx-*.whl")
    install = [sys.executable, str(pip / "pip"), "install", "--no-index", "--no-deps", "--no-compile", "--quiet"]
    install += ["--root-user-action=ignore", "--target", str(target)]
    locked = ["--require-hashes", "--requirement", str(wheels / "requirements.lock"), "--find-links", str(wheels)]
    subprocess.run([*install, *locked], check=True)
    subprocess.run([*install, "--upgrade", str(own)], check=True)
    (target / "entry.py").write_text(ENTRY)
    # Unchecked: nothing in the image changes, so no file's time has to match.
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    compileall.compile_dir(target, quiet=2, workers=0, invalidation_mode=mode)


if __name__ == "__main__":
    main()
