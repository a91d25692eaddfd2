"""Settings of models for real data: presets and changes by name, and types that list them all."""

from dataclasses import fields
from typing import Any

import pytest

from attnrate.errors import InputError
from attnrate.models.presets import require_share
from attnrate.models.rivals import (
    GRUTranslatorChanges,
    GRUTranslatorSettings,
    Scanner,
    ScannerChanges,
    ScannerSettings,
)
from attnrate.models.seq2seq import Seq2SeqChanges, Seq2SeqSettings, seq2seq_settings
from attnrate.models.vit import ViT, ViTChanges, ViTSettings, vit_settings


@pytest.mark.parametrize(
    ("changes", "settings"),
    [
        (ViTChanges, ViTSettings),
        (Seq2SeqChanges, Seq2SeqSettings),
        (ScannerChanges, ScannerSettings),
        (GRUTranslatorChanges, GRUTranslatorSettings),
    ],
)
def test_every_setting_can_be_changed_by_name(changes: Any, settings: Any) -> None:
    assert {*changes.__annotations__} == {one.name for one in fields(settings)}


def test_settings_come_from_a_preset_or_from_themselves_with_changes() -> None:
    assert vit_settings("paper").image == 224
    assert vit_settings(ViTSettings(m_h=3), m_ff=5) == ViTSettings(m_h=3, m_ff=5)
    assert seq2seq_settings(width=8).width == 8
    assert vit_settings(image=8, order=[3, 2, 1, 0]).order == (3, 2, 1, 0)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ViT("gpu"), r"preset is not known.*'cpu', 'paper'"),
        (lambda: ViT(3), r"settings must be ViTSettings or a preset's name.*Presets: cpu, paper"),
        (lambda: Scanner("lstm"), r"preset is not known.*'gru', 'state-space'"),
        (lambda: seq2seq_settings(widht=3), r"Seq2SeqSettings\.widht is not known.*'width'"),
        (lambda: seq2seq_settings(width="3"), r"width must be a whole number"),
    ],
)
def test_what_is_no_setting_is_named(make: Any, words: str) -> None:
    with pytest.raises(InputError, match=words):
        make()


@pytest.mark.parametrize("value", [1.0, -0.1, "0.1", None])
def test_a_share_lies_between_0_and_1(value: Any) -> None:
    with pytest.raises(InputError, match="dropout must be"):
        require_share("dropout", value)
