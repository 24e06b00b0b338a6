"""The docstrings of fields, so that settings and files are documented where they are declared."""

import ast
import dataclasses
import inspect
import itertools
import textwrap
from typing import cast


def field_docs(cls: type[object]) -> dict[str, str]:
    """Return the string below each field, also of ancestors; it exists in the source only."""
    docs: dict[str, str] = {}
    for ancestor in reversed(cls.__mro__):
        if dataclasses.is_dataclass(ancestor):
            docs |= _own_docs(ancestor)
    return docs


def _own_docs(cls: type[object]) -> dict[str, str]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(cls)))
    body = cast("ast.ClassDef", tree.body[0]).body
    docs = {}
    for statement, following in itertools.pairwise(body):
        if not isinstance(statement, ast.AnnAssign) or not isinstance(statement.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            docs[statement.target.id] = inspect.cleandoc(str(following.value.value))
    return docs
