"""Draws a churn run in SVG: resident memory and file descriptors of every node over time. It
measures nothing.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from tools.churn.samples import Sample

_WIDTH, _HEIGHT = 800, 250
_LEFT, _RIGHT, _TOP, _BOTTOM = 60, 20, 30, 40
_COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e")


def draw(samples: Sequence[Sample], title: str) -> str:
    """Two charts, one below the other, both from zero."""
    memory = _chart(samples, f"{title}: resident memory, MiB", lambda one: one.rss_kib / 1024)
    files = _chart(samples, "file descriptors", lambda one: one.descriptors)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {2 * _HEIGHT}"'
        f' font-family="sans-serif" font-size="12">\n<rect width="{_WIDTH}" height="{2 * _HEIGHT}"'
        f' fill="white"/>\n{memory}\n<g transform="translate(0'
        f' {_HEIGHT})">\n{files}\n</g>\n</svg>\n'
    )


def _chart(samples: Sequence[Sample], title: str, value: Callable[[Sample], float]) -> str:
    x_most = max(max(one.seconds for one in samples), 1.0)
    y_step = _step(max(map(value, samples)))
    y_most = y_step * math.ceil(max(map(value, samples)) * 1.05 / y_step)

    def at(seconds: float, y: float) -> tuple[float, float]:
        across = _LEFT + (_WIDTH - _LEFT - _RIGHT) * seconds / x_most
        return across, _HEIGHT - _BOTTOM - (_HEIGHT - _TOP - _BOTTOM) * y / y_most

    parts = [f'<text x="{_LEFT}" y="18" font-weight="bold">{title}</text>']
    for number in range(round(y_most / y_step) + 1):
        _, y = at(0, number * y_step)
        parts.append(f'<path d="M{_LEFT} {y:.1f}H{_WIDTH - _RIGHT}" stroke="#ddd"/>')
        parts.append(
            f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{number * y_step:g}</text>'
        )
    minutes = _step(x_most / 60)
    for number in range(int(x_most / 60 / minutes) + 1):
        x, _ = at(number * minutes * 60, 0)
        text = f"{number * minutes:g} min"
        parts.append(
            f'<text x="{x:.1f}" y="{_HEIGHT - _BOTTOM + 18}" text-anchor="middle">{text}</text>'
        )
    nodes = sorted({one.node_id for one in samples})
    for node_id, colour in zip(nodes, _COLOURS * len(nodes), strict=False):
        points = " ".join(
            "{:.1f},{:.1f}".format(*at(one.seconds, value(one)))
            for one in samples
            if one.node_id == node_id
        )
        parts.append(
            f'<polyline fill="none" stroke="{colour}" stroke-width="1.5" points="{points}"/>'
        )
        x = _WIDTH - _RIGHT - 60 * (len(nodes) - nodes.index(node_id))
        parts.append(f'<text x="{x}" y="18" fill="{colour}">node {node_id}</text>')
    return "\n".join(parts)


def _step(most: float) -> float:
    """Return a round distance between the lines of a chart up to ``most``, so that there are three
    to eight lines.
    """
    size = 10.0 ** math.floor(math.log10(max(most, 1e-9)))
    return next(size * part for part in (0.2, 0.5, 1.0, 2.0) if most / (size * part) <= 8)
