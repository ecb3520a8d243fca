"""What a settings class says about itself: its first line, and each setting's default and docstring.

The docstrings stand under the fields, where Python keeps no record of them, so they are read from the source.
What the command line lists is then what the code says.
"""

from __future__ import annotations

import ast
import dataclasses
import inspect
import itertools
import textwrap
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from stayput.core.named_settings import NAME


@dataclass(frozen=True)
class SettingDoc:
    """One setting."""

    name: str
    default: object
    doc: str


def summary_of(settings_class: type[Any]) -> str:
    """The first line of its docstring."""
    return (inspect.getdoc(settings_class) or "").partition("\n")[0]


def setting_docs(settings_class: type[Any]) -> list[SettingDoc]:
    """Its settings, in order."""
    docs: dict[str, str] = {}
    for known in reversed(settings_class.__mro__):  # a setting may be another class's, as FedProx has FedAvg's
        if dataclasses.is_dataclass(known):
            docs.update(_docstrings_of_fields(known))
    return [
        SettingDoc(field.name, _plain_default(field), " ".join(docs.get(field.name, "").split()))
        for field in dataclasses.fields(settings_class)
    ]


def _plain_default(field: dataclasses.Field[Any]) -> object:
    default = field.default if field.default_factory is dataclasses.MISSING else field.default_factory()
    return getattr(default, NAME, default)


def _docstrings_of_fields(settings_class: type[Any]) -> Iterator[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(settings_class)))
    body = tree.body[0].body if isinstance(tree.body[0], ast.ClassDef) else []
    for field, following in itertools.pairwise(body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        if isinstance(following, ast.Expr) and isinstance(following.value, ast.Constant):
            yield field.target.id, str(following.value.value)
