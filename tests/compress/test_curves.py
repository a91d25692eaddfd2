"""What was measured before sizes were chosen: its table, its words and its figure."""

import io

from attnrate.compress.curves import SizeCurves, SizePoint, curves_figure

POINTS = (
    SizePoint("layers.0", 2, 80, 0.3, True),
    SizePoint("layers.0", 4, 96, 0.0, False),
    SizePoint("layers.1", 2, 80, 0.5, False),
    SizePoint("layers.1", 4, 96, 0.0, True),
    SizePoint("model", 6, 176, 0.31, True),
    SizePoint("model", 4, 160, 0.6, False),
)
CURVES = SizeCurves("vit", "loss=0.4", POINTS, 8, 32)


def test_the_table_has_a_row_for_every_size_that_was_tried() -> None:
    frame = CURVES.to_frame()
    assert list(frame.columns) == ["part", "size", "bytes", "change", "chosen"]
    assert frame.change.tolist() == [0.3, 0.0, 0.5, 0.0, 0.31, 0.6]
    assert CURVES.change == 0.31


def test_the_words_hold_sizes_bytes_and_both_changes() -> None:
    assert str(CURVES) == (
        "Sizes 2, 4 (layer by layer) for loss=0.4: 176 bytes of keys and values per token. All "
        "layers cut at once change the output by 31.0 % of its size, measured on 32 calibration "
        "inputs; the root of the sum of squares of their changes alone is 30.0 %, on 8 inputs."
    )
    one = SizeCurves("llama", "bytes=160", POINTS[4:], 8, 8)
    assert str(one).startswith("One size for all layers for bytes=160: 176 bytes")


def test_the_figure_has_a_line_for_each_size_and_marks_what_was_chosen() -> None:
    alone, sizes, together = curves_figure(CURVES).panels
    assert [line.label for line in alone.series] == ["size 2", "size 4"]
    # whole heads change nothing, which has no place on a logarithmic axis
    assert [line.y for line in alone.series] == [(0.3, 0.5), ()]
    assert [(line.label, line.x, line.y) for line in sizes.series] == [
        ("now", (0.0, 1.0), (4.0, 4.0)),
        ("chosen", (0.0, 1.0), (2.0, 4.0)),
    ]
    assert together.series[0].x == (160.0, 176.0)
    assert together.series[1].y == (0.31,)
    file = io.BytesIO()
    CURVES.plot().savefig(file, format="png")
    assert file.getvalue().startswith(b"\x89PNG")


def test_one_size_for_all_layers_is_one_line() -> None:
    (panel,) = curves_figure(SizeCurves("llama", "bytes=160", POINTS[4:], 8, 8)).panels
    assert panel.title == "all layers cut at once"
    assert 'src="data:image/png' in CURVES._repr_html_()
