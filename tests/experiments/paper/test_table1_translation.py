"""Table 1 on translation: models of made-up sentences in both orders, and what is shown."""

import math

import numpy as np
import pytest
from trained_models import concluded, kept, same, text_outcome

from attnrate.data import registry
from attnrate.experiments.contract import Done
from attnrate.experiments.kits.real import steps_of
from attnrate.experiments.paper.table1_translation import (
    EXPERIMENT,
    Text,
    TextSettings,
    train_on,
)
from attnrate.experiments.run import run_job
from attnrate.models.seq2seq import Seq2SeqSettings
from attnrate.targets.alter import MOVED
from attnrate.training.sentences import Sentences

pytestmark = pytest.mark.usefixtures("own_cache")
SIZES = Seq2SeqSettings(width=16, layers=1, heads=2, m_h=8, m_ff=16)


def asked(kind="attention", **changes):
    given = {"batch": 256, "parts": 2, "epochs": 1, **changes}
    return TextSettings(kind=kind, model=SIZES, recipe=steps_of(kind), **given)


class Words:
    size = 12

    def decode(self, ids):
        return " ".join("abcdefghijkl"[i] for i in ids)


@pytest.fixture
def copies() -> Sentences:
    random = np.random.default_rng(0)
    rows = [random.integers(3, 12, n).tolist() for n in random.integers(4, 16, 60)]
    texts = tuple((Words().decode(row), Words().decode(row)) for row in rows[:12])
    pairs = tuple((row, row) for row in rows)
    return Sentences(pairs, pairs[:12], texts, Words(), False)


@pytest.mark.parametrize("kind", ["attention", "gru"])
def test_a_translator_is_trained_scored_and_fine_tuned(copies, tmp_path, kind):
    found = kept(train_on(copies, asked(kind, epochs=2, tuned=1), 0, tmp_path))
    longer = sum(len(row) + 1 > 10 for row, _ in copies.test)
    assert found.moved.count == longer
    assert found.test_loss < 2 * math.log(12)
    assert found.moved.test_loss != found.test_loss
    assert found.tuned.test_loss > 0
    assert found.signature.startswith("nrefs:1")
    assert [row[0] for row in found.samples] == [row[0] for row in found.tuned.samples]
    assert found.pairs == 60
    assert found.epochs[0].test_loss is None
    assert len(found.continued.epochs) == 1
    assert found.untuned.bleu >= 0


def test_the_altered_order_moves_the_tokens_of_sentences(copies, tmp_path, seen):
    train_on(copies, asked(tuned=1), 0, tmp_path / "a")
    first, _, tuned = seen["trained"]
    assert [settings.moved for settings, *_ in seen["trained"]] == [0, 0, MOVED]
    assert same(tuned[1], first[2])
    train_on(copies, asked(altered=True), 0, tmp_path / "b")
    assert seen["trained"][-1][0].moved == MOVED


def test_without_sacrebleu_the_job_says_what_to_install(monkeypatch):
    monkeypatch.setattr(registry, "find_spec", lambda name: None)
    assert "attnrate[data]" in run_job(Text(text=asked()).settings)["missing"]


def test_translations_are_shown_with_the_signature():
    jobs = [one.job for one in EXPERIMENT.plan("paper")]
    ways = (0.8, 0.4, 0.7)
    done = [Done(job, text_outcome(0.8, ways if job.text.tuned else None)) for job in jobs]
    said = concluded("table1-translation", done)
    assert any("nrefs:1" in table.note for table in said.tables)
    shown = next(table for table in said.tables if table.title.startswith("Translations"))
    assert ("English", "a") in shown.rows
    assert ("Transformer, altered, fine-tuned", "c") in shown.rows


@pytest.mark.parametrize("preset", ["quick", "paper"])
def test_translators_see_every_pair_once_as_their_verdicts_say(preset):
    for one in EXPERIMENT.plan(preset):
        assert one.job.text.epochs == one.job.text.parts


def test_settings_that_are_none_are_refused():
    with pytest.raises(TypeError, match="epoch"):
        asked(epoch=3)
