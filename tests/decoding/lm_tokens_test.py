import pytest

from ds2_tf import alphabet
from ds2_tf.alphabet import Alphabet
from ds2_tf.decoding import lm_tokens
from ds2_tf.decoding.lm_text import TextForm
from ds2_tf.errors import UserError

ENGLISH = TextForm(alphabet.english())


def write(folder, text, form=ENGLISH, unit="word", **options):
    source, target = folder / "text.txt", folder / "tokens"
    source.write_text(text, encoding="utf-8")
    coverage = lm_tokens.write(target, [str(source)], form, unit, progress=False, **options)
    return coverage, target.read_text(encoding="utf-8")


def test_words(tmp_path):
    coverage, written = write(tmp_path, "\ufeffThe door,\r\n\r\n  the  window!\r\n")
    assert written == "the door\nthe window\n"
    assert (coverage.num_sentences, coverage.num_tokens, coverage.num_distinct) == (2, 4, 3)
    assert (coverage.num_kept, coverage.num_unknown, coverage.unknown_rate) == (3, 0, 0)
    assert coverage.sources[0].num_lines == 3


def test_words_outside_the_alphabet_are_unknown_and_counted(tmp_path):
    coverage, written = write(tmp_path, "call 11 at 1\ncaf\u00e9 1\n")
    assert written == "call \u3000 at \u3000\n\u3000 \u3000\n"
    assert (coverage.num_unwritable, coverage.num_left_out, coverage.num_distinct) == (4, 0, 2)
    assert coverage.outside == [("1", 4), ("\u00e9", 1)]
    assert coverage.unknown_rate == 4 / 6


def test_a_limit_keeps_the_most_frequent(tmp_path):
    text = "b a c\nc a b d\na e\n"
    coverage, written = write(tmp_path, text, limit=2)
    assert written == "b a \u3000\n\u3000 a b \u3000\na \u3000\n"
    assert (coverage.num_kept, coverage.num_left_out, coverage.num_distinct) == (2, 4, 5)
    assert coverage.left_out == [("c", 2), ("d", 1), ("e", 1)]
    assert write(tmp_path, text, limit=100)[1] == text


def test_characters(tmp_path):
    assert write(tmp_path, "It is", unit="character")[1] == "i t \u2581 i s\n"
    chinese = TextForm(Alphabet(tuple("中人ab"), language="zh"))
    assert write(tmp_path, "中，人。", chinese, "character")[1] == "中 人\n"
    assert write(tmp_path, "中ab 人", chinese, "mixed")[1] == "中 ab 人\n"


def test_kenlm_s_markers_are_no_words(tmp_path):
    form = TextForm(Alphabet(tuple(" <>/skun")))
    assert write(tmp_path, "<s> sun <unk> </s>", form)[1] == "\u3000 sun \u3000 \u3000\n"


@pytest.mark.parametrize("text", ["", "\n \n", "...\n", "123\n"])
def test_nothing_to_learn_from_is_an_error(tmp_path, text):
    with pytest.raises(UserError) as error:
        write(tmp_path, text)
    assert str(error.value) == (
        f"{tmp_path / 'text.txt'}: holds no text in the alphabet's characters; check both"
    )
