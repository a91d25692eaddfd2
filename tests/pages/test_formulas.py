"""Formulas of plain text as HTML: set as they are read, nothing lost, and never markup."""

import re
from html import unescape

import pytest
from hypothesis import given
from hypothesis import strategies as st

from attnrate.pages.formulas import formulas


@pytest.mark.parametrize(
    ("text", "page"),
    [
        ("m_h", "<var>m</var><sub>h</sub>"),
        ("m_FF^β", "<var>m</var><sub>FF</sub><sup><var>β</var></sup>"),
        ("k^-0.55.", "<var>k</var><sup>−0.55</sup>."),
        ("m_h^-(2α-1)", "<var>m</var><sub>h</sub><sup>−(2α−1)</sup>"),
        ("m_h^(β+1)", "<var>m</var><sub>h</sub><sup><var>β</var>+1</sup>"),
        ("m_h >= r", "<var>m</var><sub>h</sub> ≥ <var>r</var>"),
        ("x(t-s)", "<var>x</var>(<var>t</var>−<var>s</var>)"),
        ("H~_t(x)", "<var>H\u0303</var><sub>t</sub>(<var>x</var>)"),
        ("p(t') > t'", "<var>p</var>(<var>t</var>′) &gt; <var>t</var>′"),
        ("F\u0302∘f\u0302", "<var>F\u0302</var>∘<var>f\u0302</var>"),
        ("C1, C_RNN", "<var>C</var><sub>1</sub>, <var>C</var><sub>RNN</sub>"),
        ("‖θ‖_1 <= 1", "‖<var>θ</var>‖<sub>1</sub> ≤ 1"),
        ("mean_t |H_t|", "mean<sub>t</sub> |<var>H</var><sub>t</sub>|"),
        ("sqrt(σ_k)", "√<var>σ</var><sub>k</sub>"),
        ("e^-s", "<var>e</var><sup>−<var>s</var></sup>"),
        ("1.7e-16 [1e-20, -0.5]", "1.7×10<sup>−16</sup> [1×10<sup>−20</sup>, −0.5]"),
        ("by 1.78e+03", "by 1780"),
        ("H's error", "<var>H</var>&#39;s error"),
    ],
)
def test_a_formula_is_set_as_it_is_read(text: str, page: str) -> None:
    assert formulas(text) == page


@pytest.mark.parametrize(
    "text",
    [
        "A paragraph, and I say so.",
        "App. B.1, Sec. 6.2 and Table 1 of the paper",
        "attnrate reproduce --preset paper",
        "git_commit of a long-run; low-rank; 2 of 3 seeds",
        "the K-fold of the RNN, GRU and ViT-B/16",
    ],
)
def test_words_stay_words(text: str) -> None:
    assert formulas(text) == text


@given(st.text(alphabet="abmhkrσθ<>&\"'^_~()[]0123456789.e+-=/ ‖|√sqrt", max_size=40))
def test_whatever_the_text_only_these_elements_are_made(text: str) -> None:
    page = str(formulas(text))
    assert {*re.findall(r"</?(\w*)", page)} <= {"var", "sub", "sup"}
    assert page.count("<") == len(re.findall(r"</?(?:var|sub|sup)>", page))


@given(st.text(alphabet=st.characters(exclude_characters="-^_~=e'"), max_size=40))
def test_text_without_the_signs_of_formulas_is_kept_to_the_letter(text: str) -> None:
    plain = re.sub(r"</?(?:var|sub)>", "", str(formulas(text)))
    assert unescape(plain) == unescape(str(formulas("")) + text) or "sqrt" in text
