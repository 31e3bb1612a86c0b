import numpy as np
import pytest
import tensorflow as tf
from hypothesis import given, settings
from hypothesis import strategies as st

from ds2_tf.layers.sliding_window import SlidingWindow


def windows_of(stream, size, stride, before, after):
    padded = [0.0] * before + stream + [0.0] * after
    return [padded[i : i + size] for i in range(0, len(padded) - size + 1, stride)]


@settings(max_examples=150, deadline=None)
@given(data=st.data())
def test_all_windows_come_once_and_in_order(data):
    size = data.draw(st.integers(1, 6))
    stride = data.draw(st.integers(1, size))
    before, after = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    window = SlidingWindow(size, stride, before, after)
    streams = [
        [float(100 * row + i + 1) for i in range(data.draw(st.integers(0, 25)))] for row in range(3)
    ]
    state = window.start(3, (), tf.float32)
    found = [[], [], []]
    first, ended = [0, 0, 0], [False] * 3
    while not all(ended):
        pieces, final = [], []
        for row, stream in enumerate(streams):
            count = 0 if ended[row] else data.draw(st.integers(0, len(stream) - first[row]))
            pieces.append(stream[first[row] : first[row] + count])
            first[row] += count
            final.append(not ended[row] and first[row] == len(stream))
        padded = np.full((3, max(map(len, pieces))), np.nan, np.float32)
        for row, piece in enumerate(pieces):
            padded[row, : len(piece)] = piece
        lengths = tf.constant([len(piece) for piece in pieces])
        frames, counts, state = window.push(
            state, tf.constant(padded), lengths, tf.constant(final) if any(final) else None
        )
        assert state["frames"].shape == (3, size - 1)
        for row in range(3):
            if not ended[row]:
                for number in range(counts[row]):
                    begin = number * stride
                    found[row].append(frames[row, begin : begin + size].numpy().tolist())
            ended[row] = ended[row] or final[row]
    for row, stream in enumerate(streams):
        assert found[row] == windows_of(stream, size, stride, before, after)


@pytest.mark.parametrize("arguments", [(0,), (3, 4), (3, 0), (3, 1, 3), (3, 1, 0, 3), (3, 1, -1)])
def test_windows_that_leave_frames_out_or_hold_none_are_rejected(arguments):
    with pytest.raises(ValueError, match="size must be >= stride >= 1 and > before, after >= 0"):
        SlidingWindow(*arguments)
