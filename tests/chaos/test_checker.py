"""The judge is independent, and can tell."""

import subprocess
import sys

FORBIDDEN = ("services.binder", "services.core", "services.placer")
JUDGING = ("checker", "bucket", "requests")


def test_the_judge_knows_nothing_of_what_it_judges() -> None:
    """Neither itself nor through what it imports: a mistake of theirs cannot be its mistake too."""
    imports = "; ".join(f"import tests.chaos.{name}" for name in JUDGING)
    code = f"import sys; {imports}; print([name for name in sys.modules if name.startswith({FORBIDDEN})])"
    seen = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == "[]"
