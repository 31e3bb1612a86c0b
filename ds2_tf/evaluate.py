"""Error rates of a model on a manifest."""

from collections.abc import Iterator, Sequence

import numpy as np
from tqdm import tqdm

from ds2_tf import audio, metrics, windows
from ds2_tf.acoustic_model import AcousticModel
from ds2_tf.decoding.decoder import Decoder
from ds2_tf.decoding.greedy_stream import GreedyDecoder
from ds2_tf.evaluation_report import Evaluation, Unreadable, UtteranceResult, report
from ds2_tf.input_pipeline import BadAudio
from ds2_tf.manifest import Utterance
from ds2_tf.transcribe import Transcriber, recognize
from ds2_tf.transcript import Transcript

__all__ = ["Evaluation", "Unreadable", "UtteranceResult", "evaluate", "report"]

# Padding included: what 16 utterances of a quarter of a minute hold, the memory of a batch.
_MAX_BATCH_SECONDS = 240.0


def evaluate(
    model: AcousticModel,
    utterances: Sequence[Utterance],
    batch_size: int = 16,
    progress: bool = True,
    max_bad_share: float = 0.01,
    *,
    decoder: Decoder | None = None,
) -> Evaluation:
    """Recognises the utterances and compares them with their transcripts.

    The result doesn't depend on `batch_size`. Transcripts are normalised as the model's alphabet
    says; characters outside of it stay and count as errors. Spaces count as characters where they
    separate the words (`Alphabet.spaced`), so not for Mandarin. Utterances longer than 60 seconds
    are heard in windows, as by `Transcriber`.

    Args:
      model: any object like `AcousticModel`.
      utterances: in any order; the results keep it.
      batch_size: utterances heard at once, fewer where they are long.
      progress: whether to show a bar: seconds of audio done, their rate and the time left.
      max_bad_share: the largest share of recordings that may be unreadable. They are logged, listed
        in the result and take no part in the rates.
      decoder: what makes text of what the model hears; greedy by default.

    Raises:
      UserError: when more recordings are unreadable, or the model's output is not a number.
      ValueError: for a batch_size below 1 or a share outside [0, 1].
    """
    if batch_size < 1:
        raise ValueError(f"batch_size must be >= 1. Received: {batch_size}")
    if not 0 <= max_bad_share <= 1:
        raise ValueError(f"max_bad_share must lie in [0, 1]. Received: {max_bad_share}")
    decoder = decoder or GreedyDecoder(model.alphabet, model.seconds_per_frame)
    bad = BadAudio(len(utterances), max_bad_share)
    hypotheses: dict[int, str] = {}
    seconds = sum(utterance.duration_seconds for utterance in utterances)
    with tqdm(
        desc="evaluating",
        total=seconds,
        unit=" s of audio",
        bar_format="{l_bar}{bar}| {n:.0f}/{total:.0f} [{elapsed}<{remaining}, {rate_fmt}]",
        disable=not progress,
    ) as bar:
        for indices in _batches(utterances, batch_size):
            waveforms = {}
            for index in indices:
                try:
                    waveforms[index] = audio.load_utterance(utterances[index], model.sample_rate_hz)
                except audio.AudioError as error:
                    bad.add(index, error)
                    bad.check()
            hypotheses.update(_recognize(model, waveforms, decoder))
            done = sum(utterances[index].duration_seconds for index in indices)
            bar.update(min(done, seconds - bar.n))  # Rounding must not pass the total.
    return _compare(model, utterances, hypotheses, bad)


def _batches(utterances: Sequence[Utterance], batch_size: int) -> Iterator[list[int]]:
    """Yields indices, the longest utterances first: too little memory shows at once."""
    seconds = [utterance.duration_seconds for utterance in utterances]
    batch: list[int] = []
    for index in sorted(range(len(seconds)), key=lambda i: -seconds[i]):
        is_full = len(batch) == batch_size
        if batch and (is_full or seconds[batch[0]] * (len(batch) + 1) > _MAX_BATCH_SECONDS):
            yield batch
            batch = []
        batch.append(index)
    if batch:
        yield batch


def _recognize(
    model: AcousticModel, waveforms: dict[int, np.ndarray], decoder: Decoder
) -> dict[int, str]:
    max_samples = round(windows.WINDOW_SECONDS * model.sample_rate_hz)
    texts = {}
    for index, waveform in waveforms.items():
        if len(waveform) > max_samples:
            transcriber = Transcriber(model, decoder=decoder)
            texts[index] = transcriber.transcribe_blocks([waveform]).text
    short = [index for index in waveforms if index not in texts]
    if short:
        heard = recognize(model, [waveforms[index] for index in short], decoder)
        for index, symbols in zip(short, heard, strict=True):
            seconds = len(waveforms[index]) / model.sample_rate_hz
            texts[index] = Transcript.of(symbols, model.alphabet, seconds).text
    return texts


def _compare(
    model: AcousticModel, utterances: Sequence[Utterance], hypotheses: dict[int, str], bad: BadAudio
) -> Evaluation:
    spaced = model.alphabet.spaced
    results = []
    for index in sorted(hypotheses):
        reference = model.alphabet.normalize(utterances[index].transcript)
        hypothesis = hypotheses[index]
        results.append(
            UtteranceResult(
                utterances[index],
                reference,
                hypothesis,
                metrics.word_errors(reference, hypothesis),
                metrics.character_errors(reference, hypothesis, count_spaces=spaced),
            )
        )
    return Evaluation(
        word=metrics.total(result.word for result in results),
        character=metrics.total(result.character for result in results),
        utterances=results,
        unreadable=[
            Unreadable(utterances[index], message)
            for index, message in sorted(bad.messages.items())
        ],
        spaced=spaced,
    )
