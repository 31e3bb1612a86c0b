"""The utterances of a decoder's benchmark, of files and simulated."""

import contextlib
import pathlib
import random
from collections.abc import Iterator, Sequence

from ds2_tf import alphabet
from ds2_tf.benchmarks import decoder_cells, decoder_client, posteriors
from ds2_tf.benchmarks.posteriors import Posteriors
from ds2_tf.decoding.language_model import LanguageModel
from ds2_tf.errors import UserError

_TEMPERATURES = {"peaky": 1.0, "flat": 3.0}
_PHRASE_CHARACTERS = 90  # What is said in the 8 s of a simulated utterance.


class DecoderSets:
    """Pairs of dev and test utterances for one language model.

    Attributes:
      model: the language model.
      pairs: (dev, test), simulated ones first.
    """

    def __init__(
        self,
        lm: str,
        num_utterances: int,
        text: str = "",
        files: Sequence[tuple[str, str, str]] = (),
    ) -> None:
        """Loads and simulates.

        Args:
          lm: KenLM file of words.
          num_utterances: of each part, at most; taken evenly from longer files.
          text: file with English sentences; "" for no simulated posteriors.
          files: name, dev file, test file.

        Raises:
          UserError: for a text with too few sentences of the model's words.
        """
        self.model = LanguageModel.load(lm)
        self.pairs: list[tuple[Posteriors, Posteriors]] = []
        if text:
            english = alphabet.english()
            sentences = self._sentences(text, english, 2 * num_utterances)
            for name, temperature in _TEMPERATURES.items():
                both = posteriors.simulate(name, sentences, english, temperature=temperature)
                half = len(sentences) // 2
                self.pairs.append((both[:half], both[half:]))
        for name, dev, test in files:
            self.pairs.append(
                (
                    _some(posteriors.load(dev, name), num_utterances),
                    _some(posteriors.load(test, name), num_utterances),
                )
            )

    @property
    def words(self) -> list[str]:
        """The lexicon of all systems."""
        return [word for word in self.model.vocabulary if self.model.index(word)]

    def measure(
        self,
        peer_python: str,
        peers: Sequence[str],
        beam_widths: Sequence[int],
        effort: decoder_cells.Effort,
    ) -> Iterator[decoder_cells.Cell]:
        """Yields the cells of each pair.

        Args:
          peer_python: an interpreter with the other decoders; "" for none of them.
          peers: which of them; empty for all that it has.
          beam_widths: of the cells.
          effort: how long is measured.

        Raises:
          UserError: when the interpreter doesn't run or lacks a peer.
        """
        with contextlib.ExitStack() as stack:
            client = None
            if peer_python:
                client = stack.enter_context(
                    decoder_client.start(peer_python, self.model.path, self.words)
                )
                client.choose(peers)
            for dev, test in self.pairs:
                yield from decoder_cells.measure(
                    dev, test, self.model, client, beam_widths=beam_widths, effort=effort
                )

    def _sentences(self, path: str, english: alphabet.Alphabet, count: int) -> list[str]:
        text = english.normalize(pathlib.Path(path).read_text(encoding="utf-8"))
        kept = "".join(c if c in english.symbols else " " for c in text)
        found = posteriors.phrases(kept, _PHRASE_CHARACTERS, self.words)
        if len(found) < 6:
            raise UserError(
                f"{path}: only {len(found)} phrases consist of the language model's words; "
                "give a longer text"
            )
        random.Random(0).shuffle(found)
        return found[:count]


def _some(utterances: Posteriors, count: int) -> Posteriors:
    return utterances[:: max(1, -(-len(utterances.texts) // count))]
