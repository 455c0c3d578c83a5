"""Pictures of rooflines: the same bytes every time, no label on another, and what they must say."""

from __future__ import annotations

import dataclasses
import re
import xml.etree.ElementTree as ET

import pytest
from roofline_rows import ORIGIN, round_device, work_rows

from rocktools.devices.ceilings import apply_ceilings, parse_ceilings
from rocktools.devices.device import Level
from rocktools.devices.files import read_device
from rocktools.render.roofline_plot import LABELS_COUNT, render_roofline_png, render_roofline_svg
from rocktools.roofline.points import build_roofline


def _roofline(count=6, device=None, origin=ORIGIN):
    rows = [
        {
            "name": f"kernel_number_{n}",
            "end_ns": 1000 + n,
            "compute_flop": 700 * (n + 1) // count,
            "moved_bytes": 40 * n + 1,
        }
        for n in range(count)
    ]
    return build_roofline(work_rows(*rows), device or round_device(), origin)


def _texts(svg):
    root = ET.fromstring(svg)
    return ["".join(each.itertext()) for each in root.iter("{http://www.w3.org/2000/svg}text")]


def test_svg_is_the_same_every_time_and_has_no_date():
    first = render_roofline_svg(_roofline(), is_simulated=False)
    assert first == render_roofline_svg(_roofline(), is_simulated=False)
    assert not re.search(r"\b20\d\d-\d\d-\d\d\b", first)


def test_png_is_the_same_every_time():
    first = render_roofline_png(_roofline(), is_simulated=False)
    assert first[:8] == b"\x89PNG\r\n\x1a\n"
    assert first == render_roofline_png(_roofline(), is_simulated=False)


def test_picture_says_device_level_evidence_ceilings_and_points():
    text = "\n".join(_texts(render_roofline_svg(_roofline(), is_simulated=False)))
    for said in (
        "Roofline of Round part, SPX/NPS1, level hbm",
        "Evidence: FLOPs and bytes: compiler estimate (by hand); time: trace.",
        "bf16 matrix (declared)",
        "1 GFLOP/s",
        "hbm: 1 GB/s (declared)",
        "kernel_number_5",
        "6 points, 6 with a label",
        "FLOP per HBM byte",
    ):
        assert said in text
    assert "SIMULATED" not in text


def test_simulated_is_stamped_on_the_picture_and_in_the_title():
    texts = _texts(render_roofline_svg(_roofline(), is_simulated=True))
    assert "SIMULATED" in texts
    assert any(text.startswith("SIMULATED") and "Roofline of" in text for text in texts)


def test_only_the_longest_points_have_labels_and_the_rest_is_counted():
    texts = _texts(render_roofline_svg(_roofline(count=60), is_simulated=False))
    labels = [text for text in texts if text.startswith("kernel_number_")]
    assert 0 < len(labels) <= LABELS_COUNT
    assert f"60 points, {len(labels)} with a label" in "\n".join(texts)


@pytest.mark.parametrize("spread", [0, 1, 40])
def test_labels_do_not_lie_on_each_other(spread):
    """Points on one spot, close together and far apart: the boxes of the labels that are left are apart."""
    render_roofline_png(_roofline(), is_simulated=False)  # imports matplotlib, whose old versions warn then
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    rows = [
        {"name": f"a_rather_long_kernel_name_{n}", "end_ns": 1000, "compute_flop": 500 + spread * n, "moved_bytes": 90}
        for n in range(12)
    ]
    roofline = build_roofline(work_rows(*rows), round_device(), ORIGIN)
    drawn = []
    real = FigureCanvasAgg.__init__

    def remember(self, figure):
        drawn.append(figure)
        real(self, figure)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FigureCanvasAgg, "__init__", remember)
        render_roofline_png(roofline, is_simulated=False)
    figure = drawn[0]
    labels = [text for text in figure.axes[0].texts if text.get_text().startswith("a_rather")]
    assert labels
    renderer = FigureCanvasAgg(figure).get_renderer()
    boxes = [text.get_bbox_patch().get_window_extent(renderer) for text in labels]
    assert not [(i, j) for i, a in enumerate(boxes) for j, b in enumerate(boxes) if i < j and a.overlaps(b)]


def test_measured_and_stated_ceilings_are_both_drawn():
    measured = (
        "schema: rocktools.ceilings/1\nsource: mine\nflop_per_s: {matrix: {bf16: 1.7e15}}\nbytes_per_s: {hbm: 6e12}\n"
    )
    device, _ = apply_ceilings(read_device("MI355X"), parse_ceilings(measured, source="f"))
    text = "\n".join(_texts(render_roofline_svg(_roofline(device=device), is_simulated=False)))
    for said in ("bf16 matrix (measured)", "1.700 PFLOP/s", "bf16 matrix (declared)", "2.517 PFLOP/s",
                 "hbm: 6 TB/s (measured)", "HBM3E: 8 TB/s (declared)"):  # fmt: skip
        assert said in text


def test_fabric_cache_is_drawn_beside_hbm_where_its_bandwidth_is_published():
    text = "\n".join(_texts(render_roofline_svg(_roofline(device=read_device("MI300X")), is_simulated=False)))
    assert "memory-side cache: 17.20 TB/s (declared)" in text


@pytest.mark.parametrize("level", [Level.HBM, Level.NETWORK])
def test_nothing_to_draw_is_still_a_picture(level):
    origin = dataclasses.replace(ORIGIN, level=level)
    roofline = build_roofline(work_rows({"compute_flop": 0, "moved_bytes": 50}), round_device(), origin)
    assert "0 points, 0 with a label" in "\n".join(_texts(render_roofline_svg(roofline, is_simulated=False)))


def test_names_of_any_kind_are_drawn_as_text():
    name = 'void f<$x^{2}$>(a & b) <"q">\\alpha'
    roofline = build_roofline(work_rows({"name": name, "compute_flop": 90, "moved_bytes": 9}), round_device(), ORIGIN)
    assert name in _texts(render_roofline_svg(roofline, is_simulated=False))
