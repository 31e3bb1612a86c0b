import io
import os

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ds2_tf.containers.splice import Splice, SplicedFile

OWN = bytes(range(40))


@given(
    st.integers(0, 30),
    st.binary(max_size=12),
    st.integers(0, 10),
    st.lists(st.tuples(st.integers(0, 60), st.integers(0, 25)), max_size=8),
)
def test_reads_what_the_spliced_bytes_would_give(offset, content, num_replaced, reads):
    expected = OWN[:offset] + content + OWN[offset + num_replaced :]
    file = SplicedFile(io.BytesIO(OWN), len(OWN), Splice(offset, content, num_replaced))
    assert file.seek(0, os.SEEK_END) == len(expected)
    for start, size in reads:
        assert file.seek(start) == start
        assert file.read(size) == expected[start : start + size]
        assert file.tell() == max(start, min(start + size, len(expected)))


@pytest.mark.parametrize("size", [1, 7, 100])
def test_without_a_splice_it_is_the_file(size):
    file = SplicedFile(io.BytesIO(OWN), len(OWN), None)
    read = b"".join(iter(lambda: file.read(size), b""))
    assert read == OWN
    assert file.seek(-3, os.SEEK_CUR) == 37
    assert file.read(9) == OWN[37:]
