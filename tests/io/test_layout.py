"""A grid is cut into chunks of whole pieces that cover every point once."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from jaxroof.io.layout import Layout, count_points, cut, even_parts, gathered

SIZES = st.lists(st.integers(1, 9), max_size=3).map(
    lambda sizes: {str(i): size for i, size in enumerate(sizes)}
)


@given(size=st.integers(1, 500), most=st.integers(0, 600))
def test_parts_are_no_longer_than_asked_and_few(size, most):
    part = even_parts(size, most)
    assert 1 <= part <= max(1, min(size, most))
    assert -(-size // part) <= 2 * -(-size // max(1, min(size, most)))


@given(sizes=SIZES, most=st.integers(1, 80), several=st.integers(1, 80))
def test_chunks_and_their_pieces_cover_every_point_once(sizes, most, several):
    piece = cut(sizes, most)
    layout = Layout(sizes, gathered(sizes, piece, most * several), piece)
    assert math.prod(piece.values()) <= most
    assert math.prod(layout.chunk.values()) <= most * several
    met = np.zeros(list(sizes.values()), int)
    for number in range(layout.count):
        inside = met[tuple(layout.part(number).values())]
        assert layout.points(number) == inside.size
        points = 0
        for one in layout.pieces(number):
            met[tuple(one.part.values())] += 1
            points += count_points(one.part)
        assert points == inside.size
    assert (met == 1).all()


@given(sizes=SIZES, most=st.integers(1, 80))
def test_a_chunk_without_pieces_is_one(sizes, most):
    layout = Layout(sizes, cut(sizes, most))
    for number in range(layout.count):
        (one,) = layout.pieces(number)
        assert one.part == layout.part(number)
