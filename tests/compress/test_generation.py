"""Generation settings beside the weights: what is written is read again, as it was."""

import json

import pytest
from thin_families import made

from attnrate.compress.generation import FILE, read_generation, write_generation
from attnrate.errors import InputError


def test_settings_come_back_as_they_were(tmp_path):
    model, other = made("bart"), made("bart")
    model.generation_config.suppress_tokens = [4, 9]
    model.generation_config.num_beams = 3
    write_generation(model, tmp_path)
    assert json.loads((tmp_path / FILE).read_text())["num_beams"] == 3
    read_generation(other, tmp_path)
    assert other.generation_config.to_dict() == model.generation_config.to_dict()


def test_a_model_that_does_not_write_has_none(tmp_path):
    write_generation(made("distilbert"), tmp_path)
    assert [*tmp_path.iterdir()] == []
    model = made("bart")
    before = model.generation_config.to_dict()
    read_generation(model, tmp_path)
    assert model.generation_config.to_dict() == before


def test_a_damaged_file_is_named(tmp_path):
    (tmp_path / FILE).write_text("{")
    with pytest.raises(InputError, match=FILE):
        read_generation(made("bart"), tmp_path)
