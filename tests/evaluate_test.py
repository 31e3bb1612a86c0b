import json
import logging
import math

import numpy as np
import pytest

from ds2_tf import alphabet, errors, evaluate, metrics
from ds2_tf.manifest import Utterance
from tests.tone_model import SAMPLE_RATE_HZ, ToneModel, speak, write


def _utterance(path, said, transcript, line=0):
    samples = speak(said, lead_seconds=0.1)
    write(path, samples)
    seconds = len(samples) / SAMPLE_RATE_HZ
    return Utterance((str(path),), seconds, transcript, line=line, manifest="m.jsonl")


def _corpus(folder):
    pairs = [
        ("the cat sat", "the cat sat"),
        ("the hat sat on", "the cat sat"),
        ("sat", "The cat  sat\n"),
        ("", ""),
        ("noise", ""),
        ("long " * 30 + "end", "long " * 30 + "end"),
    ]
    return [
        _utterance(folder / f"{i}.wav", said, transcript, line=i + 1)
        for i, (said, transcript) in enumerate(pairs)
    ]


def test_counts_of_the_corpus_and_results_in_the_manifest_s_order(tmp_path):
    corpus = _corpus(tmp_path)
    result = evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert [row.utterance for row in result.utterances] == corpus
    assert [row.hypothesis for row in result.utterances][:5] == [
        "the cat sat",
        "the hat sat on",
        "sat",
        "",
        "noise",
    ]
    assert result.utterances[2].reference == "the cat sat"
    assert result.word == metrics.ErrorCounts(1, 2, 2, 9 + 31)
    assert result.character == metrics.ErrorCounts(1, 3 + 5, 8, 33 + 153)
    assert result.word == metrics.total(row.word for row in result.utterances)
    assert result.unreadable == []


@pytest.mark.parametrize("batch_size", [1, 2, 3, 100])
def test_batch_size_changes_nothing(tmp_path, batch_size):
    corpus = _corpus(tmp_path)
    expected = evaluate.evaluate(ToneModel(), corpus, progress=False)
    model = ToneModel()
    assert evaluate.evaluate(model, corpus, batch_size, progress=False) == expected
    assert max(rows for rows, _ in model.batch_shapes) <= batch_size


def test_a_batch_holds_at_most_240_padded_seconds(tmp_path):
    corpus = [_utterance(tmp_path / f"{i}.wav", "long " * 60, "") for i in range(8)]
    model = ToneModel()
    evaluate.evaluate(model, corpus, 100, progress=False)
    assert [rows for rows, _ in model.batch_shapes] == [6, 2]


def test_utterances_longer_than_a_window_are_heard_in_windows(tmp_path):
    text = " ".join(np.random.default_rng(0).choice(["one", "two", "three"], 200))
    corpus = [_utterance(tmp_path / "long.wav", text, text)]
    model = ToneModel()
    assert evaluate.evaluate(model, corpus, progress=False).word.edits == 0
    assert max(num_samples for _, num_samples in model.batch_shapes) == 60 * SAMPLE_RATE_HZ


def test_joined_recordings_and_recordings_too_short_for_a_frame(tmp_path):
    parts = (write(tmp_path / "a.wav", speak("on")), write(tmp_path / "b.wav", speak("e")))
    corpus = [
        Utterance(parts, 0.86, "one", pauses_seconds=(0.5,)),
        Utterance((write(tmp_path / "c.wav", np.zeros(10)),), 0.001, "x"),
    ]
    result = evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert [row.hypothesis for row in result.utterances] == ["one", ""]


def test_characters_outside_the_alphabet_count_as_errors(tmp_path):
    corpus = [_utterance(tmp_path / "a.wav", "cafe", "Café")]
    result = evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert result.character == metrics.ErrorCounts(1, 0, 0, 4)


def test_spaces_count_only_where_the_alphabet_has_one(tmp_path):
    symbols = alphabet.Alphabet(("你", "好"), language="zh")
    path = write(tmp_path / "a.wav", speak("你好", symbols))
    corpus = [Utterance((path,), 0.24, "你 好")]
    result = evaluate.evaluate(ToneModel(symbols), corpus, progress=False)
    assert result.character == metrics.ErrorCounts(0, 0, 0, 2)
    corpus = [_utterance(tmp_path / "b.wav", "ab", "a b")]
    result = evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert result.character == metrics.ErrorCounts(0, 0, 1, 3)


@pytest.mark.parametrize(
    ("language", "character"),
    [("zh", (1, 0, 0, 8)), ("ja-JP", (1, 0, 0, 8)), ("en", (1, 0, 1, 11))],
)
def test_spaces_around_roman_words_do_not_count_in_mandarin(tmp_path, language, character):
    symbols = alphabet.Alphabet(tuple(" 打开空调okt\ufffd"), language=language)
    path = write(tmp_path / "a.wav", speak("打开 okt 空\ufffdt", symbols))
    corpus = [Utterance((path,), 1.3, "打开 OKT 空龘 T")]
    result = evaluate.evaluate(ToneModel(symbols), corpus, progress=False)
    assert result.utterances[0].reference == "打开 okt 空龘 t"
    assert result.character == metrics.ErrorCounts(*character)


def test_the_page_says_what_a_word_is_without_spaces_between_words(tmp_path):
    symbols = alphabet.Alphabet(tuple(" 你好"), language="zh")
    corpus = [Utterance((write(tmp_path / "a.wav", speak("你好", symbols)),), 0.24, "你 好")]
    result = evaluate.evaluate(ToneModel(symbols), corpus, progress=False)
    note = (
        "\nA word is what stands between spaces, mostly a whole utterance: look at the\n"
        "characters, of which spaces are none.\n\n1 utterances\n"
    )
    assert note in evaluate.report(result)
    assert (result.word.edits, result.character.edits) == (2, 0)
    english = evaluate.evaluate(ToneModel(), [], progress=False)
    assert "A word is" not in evaluate.report(english)


def test_bigrams_are_scored_as_text(tmp_path):
    pairs = alphabet.Alphabet((" ", "a", "b", "c", "ab"), kind="bigram")
    path = write(tmp_path / "a.wav", speak(["ab", "c", " ", "c", "ab"], pairs))
    corpus = [Utterance((path,), 0.6, "abc bab")]
    result = evaluate.evaluate(ToneModel(pairs), corpus, progress=False)
    assert result.utterances[0].hypothesis == "abc cab"
    assert result.word == metrics.ErrorCounts(1, 0, 0, 2)
    assert result.character == metrics.ErrorCounts(1, 0, 0, 7)


def test_unreadable_recordings_are_named_logged_and_left_out(tmp_path, caplog):
    corpus = _corpus(tmp_path)
    (tmp_path / "1.wav").write_text("<html>not found</html>")
    with caplog.at_level(logging.ERROR, logger="absl"):
        result = evaluate.evaluate(ToneModel(), corpus, progress=False, max_bad_share=0.2)
    assert [row.utterance for row in result.utterances] == [corpus[0], *corpus[2:]]
    assert [row.utterance for row in result.unreadable] == [corpus[1]]
    message = f"m.jsonl:2: {tmp_path}/1.wav: is an HTML or XML page, not audio; "
    assert result.unreadable[0].message.startswith(message)
    assert message in caplog.text
    assert result.word.reference_units == 6 + 31


def test_too_many_unreadable_recordings_stop_the_evaluation(tmp_path):
    corpus = _corpus(tmp_path)
    (tmp_path / "1.wav").unlink()
    with pytest.raises(errors.UserError) as error:
        evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert str(error.value) == (
        "1 of 6 recordings cannot be read, more than max_bad_share=0.01 allows; the latest: "
        f"m.jsonl:2: {tmp_path}/1.wav: no such file; check the path"
    )


def test_the_bar_counts_seconds_of_audio(tmp_path, capfd):
    corpus = _corpus(tmp_path)
    evaluate.evaluate(ToneModel(), corpus)
    shown = capfd.readouterr().err
    seconds = sum(utterance.duration_seconds for utterance in corpus)
    assert f"| {seconds:.0f}/{seconds:.0f} [" in shown
    assert "s of audio/s]" in shown
    evaluate.evaluate(ToneModel(), corpus, progress=False)
    assert capfd.readouterr().err == ""


def test_nothing_to_evaluate():
    result = evaluate.evaluate(ToneModel(), [], progress=False)
    assert (result.word.rate, result.character.rate, result.utterances) == (0.0, 0.0, [])
    assert "0 utterances" in evaluate.report(result)


def test_invalid_arguments():
    with pytest.raises(ValueError, match=r"batch_size must be >= 1. Received: 0"):
        evaluate.evaluate(ToneModel(), [], 0)
    with pytest.raises(ValueError, match=r"max_bad_share must lie in \[0, 1\]. Received: 2"):
        evaluate.evaluate(ToneModel(), [], max_bad_share=2)


def test_report(tmp_path):
    corpus = _corpus(tmp_path)
    page = evaluate.report(evaluate.evaluate(ToneModel(), corpus, progress=False))
    assert page.startswith(
        "                  rate    subst.   insert.    delet.   reference\n"
        "words          12.50 %         1         2         2          40\n"
        "characters      9.14 %         1         8         8         186\n"
        "\n"
        "6 utterances\n"
        "\n"
        "best\n"
        "\n"
        f"  m.jsonl:6: {tmp_path}/5.wav: WER 0.00 %, CER 0.00 %\n"
        "    reference   long long"
    )
    assert page.endswith(
        f"  m.jsonl:2: {tmp_path}/1.wav: WER 66.67 %, CER 36.36 %\n"
        "    reference   the cat sat *\n"
        "    hypothesis  the hat sat on\n"
        "                    S       I\n"
        "\n"
        "worst\n"
        "\n"
        f"  m.jsonl:5: {tmp_path}/4.wav: WER infinite, CER infinite\n"
        "    reference   *\n"
        "    hypothesis  noise\n"
        "                I\n"
        "\n"
        f"  m.jsonl:3: {tmp_path}/2.wav: WER 66.67 %, CER 72.73 %\n"
        "    reference   the cat sat\n"
        "    hypothesis  *   *   sat\n"
        "                D   D\n"
    )
    assert max(map(len, page.splitlines())) <= 120
    assert page.count("m.jsonl") == 6


def test_report_of_a_language_without_spaces_aligns_characters(tmp_path):
    symbols = alphabet.Alphabet(("你", "好", "a"), language="zh")
    path = write(tmp_path / "a.wav", speak("你a", symbols))
    corpus = [Utterance((path,), 0.36, "你好a")]
    page = evaluate.report(evaluate.evaluate(ToneModel(symbols), corpus, progress=False))
    assert page.endswith(
        f"  {path}: CER 33.33 %\n"
        "    reference   你 好 a\n"
        "    hypothesis  你 *  a\n"
        "                   D\n"
    )


def test_report_names_what_was_left_out(tmp_path):
    corpus = _corpus(tmp_path)
    (tmp_path / "3.wav").write_bytes(b"")
    result = evaluate.evaluate(ToneModel(), corpus, progress=False, max_bad_share=0.5)
    assert (
        "5 utterances\n"
        "1 left out because they cannot be read:\n"
        f"  m.jsonl:4: {tmp_path}/3.wav: is an empty file; "
    ) in evaluate.report(result)


def test_json_holds_everything(tmp_path):
    corpus = _corpus(tmp_path)
    (tmp_path / "3.wav").write_bytes(b"")
    result = evaluate.evaluate(ToneModel(), corpus, progress=False, max_bad_share=0.5)
    result.save_json(tmp_path / "out" / "r.json")
    content = json.loads((tmp_path / "out" / "r.json").read_text(), parse_constant=pytest.fail)
    assert content["word"] == {
        "rate": 0.125,
        "substitutions": 1,
        "insertions": 2,
        "deletions": 2,
        "reference_units": 40,
    }
    assert content["num_utterances"] == 5
    assert content["num_unreadable"] == len(content["unreadable"]) == 1
    assert content["unreadable"][0]["line"] == 4
    second = content["utterances"][1]
    assert (second["reference"], second["hypothesis"]) == ("the cat sat", "the hat sat on")
    assert second["audio_filepath"] == [str(tmp_path / "1.wav")]
    assert (second["manifest"], second["line"]) == ("m.jsonl", 2)
    assert second["word"]["substitutions"] == 1
    assert math.isinf(result.utterances[3].word.rate)
    assert content["utterances"][3]["word"]["rate"] is None
