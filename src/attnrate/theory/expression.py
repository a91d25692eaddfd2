"""Couplings typed by a user: a formula in u and v, parsed with a whitelist, never run as code.

The text is parsed into Python's syntax tree and the tree is turned into closures over numpy
functions. Everything that is not on the whitelist is refused, so a formula has no attributes, no
imports, no assignments and no way to reach any other object.
"""

import ast
import math
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from difflib import get_close_matches
from functools import reduce
from typing import NoReturn

import numpy as np
from jaxtyping import Float64
from numpy.typing import NDArray

from attnrate.errors import InputError

Value = NDArray[np.float64] | np.float64
Evaluator = Callable[[NDArray[np.float64], NDArray[np.float64]], Value]

MAX_LENGTH = 2000
MAX_NESTING = 100

_NAMES: dict[str, Evaluator] = {
    "u": lambda u, _v: u,
    "v": lambda _u, v: v,
    "pi": lambda _u, _v: np.float64(math.pi),
    "e": lambda _u, _v: np.float64(math.e),
}
_FUNCTIONS: dict[str, Callable[..., Value]] = {
    "sin": np.sin,
    "cos": np.cos,
    "tan": np.tan,
    "asin": np.arcsin,
    "acos": np.arccos,
    "atan": np.arctan,
    "sinh": np.sinh,
    "cosh": np.cosh,
    "tanh": np.tanh,
    "exp": np.exp,
    "log": np.log,
    "sqrt": np.sqrt,
    "abs": np.abs,
    "sign": np.sign,
    "floor": np.floor,
    "min": lambda *values: reduce(np.minimum, values),
    "max": lambda *values: reduce(np.maximum, values),
}
_OF_MANY = ("min", "max")
_OPERATORS: dict[type[ast.operator | ast.unaryop], Callable[..., Value]] = {
    ast.Add: np.add,
    ast.Sub: np.subtract,
    ast.Mult: np.multiply,
    ast.Div: np.divide,
    ast.Pow: np.power,
    ast.Mod: np.mod,
    ast.UAdd: np.positive,
    ast.USub: np.negative,
}

# What people type out of habit, where the nearest spelling would mislead (ln is not min).
_HABITS = {
    "ln": "log",
    "arcsin": "asin",
    "arccos": "acos",
    "arctan": "atan",
    "fabs": "abs",
    "sgn": "sign",
    "minimum": "min",
    "maximum": "max",
    "x": "u",
    "y": "v",
}
_REFUSED_OPERATORS: dict[type[ast.AST], tuple[str, str]] = {
    ast.BitXor: ("^", "A power is written **, for example u**2."),
    ast.FloorDiv: ("//", "Write floor(a/b)."),
    ast.MatMult: ("@", "A product is written *."),
    ast.BitAnd: ("&", ""),
    ast.BitOr: ("|", "The absolute value is written abs(u)."),
    ast.LShift: ("<<", ""),
    ast.RShift: (">>", ""),
    ast.Invert: ("~", "Write -u for the negative."),
    ast.Not: ("not", ""),
}
_REFUSED_FORMS: dict[type[ast.AST], tuple[str, str]] = {
    ast.Attribute: ("attribute access", "Write sin(u), without a module in front."),
    ast.Subscript: ("a subscript", "u and v are numbers here."),
    ast.Lambda: ("a lambda", "Write the formula itself."),
    ast.ListComp: ("a comprehension", "Write the sum out."),
    ast.SetComp: ("a comprehension", "Write the sum out."),
    ast.DictComp: ("a comprehension", "Write the sum out."),
    ast.GeneratorExp: ("a comprehension", "Write the sum out."),
    ast.Compare: ("a comparison", "A step can be written with sign, min or max."),
    ast.BoolOp: ("and/or", "A step can be written with sign, min or max."),
    ast.IfExp: ("if/else", "A step can be written with sign, min or max."),
    ast.JoinedStr: ("an f-string", "Only numbers can be used."),
    ast.NamedExpr: ("an assignment (:=)", "Write the value where it is used."),
    ast.Tuple: ("a tuple", "A coupling has one value."),
    ast.List: ("a list", "A coupling has one value."),
    ast.Set: ("a set", "A coupling has one value."),
    ast.Dict: ("a dict", "A coupling has one value."),
    ast.Starred: ("a starred argument", "Write the arguments out."),
}
_KNOWN = (
    "Known are u, v, pi, e, numbers, + - * / ** %, and the functions " + ", ".join(_FUNCTIONS) + "."
)


@dataclass(frozen=True)
class ExpressionCoupling:
    """A coupling ρ(u, v) given as a formula, e.g. "1+2*sin(2*pi*u)*sin(2*pi*(u+v))".

    Two couplings are equal when their texts are. Raises InputError when the text is no formula.
    """

    text: str
    _evaluate: Evaluator = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        text = _clean(self.text)
        object.__setattr__(self, "text", text)
        object.__setattr__(self, "_evaluate", _Reader(text).read(_parse(text), nesting=0))

    def __call__(self, u: object, v: object) -> Float64[np.ndarray, "..."]:
        """ρ(u, v) in float64, in the full shape that u and v broadcast to.

        Where the formula has no finite value (1/0, log of a negative number) the result has inf or
        nan and no warning: `pod` looks for them and says where they are.
        """
        u_array, v_array = _as_float64("u", u), _as_float64("v", v)
        try:
            shape = np.broadcast_shapes(u_array.shape, v_array.shape)
        except ValueError:
            raise InputError(
                "u and v do not broadcast",
                (u_array.shape, v_array.shape),
                "Pass shapes such as (n, 1) and (1, m), or two equal ones.",
            ) from None
        with np.errstate(all="ignore"):
            value = self._evaluate(u_array, v_array)
        return np.array(np.broadcast_to(value, shape))


def parse_coupling(text: object) -> ExpressionCoupling:
    """The coupling that `text` describes, or an InputError that names what cannot be in one."""
    if not isinstance(text, str):
        raise InputError("a coupling must be text", text, 'For example "exp(-(u-v)**2)".')
    return ExpressionCoupling(text)


def _as_float64(name: str, value: object) -> NDArray[np.float64]:
    array = np.asarray(value)
    if array.dtype.kind not in "fiub":
        raise InputError(f"{name} must be real numbers", value, "Pass an array of floats.")
    return array.astype(np.float64, copy=False)


def _clean(text: str) -> str:
    """`text` on one line of plain ASCII, so that a column of the tree is a place in the text."""
    if len(text) > MAX_LENGTH:
        raise InputError(
            f"a coupling has at most {MAX_LENGTH} characters; this one has {len(text)}",
            text,
            "Longer ones can be written as a Python function and given to attnrate.pod.",
        )
    line = re.sub(r"\s", " ", text, flags=re.ASCII)
    strange = re.search(r"[^ -~]|#", line)
    if strange:
        raise InputError(
            "a coupling cannot contain this character",
            strange.group(),
            "Use plain letters, digits and signs, for example - for minus and pi for π."
            + _mark(line, strange.start()),
        )
    if not line.strip():
        raise InputError("the coupling is empty", text, 'For example "exp(-(u-v)**2)".')
    return line.strip()


def _parse(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            # Python warns about odd literals ("1if"); the whitelist refuses them anyway.
            warnings.simplefilter("ignore")
            return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        # Python's own advice ("Maybe you meant '=='?") would lead to what is refused here.
        reason = re.split(r"[.,;] (?=[Pp]erhaps|[Mm]aybe|[Dd]id you|use )", error.msg)[0]
        # A text that breaks off is reported at offset 0; its mark belongs at the end.
        column = min(error.offset - 1, len(text)) if error.offset else len(text)
        raise InputError(
            f"the coupling cannot be read at character {column + 1} ({reason})",
            text,
            "A product is written with *, for example 2*u." + _mark(text, column),
        ) from None
    except (RecursionError, MemoryError):
        pass
    _refuse_depth(text)


def _refuse_depth(text: str) -> NoReturn:
    raise InputError(
        f"the coupling is nested too deeply (the limit is {MAX_NESTING} levels)",
        text,
        "Longer ones can be written as a Python function and given to attnrate.pod.",
    )


def _mark(text: str, column: int) -> str:
    """Two lines: the surroundings of `column` in `text`, and a caret under it."""
    start = max(0, column - 40)
    # What cannot be printed may not reach the terminal either (escape sequences, surrogates).
    shown = "".join(c if c.isprintable() else "?" for c in text[start : column + 30])
    return f"\n    {shown}\n    {' ' * (column - start)}^"


def _nearest(name: str, known: list[str]) -> str:
    if _HABITS.get(name.lower()) in known:
        return f"Did you mean {_HABITS[name.lower()]}? "
    close = get_close_matches(name.lower(), known, n=1)
    return f"Did you mean {close[0]}? " if close else ""


def _applied(function: Callable[..., Value], arguments: list[Evaluator]) -> Evaluator:
    return lambda u, v: function(*(argument(u, v) for argument in arguments))


@dataclass(frozen=True)
class _Reader:
    """Turns the nodes of one parsed text into evaluators; each method reads one kind of node."""

    text: str

    def read(self, node: ast.AST, nesting: int) -> Evaluator:
        if nesting > MAX_NESTING:
            _refuse_depth(self.text)
        match node:
            case ast.Constant():
                return self._constant(node)
            case ast.Name():
                return self._name(node)
            case ast.UnaryOp():
                return _applied(self._operator(node), [self.read(node.operand, nesting + 1)])
            case ast.BinOp():
                return self._chain(node, nesting)
            case ast.Call():
                return self._call(node, nesting)
        name = type(node).__name__
        what, remedy = _REFUSED_FORMS.get(type(node), (f"{name} (a form of Python)", ""))
        self._refuse(what, node, remedy or _KNOWN)

    def _constant(self, node: ast.Constant) -> Evaluator:
        # Every number is a float, so that 9**9**9 is inf at once and not an integer of 10^8 digits.
        if isinstance(node.value, bool) or not isinstance(node.value, int | float):
            kind = type(node.value).__name__
            self._refuse(f"a constant of type {kind}", node, "Only real numbers can be used.")
        try:
            number = np.float64(float(node.value))
        except OverflowError:
            number = np.float64(np.inf)
        if not np.isfinite(number):
            self._refuse("a number beyond 1.8e308", node, "Write a smaller one.")
        return lambda _u, _v: number

    def _name(self, node: ast.Name) -> Evaluator:
        if node.id in _NAMES:
            return _NAMES[node.id]
        if node.id in _FUNCTIONS:
            self._refuse("a function without arguments", node, f"Write {node.id}(...).")
        hint = _nearest(node.id, list(_NAMES))
        self._refuse(f"the unknown name {node.id}", node, hint + _KNOWN)

    def _chain(self, node: ast.BinOp, nesting: int) -> Evaluator:
        # a+b+c+... leans to the left in the tree, one level a term. It is walked in a loop, so that
        # a long sum is not taken for deep nesting.
        links: list[tuple[Callable[..., Value], ast.expr]] = []
        left: ast.expr = node
        while isinstance(left, ast.BinOp):
            links.append((self._operator(left), left.right))
            left = left.left
        first = self.read(left, nesting + 1)
        rest = [(function, self.read(right, nesting + 1)) for function, right in reversed(links)]

        def chain(u: NDArray[np.float64], v: NDArray[np.float64]) -> Value:
            value = first(u, v)
            for function, operand in rest:
                value = function(value, operand(u, v))
            return value

        return chain

    def _call(self, node: ast.Call, nesting: int) -> Evaluator:
        if not isinstance(node.func, ast.Name):
            if isinstance(node.func, ast.Attribute):
                self.read(node.func, nesting)
            self._refuse("a call of something that is no function", node, "A product needs a *.")
        name = node.func.id
        if name in _NAMES:
            self._refuse(f"a call of {name}, which is a number", node, f"Write {name}*(...).")
        if name not in _FUNCTIONS:
            hint = _nearest(name, list(_FUNCTIONS))
            self._refuse(f"the unknown function {name}", node, hint + _KNOWN)
        if node.keywords:
            self._refuse("an argument with a keyword", node, f"Write {name}(u).")
        count, many = len(node.args), name in _OF_MANY
        if count < 2 if many else count != 1:
            wanted = "two or more arguments" if many else "one argument"
            given = "1 argument" if count == 1 else f"{count} arguments"
            self._refuse(f"{name} with {given}", node, f"{name} takes {wanted}.")
        arguments = [self.read(argument, nesting + 1) for argument in node.args]
        return _applied(_FUNCTIONS[name], arguments)

    def _operator(self, node: ast.UnaryOp | ast.BinOp) -> Callable[..., Value]:
        if type(node.op) in _OPERATORS:
            return _OPERATORS[type(node.op)]
        sign, remedy = _REFUSED_OPERATORS[type(node.op)]
        after = node.left.end_col_offset if isinstance(node, ast.BinOp) else node.col_offset
        place = self.text.find(sign, after)
        self._refuse(f"the operator {sign}", node, remedy or _KNOWN, place)

    def _refuse(self, what: str, node: ast.AST, remedy: str, place: int | None = None) -> NoReturn:
        start = getattr(node, "col_offset", 0)
        piece = self.text[start : getattr(node, "end_col_offset", None)]
        mark = _mark(self.text, start if place is None else place)
        raise InputError(f"a coupling cannot contain {what}", piece, remedy + mark)
