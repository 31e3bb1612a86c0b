#include "ds2_tf/native/decoder/decoder_c_api.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "ds2_tf/native/decoder/beam_search.h"

using ds2::decoder::BeamSearch;
using ds2::decoder::HotPhrases;
using ds2::decoder::Hypothesis;
using ds2::decoder::Lexicon;
using ds2::decoder::LexiconWord;
using ds2::decoder::Scorer;
using ds2::decoder::Symbol;
using ds2::decoder::SymbolKind;

struct ds2_decoder {
  ds2::decoder::SearchOptions search;
  std::unique_ptr<Lexicon> lexicon;
  std::unique_ptr<Scorer> scorer;
  const ds2_language_model* language_model;
};

struct ds2_stream {
  BeamSearch search;
};

struct ds2_result {
  struct Row {
    double score, language;
    std::vector<ds2_symbol> symbols;
  };
  std::vector<Row> rows;
};

namespace {

void Tell(const std::string& message, char* error, size_t error_size) {
  if (error_size == 0) return;
  const size_t length = std::min(message.size(), error_size - 1);
  std::memcpy(error, message.data(), length);
  error[length] = '\0';
}

// Runs `body`; what it throws, which is memory that cannot be had, becomes an error and `otherwise`.
template <typename Body, typename Result>
Result Guard(char* error, size_t error_size, Result otherwise, const Body& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    Tell(exception.what(), error, error_size);
    return otherwise;
  }
}

std::vector<LexiconWord> Words(const ds2_words& words, const ds2_language_model* model) {
  std::vector<LexiconWord> result(words.num_words);
  const ds2_language_model_state nothing = {};
  ds2_language_model_state after;
  size_t begin = 0;
  for (size_t i = 0; i < words.num_words; begin = words.ends[i++]) {
    result[i].labels.assign(words.labels + begin, words.labels + words.ends[i]);
    result[i].token = words.tokens ? words.tokens[i] : 0;
    result[i].log_probability =
        model ? model->score(model->model, &nothing, result[i].token, &after) : 0;
  }
  return result;
}

// Returns the decoder's scorer, with a request's own phrases.
Scorer RequestScorer(const ds2_decoder& decoder, const ds2_hot_phrases* hot_phrases) {
  if (!hot_phrases) return *decoder.scorer;
  std::vector<HotPhrases::Phrase> phrases(hot_phrases->num_phrases);
  size_t begin = 0;
  for (size_t i = 0; i < phrases.size(); begin = hot_phrases->ends[i++]) {
    phrases[i] = {{hot_phrases->labels + begin, hot_phrases->labels + hot_phrases->ends[i]},
                  hot_phrases->boosts[i]};
  }
  return decoder.scorer->WithHotPhrases(phrases,
                                        Words(hot_phrases->words, decoder.language_model));
}

std::unique_ptr<ds2_result> Result(const std::vector<Hypothesis>& hypotheses) {
  auto result = std::make_unique<ds2_result>();
  for (const Hypothesis& hypothesis : hypotheses) {
    ds2_result::Row row{hypothesis.score, hypothesis.language, {}};
    row.symbols.reserve(hypothesis.symbols.size());
    for (const auto& symbol : hypothesis.symbols) {
      row.symbols.push_back({symbol.label, symbol.log_probability, symbol.word_mass, 0,
                             symbol.first_frame, symbol.end_frame});
    }
    result->rows.push_back(std::move(row));
  }
  return result;
}

// Returns the problem that `body` returns or throws.
template <typename Body>
std::string Catch(const Body& body) {
  try {
    return body();
  } catch (const std::exception& exception) {
    return exception.what();
  }
}

}  // namespace

ds2_decoder* ds2_decoder_new(const ds2_decoder_config* config, char* error, size_t error_size) {
  return Guard(error, error_size, static_cast<ds2_decoder*>(nullptr), [config] {
    auto decoder = std::make_unique<ds2_decoder>();
    decoder->search = {config->num_labels,         config->space,          config->beam_width,
                       config->cutoff_probability, config->cutoff_symbols, config->score_threshold,
                       config->hot_space_share};
    decoder->language_model = config->language_model;
    std::vector<Symbol> symbols(static_cast<size_t>(config->num_labels));
    for (size_t label = 0; label < symbols.size(); ++label) {
      symbols[label].kind = static_cast<SymbolKind>(config->kinds[label]);
      symbols[label].token = config->unit_tokens[label];
      symbols[label].characters = {config->characters[2 * label],
                                   config->characters[2 * label + 1]};
    }
    if (config->lexicon) {
      decoder->lexicon =
          std::make_unique<Lexicon>(Words(*config->lexicon, config->language_model));
    }
    decoder->scorer = std::make_unique<Scorer>(
        ds2::decoder::ScoringOptions{config->lm_weight, config->word_bonus,
                                     config->unknown_penalty, config->closed != 0},
        std::move(symbols), config->space_token, decoder->lexicon.get(), config->language_model);
    return decoder.release();
  });
}

void ds2_decoder_free(ds2_decoder* decoder) { delete decoder; }

ds2_stream* ds2_stream_new(const ds2_decoder* decoder, const ds2_hot_phrases* hot_phrases,
                           char* error, size_t error_size) {
  return Guard(error, error_size, static_cast<ds2_stream*>(nullptr), [=] {
    return new ds2_stream{BeamSearch(decoder->search, RequestScorer(*decoder, hot_phrases))};
  });
}

void ds2_stream_free(ds2_stream* stream) { delete stream; }

int32_t ds2_stream_step(ds2_stream* stream, const float* log_probabilities, size_t num_frames,
                        char* error, size_t error_size) {
  return Guard(error, error_size, 0, [=] {
    const std::string problem = stream->search.Step(log_probabilities, num_frames);
    if (problem.empty()) return 1;
    Tell(problem, error, error_size);
    return 0;
  });
}

void ds2_stream_reset(ds2_stream* stream) { stream->search.Reset(); }

int64_t ds2_stream_num_frames(const ds2_stream* stream) { return stream->search.num_frames(); }

size_t ds2_stream_num_prefixes(const ds2_stream* stream) { return stream->search.num_prefixes(); }

size_t ds2_stream_num_held_frames(const ds2_stream* stream) {
  return stream->search.num_held_frames();
}

int32_t ds2_stream_is_empty(const ds2_stream* stream) { return stream->search.is_empty(); }

ds2_result* ds2_stream_best(const ds2_stream* stream, size_t count, int32_t is_end,
                            size_t first_symbol, char* error, size_t error_size) {
  return Guard(error, error_size, static_cast<ds2_result*>(nullptr), [=] {
    return Result(stream->search.Best(count, is_end != 0, first_symbol)).release();
  });
}

size_t ds2_stream_num_committed(const ds2_stream* stream) {
  return stream->search.num_committed();
}

int32_t ds2_decode(const ds2_decoder* decoder, const ds2_hot_phrases* hot_phrases,
                   const float* log_probabilities, size_t max_frames, const int64_t* lengths,
                   size_t num_utterances, size_t num_threads, size_t count, ds2_result** results,
                   char* error, size_t error_size) {
  return Guard(error, error_size, 0, [=] {
    const Scorer scorer = RequestScorer(*decoder, hot_phrases);
    std::vector<std::unique_ptr<ds2_result>> found(num_utterances);
    std::vector<std::string> problems(num_utterances);
    std::atomic<size_t> next{0};
    const size_t row_size = max_frames * static_cast<size_t>(decoder->search.num_labels);
    const auto work = [&] {
      std::unique_ptr<BeamSearch> search;
      for (size_t i; (i = next++) < num_utterances;) {
        problems[i] = Catch([&] {
          if (!search) search = std::make_unique<BeamSearch>(decoder->search, scorer);
          search->Restart();
          std::string problem = search->Step(log_probabilities + i * row_size,
                                             static_cast<size_t>(lengths[i]));
          if (problem.empty()) found[i] = Result(search->Best(count, true));
          return problem;
        });
      }
    };
    std::vector<std::thread> threads;
    for (size_t t = 1; t < std::min(num_threads, num_utterances); ++t) threads.emplace_back(work);
    work();
    for (std::thread& thread : threads) thread.join();
    for (size_t i = 0; i < num_utterances; ++i) {
      if (problems[i].empty()) continue;
      Tell("utterance " + std::to_string(i) + ": " + problems[i], error, error_size);
      return 0;
    }
    for (size_t i = 0; i < num_utterances; ++i) results[i] = found[i].release();
    return 1;
  });
}

void ds2_result_free(ds2_result* result) { delete result; }

size_t ds2_result_size(const ds2_result* result) { return result->rows.size(); }

double ds2_result_score(const ds2_result* result, size_t index) {
  return result->rows[index].score;
}

double ds2_result_language(const ds2_result* result, size_t index) {
  return result->rows[index].language;
}

const ds2_symbol* ds2_result_symbols(const ds2_result* result, size_t index, size_t* num_symbols) {
  *num_symbols = result->rows[index].symbols.size();
  return result->rows[index].symbols.data();
}
