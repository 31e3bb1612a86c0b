import math

from ds2_tf.decoding import lm_arpa

WRITTEN = """\\data\\
ngram 1=5
ngram 2=3

\\1-grams:
-2\t<unk>\t0
0\t<s>\t-0.3
-0.5\t</s>\t0
-1\t\u3000\t-0.25
-0.6\ta\t-0.1

\\2-grams:
-0.2\ta \u3000
-0.3\t\u3000 \u3000
-0.4\t<s> a

\\end\\
"""


def test_the_stand_in_becomes_the_unknown_token():
    lines = list(lm_arpa.with_unknown(WRITTEN.splitlines(keepends=True)))
    total = f"{math.log10(0.01 + 0.1):.7g}"
    expected = WRITTEN.replace("ngram 1=5", "ngram 1=4").replace("-2\t<unk>\t0\n", "")
    expected = expected.replace("-1\t\u3000\t-0.25", f"{total}\t<unk>\t-0.25")
    assert "".join(lines) == expected.replace("\u3000", "<unk>")


def test_counts():
    assert lm_arpa.counts(WRITTEN.splitlines(keepends=True)) == [5, 3]
    assert lm_arpa.counts(["something else"]) == []
