"""Turns a corpus into manifests.

`ds2 import_corpus CORPUS SOURCE OUTPUT` writes OUTPUT/SPLIT.jsonl for each split of the corpus.

Corpora:
  librispeech  SOURCE/[subset/]speaker/chapter/*.trans.txt with recordings of any kind beside it;
               a split is a subset
  manifests    a folder with a manifest.jsonl, or with subfolders that have one; a split is what a
               row's field `split` says, else the folder's name

With --dev_speakers or --test_speakers the splits are dev, test and train (all other speakers).
Audio stays where it is. What is skipped is counted, named in OUTPUT/skipped.tsv, and makes the exit
status 1; a wrong command line makes it 2.

Examples:
  ds2 import_corpus librispeech LibriSpeech data/librispeech
  ds2 import_corpus librispeech LibriSpeech data --dev_speakers=777,1993 --test_speakers=1988,2086
  ds2 import_corpus manifests recordings data
"""

import os
import sys

from absl import flags

from ds2_tf.bin import program

_DEV = flags.DEFINE_list("dev_speakers", [], "Speakers whose rows go to dev.jsonl.")
_TEST = flags.DEFINE_list("test_speakers", [], "Speakers whose rows go to test.jsonl.")


def main(arguments: list[str]) -> int:
    """Reads SOURCE and writes a manifest for each split."""
    import tqdm

    from ds2_tf import corpora, manifest
    from ds2_tf.corpora import reader
    from ds2_tf.corpora import splits as splitting

    if len(arguments) != 3:
        raise program.UsageError(
            f"import_corpus takes CORPUS SOURCE OUTPUT, {len(arguments)} arguments are given "
            "(lists of speakers without blanks: --dev_speakers=a,b)"
        )
    corpus, source, output = arguments
    if corpus not in corpora.READERS:
        raise program.UsageError(
            f"{corpus!r} is not a corpus; choose one of {', '.join(corpora.READERS)}"
        )
    skipped: list[reader.Skipped] = []
    rows = tqdm.tqdm(corpora.read(corpus, source, skipped), "reading", unit="row", delay=1)
    splits = splitting.group(rows)
    if _DEV.value or _TEST.value:
        splits = splitting.by_speaker(splits, _DEV.value, _TEST.value)
    for split, utterances in splits.items():
        path = os.path.join(output, f"{split}.jsonl")
        manifest.write(path, utterances)
        hours = sum(utterance.duration_seconds for utterance in utterances) / 3600
        num_speakers = len({utterance.speaker for utterance in utterances} - {""})
        print(f"{path}: {len(utterances)} rows, {hours:.2f} h, {num_speakers} speakers")
    if skipped:
        path = os.path.join(output, "skipped.tsv")
        reader.write_skipped(path, skipped)
        print(reader.summarize_skipped(skipped, path), file=sys.stderr)
    return program.EXIT_FAILED if skipped else 0


if __name__ == "__main__":
    program.run(main)
