"""A compression as a picture: ways to a smaller cache, or the layers of a model without one."""

import io
import math
from dataclasses import replace

import torch
from matplotlib.text import Text
from matplotlib.transforms import Bbox
from rotary_tiny import tiny_llama, tokens

import attnrate as ar
from attnrate.compress.drawn import layers_figure, ways_figure
from attnrate.compress.result import CompressedLayer
from attnrate.compress.rivals import Rival
from attnrate.figures.draw import draw
from attnrate.figures.figure import Curves, Figure

WAYS = ["whole", "cut", "int8 keys", "4-bit keys", "cut + int8 keys", "cut + 4-bit keys"]
RIVALS = (
    Rival("whole", 128.0, 64.0, 0.0, 20.0),
    Rival("cut", 96.0, 48.0, 0.1, 25.0),
    Rival("int8 keys", 100.0, 50.0, 0.01, 20.5),
    Rival("4-bit keys", 84.0, 42.0, 0.05, 21.0),
    Rival("cut + int8 keys", 74.0, 37.0, 0.11, 25.5),
    Rival("cut + 4-bit keys", 62.0, 31.0, 0.15, 300.0),
)
LAYER = CompressedLayer("layers.0", 8, 4, 8, 8, 100, 80, 128, 96, 0.2, 0.1, "output")


def panels(figure: Figure) -> list[Curves]:
    found = [panel for panel in figure.panels if isinstance(panel, Curves)]
    assert len(found) == len(figure.panels)
    return found


def vit(layers: int) -> ar.ViT:
    return ar.ViT(image=8, patch=2, width=16, layers=layers, heads=2, m_h=8, classes=3)


def test_ways_are_perplexities_over_bytes_in_16_bits() -> None:
    (panel,) = panels(ways_figure("llama", RIVALS))
    whole, cut = panel.series
    assert (whole.label, whole.x, whole.y) == ("whole heads", (64.0, 50.0, 42.0), (20.0, 20.5, 21))
    assert (cut.label, cut.x, cut.y) == ("smaller heads", (48.0, 37.0, 31.0), (25.0, 25.5, 300.0))
    assert panel.y_label == "perplexity on inputs held out"
    # 20 and 300 would not both be read on a linear axis
    assert panel.y_scale == "log"
    (panel,) = panels(ways_figure("llama", RIVALS[:5]))
    assert panel.y_scale == "linear"


def test_a_perplexity_beyond_all_measure_is_not_drawn() -> None:
    broken = [replace(RIVALS[0], perplexity=math.exp(700)), *RIVALS[1:4]]
    figure = ways_figure("llama", broken)
    (panel,) = panels(figure)
    assert math.isnan(panel.series[0].y[0])
    assert panel.y_scale == "linear"
    draw(figure)


def test_without_a_perplexity_ways_are_changes_of_the_output() -> None:
    (panel,) = panels(ways_figure("llama", [replace(each, perplexity=None) for each in RIVALS]))
    assert panel.y_label.startswith("change of the output on inputs held out")
    assert [line.y for line in panel.series] == [(0.0, 0.01, 0.05), (0.1, 0.11, 0.15)]
    # the whole model changes nothing, which has no place on a logarithmic axis
    assert panel.y_scale == "linear"


def test_a_decoder_shows_a_word_for_each_way_and_none_on_another() -> None:
    model = tiny_llama(torch.float32)
    done = ar.compress(model, {"input_ids": tokens(10, 64)}, size=8, timing=0)
    drawing = done.plot()
    (axes,) = drawing.axes
    assert sorted(text.get_text() for text in axes.texts) == sorted(WAYS)
    drawing.draw_without_rendering()
    boxes = [Text.get_window_extent(text) for text in axes.texts]
    pairs = [(a, b) for i, a in enumerate(boxes) for b in boxes[:i]]
    assert not any(Bbox.intersection(a, b) for a, b in pairs)
    file = io.BytesIO()
    drawing.savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_a_model_without_a_cache_shows_its_layers() -> None:
    done = ar.compress(vit(2), torch.randn(20, 3, 8, 8), size=4, repair=2, timing=0)
    changes, sizes = done.plot().axes
    for line, name in zip(changes.get_lines(), ("change_cut", "change"), strict=True):
        assert [*line.get_ydata()] == [getattr(layer, name) for layer in done.layers]
    assert [[*line.get_ydata()] for line in sizes.get_lines()] == [[8, 8], [4, 4]]
    assert 'src="data:image/png' in done._repr_html_()


def test_a_cut_without_repair_of_its_layers_has_one_line_of_changes() -> None:
    figure = layers_figure("vit", [LAYER, LAYER], repaired=False)
    changes, sizes = panels(figure)
    assert [line.label for line in changes.series] == ["by the cut"]
    assert [line.label for line in sizes.series] == [
        "queries and keys, before",
        "queries and keys, now",
    ]


def test_values_have_lines_of_their_own_where_they_differ() -> None:
    thin = replace(LAYER, value_size=4)
    _, sizes = panels(layers_figure("vit", [thin], repaired=True))
    assert [line.label for line in sizes.series] == [
        "queries, keys and values, before",
        "queries, keys and values, now",
    ]
    _, sizes = panels(layers_figure("vit", [thin, replace(LAYER, value_size=2)], repaired=True))
    assert [(line.label, line.y) for line in sizes.series] == [
        ("queries and keys, before", (8, 8)),
        ("queries and keys, now", (4, 4)),
        ("values, before", (8, 8)),
        ("values, now", (4, 2)),
    ]


def test_where_only_values_were_cut_there_are_sizes_alone() -> None:
    only = replace(LAYER, size=8, value_size=4, change_cut=None, change=None)
    (sizes,) = panels(layers_figure("vit", [only, only], repaired=False))
    assert sizes.title == "sizes by layer"
    # a layer without a change is left out, and the others keep their numbers
    changes, _ = panels(layers_figure("vit", [only, LAYER], repaired=False))
    assert (changes.series[0].x, changes.series[0].y) == ((1.0,), (0.2,))
