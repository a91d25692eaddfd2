"""What a typed coupling means, and that nothing but a formula gets through."""

import itertools
import math
import re
import string

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from attnrate.errors import InputError
from attnrate.theory.expression import (
    MAX_LENGTH,
    MAX_NESTING,
    ExpressionCoupling,
    parse_coupling,
)

GRID_U = np.linspace(0.05, 0.95, 7)[:, None]
GRID_V = np.linspace(0.1, 0.9, 5)[None, :]


def value(text: str, u: float = 0.3, v: float = 0.7) -> float:
    return float(parse_coupling(text)(np.array(u), np.array(v)))


# What the formulas mean: closed forms


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("1/4", 0.25),
        ("2**3**2", 512.0),
        ("-2**2", -4.0),
        ("2**-1", 0.5),
        ("1-2-3", -4.0),
        ("8/2/2", 2.0),
        ("1+2*3", 7.0),
        ("(1+2)*3", 9.0),
        ("7%4", 3.0),
        ("-7%4", 1.0),
        ("+-+1", -1.0),
        ("1_000 + 0x10 + .5e1", 1021.0),
        ("sin(pi/6)", 0.5),
        ("cos(pi/3)", 0.5),
        ("tan(pi/4)", 1.0),
        ("asin(1)", math.pi / 2),
        ("acos(-1)", math.pi),
        ("4*atan(1)", math.pi),
        ("cosh(log(2))", 1.25),
        ("sinh(log(2))", 0.75),
        ("tanh(log(2))", 0.6),
        ("log(e**3)", 3.0),
        ("exp(1)", math.e),
        ("sqrt(2)**2", 2.0),
        ("abs(-3)", 3.0),
        ("sign(-3)+sign(0)+2*sign(5)", 1.0),
        ("floor(-1.5)", -2.0),
        ("min(3, 1, 2)", 1.0),
        ("max(3, 1, 4, 2)", 4.0),
        ("u", 0.3),
        ("v", 0.7),
        ("\n u\t+\r\n v ", 1.0),
    ],
)
def test_a_formula_has_the_value_of_school_arithmetic(text: str, truth: float) -> None:
    assert value(text) == pytest.approx(truth, rel=1e-15)


def test_the_papers_coupling_is_the_one_of_appendix_d3() -> None:
    rho = parse_coupling("1+2*sin(2*pi*u)*sin(2*pi*(u+v))")
    a, b = 2 * np.pi * GRID_U, 2 * np.pi * GRID_V
    expanded = 1 + np.cos(b) - np.cos(2 * a) * np.cos(b) + np.sin(2 * a) * np.sin(b)
    np.testing.assert_allclose(rho(GRID_U, GRID_V), expanded, rtol=0, atol=1e-14)


def test_a_kink_is_min_and_abs_alike() -> None:
    kink, same = parse_coupling("min(u, v)"), parse_coupling("(u + v - abs(u - v)) / 2")
    np.testing.assert_allclose(kink(GRID_U, GRID_V), same(GRID_U, GRID_V), rtol=1e-15)


@pytest.mark.parametrize("text", ["1", "pi", "u", "v", "u+v", "sin(u)", "min(1, 2)"])
@pytest.mark.parametrize(
    ("u_shape", "v_shape", "shape"),
    [
        ((3, 1), (1, 4), (3, 4)),
        ((5,), (5,), (5,)),
        ((), (), ()),
        ((2, 1, 3), (4, 1), (2, 4, 3)),
        ((0,), (1,), (0,)),
    ],
)
def test_every_formula_fills_the_whole_broadcast_shape(
    text: str, u_shape: tuple[int, ...], v_shape: tuple[int, ...], shape: tuple[int, ...]
) -> None:
    result = parse_coupling(text)(np.full(u_shape, 0.5), np.full(v_shape, 0.25))
    assert result.shape == shape
    assert result.dtype == np.float64
    assert result.flags.writeable


def test_the_result_is_no_view_of_the_input() -> None:
    u = np.zeros(3)
    parse_coupling("u")(u, u)[:] = 1
    assert not u.any()


def test_single_precision_and_whole_numbers_are_computed_in_double() -> None:
    rho = parse_coupling("u/3")
    assert rho(np.ones(1, np.float32), 0.0)[0] == 1 / 3
    assert rho(np.ones(1, np.int64), 0)[0] == 1 / 3


@pytest.mark.parametrize(
    ("text", "truth"),
    [
        ("1/(u-u)", np.inf),
        ("0/(u-u)", np.nan),
        ("log(-u)", np.nan),
        ("log(0)", -np.inf),
        ("(-1)**0.5", np.nan),
        ("0**-1", np.inf),
        ("1%0", np.nan),
        ("exp(1000)", np.inf),
        ("9**9**9", np.inf),
        ("asin(2)", np.nan),
    ],
)
def test_where_no_finite_value_exists_it_says_so_without_a_warning(text: str, truth: float) -> None:
    np.testing.assert_equal(value(text), truth)


def test_a_coupling_is_known_by_its_text() -> None:
    rho = parse_coupling(" u*v ")
    assert isinstance(rho, ExpressionCoupling)
    assert rho.text == "u*v"
    assert rho == parse_coupling("u*v") != parse_coupling("u+v")
    assert len({rho, parse_coupling("u*v")}) == 1
    assert repr(rho) == "ExpressionCoupling(text='u*v')"


# Properties


def grow(inner: st.SearchStrategy[tuple[str, float]]) -> st.SearchStrategy[tuple[str, float]]:
    pair = st.tuples(inner, inner)
    return st.one_of(
        pair.map(lambda p: (f"({p[0][0]} + {p[1][0]})", p[0][1] + p[1][1])),
        pair.map(lambda p: (f"({p[0][0]}-{p[1][0]})", p[0][1] - p[1][1])),
        pair.map(lambda p: (f"({p[0][0]}*{p[1][0]})", p[0][1] * p[1][1])),
        pair.map(lambda p: (f"max({p[0][0]}, {p[1][0]})", max(p[0][1], p[1][1]))),
        inner.map(lambda p: (f"(-{p[0]})", -p[1])),
        inner.map(lambda p: (f"sqrt(abs({p[0]}))", math.sqrt(abs(p[1])))),
        inner.map(lambda p: (f"(1/(1+abs({p[0]})))", 1 / (1 + abs(p[1])))),
    )


# A random formula with its value at u = 0.3, v = 0.7, built side by side with plain floats. Only
# operations that IEEE 754 rounds correctly take part, so that both must agree to the last bit.
FORMULAS = st.recursive(
    st.one_of(
        st.just(("u", 0.3)),
        st.just(("v", 0.7)),
        st.just(("pi", math.pi)),
        st.floats(0.125, 4).map(lambda number: (repr(number), number)),
    ),
    grow,
    max_leaves=12,
)


@settings(max_examples=500)
@given(FORMULAS)
def test_a_random_formula_agrees_with_plain_floats_to_the_last_bit(
    formula: tuple[str, float],
) -> None:
    text, truth = formula
    assert value(text) == truth


TOKENS = [
    *("u", "v", "pi", "e", "1", "2.5", "1e3", "+", "-", "*", "/", "**", "%", "(", ")", ","),
    *("sin(", "max(", "min(", "log(", "abs(", " ", "sin", "floor(u)", "(u)", "(v)"),
]
FOREIGN = [
    *("^", "//", "@", "~", "[", "]", "{", "}", ".", ":", ":=", "=", "==", "<", "not ", " if "),
    *(" else ", " for u in ", "lambda ", "'", '"', "f'{u}'", "x", "__class__", "1j", "True", "\\"),
    *("import ", "await ", "yield ", "*u", "#", "\0", "\n", "π", "9" * 400, "1e999", "...", ";"),
]


def comes_back_or_is_refused(text: str) -> None:
    refused = None
    try:
        result = parse_coupling(text)(GRID_U, GRID_V)
    except InputError as error:
        refused = error
    if refused is None:
        assert result.shape == (7, 5)
        assert result.dtype == np.float64
    else:
        one_line = re.sub(r"\s", " ", text, flags=re.ASCII)
        assert refused.value == text or refused.value in one_line
        assert all(part.isprintable() for part in str(refused).split("\n"))


@settings(max_examples=2000)
@given(st.text(max_size=60))
@example("\ud800")
@example("\x1b[31m")
def test_any_text_is_a_coupling_or_an_input_error(text: str) -> None:
    comes_back_or_is_refused(text)


@settings(max_examples=2000)
@given(st.text(alphabet=string.printable, max_size=40))
def test_any_ascii_text_is_a_coupling_or_an_input_error(text: str) -> None:
    comes_back_or_is_refused(text)


@settings(max_examples=3000)
@given(st.lists(st.sampled_from(TOKENS + FOREIGN), max_size=25))
def test_any_soup_of_tokens_is_a_coupling_or_an_input_error(tokens: list[str]) -> None:
    comes_back_or_is_refused("".join(tokens))


@settings(max_examples=2000)
@given(st.lists(st.sampled_from(TOKENS), min_size=1, max_size=7))
def test_any_soup_of_known_tokens_is_a_coupling_or_an_input_error(tokens: list[str]) -> None:
    comes_back_or_is_refused("".join(tokens))


@settings(max_examples=500)
@given(
    st.sampled_from(["(", "sin(", "-", "[", "{", "u[", "u**", "max(u,", "not ", "lambda:", "f'{"]),
    st.integers(1, 5000),
    st.sampled_from(["u", "1 2", "", "u=1"]),
    st.booleans(),
)
@example("(", 5000, "u", True)
@example("-", MAX_LENGTH - 1, "u", False)
@example("u**", 600, "u", False)
def test_any_deep_nesting_is_a_coupling_or_an_input_error(
    opening: str, depth: int, core: str, closed: bool
) -> None:
    closing = {"(": ")", "[": "]", "{": "}"}.get(opening[-1], ")" if "(" in opening else "")
    comes_back_or_is_refused(opening * depth + core + (closing * depth if closed else ""))


def test_the_nesting_limit_is_sharp() -> None:
    deepest = "sin(" * MAX_NESTING + "u" + ")" * MAX_NESTING
    assert parse_coupling(deepest)(0.0, 0.0) == 0.0
    with pytest.raises(InputError, match=f"limit is {MAX_NESTING} levels") as refused:
        parse_coupling(f"sin({deepest})")
    assert refused.value.value == f"sin({deepest})"


def test_a_long_sum_is_not_deep() -> None:
    assert value("+".join(["1"] * 1000)) == 1000.0


def test_the_length_limit_is_sharp() -> None:
    longest = "1".rjust(MAX_LENGTH)
    assert value(longest) == 1.0
    with pytest.raises(InputError, match=f"at most {MAX_LENGTH} characters") as refused:
        parse_coupling(longest + " ")
    assert refused.value.value == longest + " "


# What is refused, by name


@pytest.mark.parametrize(
    ("text", "named", "piece"),
    [
        ("u.__class__", "attribute access", "u.__class__"),
        ("1+np.sin(u)", "attribute access", "np.sin"),
        ("u[0]", "a subscript", "u[0]"),
        ("lambda: u", "a lambda", "lambda: u"),
        ("[u for u in v]", "a comprehension", "[u for u in v]"),
        ("max(u for v in u)", "max with 1 argument", "max(u for v in u)"),
        ("max(1, (u for v in u))", "a comprehension", "(u for v in u)"),
        ("{u: v}", "a dict", "{u: v}"),
        ("{u, v}", "a set", "{u, v}"),
        ("u, v", "a tuple", "u, v"),
        ("u < v", "a comparison", "u < v"),
        ("u and v", "and/or", "u and v"),
        ("u if v else 1", "if/else", "u if v else 1"),
        ("u*'a'", "type str", "'a'"),
        ("f'{u}'", "an f-string", "f'{u}'"),
        ("b'a'", "type bytes", "b'a'"),
        ("u+(w := 1)", "an assignment", "w := 1"),
        ("sin(*u)", "a starred argument", "*u"),
        ("sin(x=u)", "an argument with a keyword", "sin(x=u)"),
        ("sin(**u)", "an argument with a keyword", "sin(**u)"),
        ("await u", "Await", "await u"),
        ("True", "type bool", "True"),
        ("None", "type NoneType", "None"),
        ("1j*u", "type complex", "1j"),
        ("u*1e999", "a number beyond", "1e999"),
        ("9" * 400, "a number beyond", "9" * 400),
        ("u^2", "the operator ^", "u^2"),
        ("u//v", "the operator //", "u//v"),
        ("u@v", "the operator @", "u@v"),
        ("u&v", "the operator &", "u&v"),
        ("u|v", "the operator |", "u|v"),
        ("u<<v", "the operator <<", "u<<v"),
        ("u>>v", "the operator >>", "u>>v"),
        ("~u", "the operator ~", "~u"),
        ("not u", "the operator not", "not u"),
        ("w", "the unknown name w", "w"),
        ("__import__('os')", "the unknown function __import__", "__import__('os')"),
        ("eval('u')", "the unknown function eval", "eval('u')"),
        ("1+sin", "a function without arguments", "sin"),
        ("u(v)", "a call of u", "u(v)"),
        ("2(u)", "no function", "2(u)"),
        ("u−v", "this character", "−"),
        ("u\0", "this character", "\0"),
        ("u # + v", "this character", "#"),
    ],
)
def test_anything_but_a_formula_is_refused_by_name(text: str, named: str, piece: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_coupling(text)
    assert named in refused.value.what
    assert refused.value.value == piece


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        ("sinn(u)", "Did you mean sin?"),
        ("SQRT(u)", "Did you mean sqrt?"),
        ("ln(u)", "Did you mean log?"),
        ("arctan(u)", "Did you mean atan?"),
        ("U*v", "Did you mean u?"),
        ("x*v", "Did you mean u?"),
        ("u*y", "Did you mean v?"),
        ("Pi*u", "Did you mean pi?"),
        ("u^2", "written **"),
        ("u//v", "floor(a/b)"),
        ("u(1+v)", "Write u*(...)"),
        ("2u", "2*u"),
    ],
)
def test_the_way_out_is_offered(text: str, hint: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_coupling(text)
    assert hint in refused.value.remedy


@pytest.mark.parametrize(
    ("call", "wanted"),
    [
        ("sin()", "sin takes one argument"),
        ("sin(u, v)", "sin takes one argument"),
        ("log(u, 2)", "log takes one argument"),
        ("min()", "min takes two or more arguments"),
        ("max(u)", "max takes two or more arguments"),
    ],
)
def test_a_wrong_number_of_arguments_is_refused_with_the_right_one(call: str, wanted: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_coupling(f"1 + {call}")
    assert wanted in refused.value.remedy
    assert refused.value.value == call


@pytest.mark.parametrize(
    ("text", "marked"),
    [
        ("1 + u)", ")"),
        ("sin(u", "("),
        ("1 + sin u", "u"),
        ("u = 1", "="),
        ("1 + w + u", "w"),
        ("(u + v) ^ 2", "^"),
        ("1 + not_a_function(u)", "n"),
        ("u" + " + u" * 200 + " + é", "é"),
    ],
)
def test_the_mark_stands_under_the_mistake(text: str, marked: str) -> None:
    with pytest.raises(InputError) as refused:
        parse_coupling(text)
    *_, shown, mark = refused.value.remedy.split("\n")
    assert shown[mark.index("^")] == marked


@pytest.mark.parametrize("text", ["u +", "2*", "u**"])
def test_a_text_that_breaks_off_is_marked_at_its_end(text: str) -> None:
    with pytest.raises(InputError, match="cannot be read") as refused:
        parse_coupling(text)
    *_, shown, mark = refused.value.remedy.split("\n")
    assert mark.index("^") >= len(shown) - 1
    assert refused.value.value == text


def test_nothing_unprintable_reaches_the_terminal() -> None:
    for strange in ("\x1b[31mu", "\ud800", "u\x07"):
        with pytest.raises(InputError) as refused:
            parse_coupling(strange)
        assert all(part.isprintable() for part in str(refused.value).split("\n"))


@pytest.mark.parametrize("text", ["", " ", "\n\t \r"])
def test_empty_text_is_refused(text: str) -> None:
    with pytest.raises(InputError, match="empty") as refused:
        parse_coupling(text)
    assert refused.value.value == text


@pytest.mark.parametrize("wrong", [None, 1, b"u", ["u"], np.zeros(2)])
def test_what_is_no_text_is_refused(wrong: object) -> None:
    with pytest.raises(InputError, match="must be text") as refused:
        parse_coupling(wrong)
    assert refused.value.value is wrong


def test_arrays_that_do_not_broadcast_are_refused_with_both_shapes() -> None:
    with pytest.raises(InputError, match="broadcast") as refused:
        parse_coupling("1")(np.zeros(3), np.zeros(4))
    assert refused.value.value == ((3,), (4,))


@pytest.mark.parametrize("wrong", ["a", None, np.zeros(2, complex), [object()]])
def test_arrays_that_are_no_real_numbers_are_refused(wrong: object) -> None:
    rho = parse_coupling("u+v")
    for u, v in itertools.permutations([0.0, wrong]):
        with pytest.raises(InputError, match="real numbers") as refused:
            rho(u, v)
        assert refused.value.value is wrong
