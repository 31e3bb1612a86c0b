// The beam search for other languages: plain C, no exception passes it.
//
// A decoder is immutable and may be shared by threads; a stream belongs to one thread at a time and
// may outlive nothing that its decoder was made of. Functions that can fail return 0 or null and
// write why into `error`, a buffer of `error_size` bytes.

#ifndef DS2_TF_NATIVE_DECODER_DECODER_C_API_H_
#define DS2_TF_NATIVE_DECODER_DECODER_C_API_H_

#include <stddef.h>
#include <stdint.h>

#include "ds2_tf/native/decoder/language_model.h"

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define DS2_PUBLIC __attribute__((visibility("default")))
#else
#define DS2_PUBLIC
#endif

// Words, each a range of labels: word i has labels[ends[i - 1]] up to labels[ends[i]].
typedef struct {
  size_t num_words;
  const int32_t* labels;
  const size_t* ends;
  const uint32_t* tokens;  // The language model's, 0 for unknown ones; null: all are unknown.
} ds2_words;

typedef struct {
  int32_t num_labels;            // V, with the blank, which is label 0.
  int32_t space;                 // Label of the space, or 0.
  const uint8_t* kinds;          // [V]: 0 a letter, 1 the space, 2 a unit (a word by itself).
  // [V, 2]: labels of the characters that a symbol stands for, its own or a pair's; 0: none. Words
  // and phrases are spelt in characters.
  const int32_t* characters;
  const uint32_t* unit_tokens;   // [V]: the language model's of a unit; UINT32_MAX: none.
  uint32_t space_token;          // The language model's token for a space, or UINT32_MAX.
  const ds2_words* lexicon;      // Null: letters spell any word, and none is known.
  const ds2_language_model* language_model;  // Null: none.
  int32_t beam_width;
  int32_t cutoff_symbols;
  double cutoff_probability;
  double score_threshold;
  double hot_space_share;
  double lm_weight;
  double word_bonus;
  double unknown_penalty;
  int32_t closed;
} ds2_decoder_config;

// Phrases to reward, as ranges of labels in which 0 is a boundary between words: one at either end,
// and around each unit. `words` are the words of letters that occur in them.
typedef struct {
  size_t num_phrases;
  const int32_t* labels;
  const size_t* ends;
  const float* boosts;
  ds2_words words;
} ds2_hot_phrases;

typedef struct ds2_decoder ds2_decoder;
typedef struct ds2_stream ds2_stream;
typedef struct ds2_result ds2_result;

typedef struct {
  int32_t label;
  float log_probability;  // The largest inside its frames.
  float word_mass;        // The share of the beam's probability that has its word.
  int32_t reserved;
  int64_t first_frame;
  int64_t end_frame;
} ds2_symbol;

DS2_PUBLIC ds2_decoder* ds2_decoder_new(const ds2_decoder_config* config, char* error,
                                        size_t error_size);
DS2_PUBLIC void ds2_decoder_free(ds2_decoder* decoder);

// `hot_phrases` may be null.
DS2_PUBLIC ds2_stream* ds2_stream_new(const ds2_decoder* decoder,
                                      const ds2_hot_phrases* hot_phrases, char* error,
                                      size_t error_size);
DS2_PUBLIC void ds2_stream_free(ds2_stream* stream);

// Takes frames [num_frames, V] of log-probabilities.
DS2_PUBLIC int32_t ds2_stream_step(ds2_stream* stream, const float* log_probabilities,
                                   size_t num_frames, char* error, size_t error_size);

// Begins a new text; frames count on.
DS2_PUBLIC void ds2_stream_reset(ds2_stream* stream);
DS2_PUBLIC int64_t ds2_stream_num_frames(const ds2_stream* stream);
DS2_PUBLIC size_t ds2_stream_num_prefixes(const ds2_stream* stream);
DS2_PUBLIC size_t ds2_stream_num_held_frames(const ds2_stream* stream);
DS2_PUBLIC int32_t ds2_stream_is_empty(const ds2_stream* stream);

// Returns the best hypotheses, at most `count`; complete ones with `is_end`. Changes nothing.
// The first `first_symbol` symbols are left out, at most ds2_stream_num_committed: these change no
// more.
DS2_PUBLIC ds2_result* ds2_stream_best(const ds2_stream* stream, size_t count, int32_t is_end,
                                       size_t first_symbol, char* error, size_t error_size);
DS2_PUBLIC size_t ds2_stream_num_committed(const ds2_stream* stream);

// Decodes whole utterances: of log_probabilities [num_utterances, max_frames, V] the frames before
// each length. Writes a result each into `results`, none if it fails.
DS2_PUBLIC int32_t ds2_decode(const ds2_decoder* decoder, const ds2_hot_phrases* hot_phrases,
                              const float* log_probabilities, size_t max_frames,
                              const int64_t* lengths, size_t num_utterances, size_t num_threads,
                              size_t count, ds2_result** results, char* error, size_t error_size);
DS2_PUBLIC void ds2_result_free(ds2_result* result);
DS2_PUBLIC size_t ds2_result_size(const ds2_result* result);
DS2_PUBLIC double ds2_result_score(const ds2_result* result, size_t index);
DS2_PUBLIC double ds2_result_language(const ds2_result* result, size_t index);
DS2_PUBLIC const ds2_symbol* ds2_result_symbols(const ds2_result* result, size_t index,
                                                size_t* num_symbols);

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // DS2_TF_NATIVE_DECODER_DECODER_C_API_H_
