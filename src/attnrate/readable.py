"""Signatures as people wrote them, for help() and editors: `seed: int`, not what checks it.

The types of `checked` functions hold validators and long unions, which nobody can read once Python
has expanded them. Here an annotation shows itself as in the source: by the names of its aliases,
and without validators. The text is made when it is asked for.
"""

import ast
import functools
import inspect
import textwrap
from collections.abc import Callable
from typing import Annotated, Any, TypeVar, get_args, get_origin


class Written:
    """An annotation that shows itself as the source has it.

    Args:
        function: The function that has the parameter.
        name: The parameter, or "return".
        kind: The type itself.

    """

    def __init__(self, function: Callable[..., Any], name: str, kind: Any) -> None:
        self.kind = kind
        self._function, self._name = function, name

    def __repr__(self) -> str:
        written = _annotations(self._function).get(self._name)
        return _short(self.kind) if written is None else written


def readable(function: Callable[..., Any], signature: inspect.Signature) -> inspect.Signature:
    """Make the annotations of a signature show themselves as in the source.

    Args:
        function: The function that the signature is of.
        signature: Its signature.

    Returns:
        The signature with `Written` in place of its annotations; `Written.kind` is the type.

    """
    empty = inspect.Parameter.empty
    parameters = [
        one
        if one.annotation is empty
        else one.replace(annotation=Written(function, one.name, one.annotation))
        for one in signature.parameters.values()
    ]
    given = signature.return_annotation
    result = given if given in (empty, None) else Written(function, "return", given)
    return signature.replace(parameters=parameters, return_annotation=result)


@functools.cache
def _annotations(function: Callable[..., Any]) -> dict[str, str]:
    """The annotations of a function by name, as text; none where there is no source."""
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):
        return {}
    node = tree.body[0]
    if not isinstance(node, ast.FunctionDef):
        return {}
    known, arguments = inspect.unwrap(function).__globals__, node.args
    every = [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]
    every += [one for one in (arguments.vararg, arguments.kwarg) if one is not None]
    found = {one.arg: _text(one.annotation, known) for one in every if one.annotation}
    return found | ({"return": _text(node.returns, known)} if node.returns else {})


def _text(node: ast.expr, known: dict[str, Any]) -> str:
    """An annotation as text: aliases of checked types by what they stand for."""
    return ast.unparse(_Plain(known).visit(node)).strip("'\"")


class _Plain(ast.NodeTransformer):
    """Replaces checked types: Annotated[X, …] by X, an alias of a checked int by int."""

    def __init__(self, known: dict[str, Any]) -> None:
        self._known = known

    def visit_Subscript(self, node: ast.Subscript) -> ast.expr:
        """Annotated[X, …] is X."""
        if isinstance(node.value, ast.Name) and node.value.id == "Annotated":
            assert isinstance(node.slice, ast.Tuple)
            first: ast.expr = self.visit(node.slice.elts[0])
            return first
        self.generic_visit(node)
        return node

    def visit_Name(self, node: ast.Name) -> ast.expr:
        """A name of a checked class, a private name or a type variable by what it stands for."""
        kind = self._known.get(node.id)
        if get_origin(kind) is Annotated:
            inner = get_args(kind)[0]
            if isinstance(inner, type) or node.id.startswith("_"):
                return ast.Name(_short(inner))
        if isinstance(kind, TypeVar) and kind.__bound__ is not None:
            return ast.Name(_short(kind.__bound__))
        return node


def _short(kind: Any) -> str:
    """A type in few letters: without modules and validators."""
    if get_origin(kind) is Annotated:
        return _short(get_args(kind)[0])
    if kind is type(None):
        return "None"
    if isinstance(kind, str):
        return kind
    if isinstance(kind, type) and not get_args(kind):
        return kind.__name__
    inner = get_args(kind)
    if isinstance(kind, Written):
        return repr(kind)
    if inner and "Union" in type(kind).__name__:
        return " | ".join(dict.fromkeys(map(_short, inner)))
    name = getattr(kind, "__name__", None)
    if inner and name and name != "Callable":
        shown = ", ".join(repr(one) if name == "Literal" else _short(one) for one in inner)
        return f"{name}[{shown}]"
    return name or repr(kind).replace("typing.", "")
