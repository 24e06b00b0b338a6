"""Says from the rules alone whether pods may be where somebody put them. Shares nothing with the solver.

Written from the Kubernetes API documentation, over plain manifests, slowly and plainly. It imports the standard library
and itself only; a test checks that.
"""

from tests.differential.checker.judging import Violation, violations

__all__ = ("Violation", "violations")
