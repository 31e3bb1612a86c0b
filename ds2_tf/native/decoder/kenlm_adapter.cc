// KenLM behind the table of functions that the beam search knows (language_model.h), and what Python
// needs to open a model. Compiled with KenLM's sources; no exception leaves it.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <stdexcept>
#include <string>

#include "ds2_tf/native/decoder/language_model.h"
#include "lm/enumerate_vocab.hh"
#include "lm/model.hh"
#include "lm/state.hh"
#include "lm/virtual_interface.hh"

#define DS2_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using lm::ngram::State;

constexpr float kNaturalLogarithmOfTen = 2.302585092994046f;

static_assert(sizeof(State) <= DS2_LANGUAGE_MODEL_STATE_BYTES, "KENLM_MAX_ORDER is too large");

// All words in the order of their indices, each ended by a zero.
class Words : public lm::EnumerateVocab {
 public:
  void Add(lm::WordIndex index, const StringPiece& word) override {
    if (index != count) throw std::runtime_error("the vocabulary's indices have a gap");
    text.append(word.data(), word.size());
    text.push_back('\0');
    ++count;
  }

  std::string text;
  uint32_t count = 0;
};

struct Opened {
  std::unique_ptr<lm::base::Model> model;
  Words words;
  ds2_language_model functions;
};

State Unpacked(const ds2_language_model_state& bytes) {
  State state;
  std::memcpy(&state, bytes.bytes, sizeof(State));
  return state;
}

// Leaves no byte to chance: neither what lies past the state's length nor padding.
void Pack(const State& state, ds2_language_model_state* packed) {
  std::memset(packed->bytes, 0, sizeof packed->bytes);
  std::memcpy(packed->bytes + offsetof(State, words), state.words,
              state.length * sizeof state.words[0]);
  std::memcpy(packed->bytes + offsetof(State, backoff), state.backoff,
              state.length * sizeof state.backoff[0]);
  packed->bytes[offsetof(State, length)] = state.length;
}

void BeginSentence(const void* model, ds2_language_model_state* packed) {
  State state;
  static_cast<const lm::base::Model*>(model)->BeginSentenceWrite(&state);
  Pack(state, packed);
}

float Score(const void* model, const ds2_language_model_state* packed, uint32_t token,
            ds2_language_model_state* after) {
  const State before = Unpacked(*packed);
  State state;
  const float log10_probability =
      static_cast<const lm::base::Model*>(model)->BaseScore(&before, token, &state);
  Pack(state, after);
  return kNaturalLogarithmOfTen * log10_probability;
}

void Open(const char* path, bool preload, Opened* opened) {
  lm::ngram::Config config;
  config.messages = nullptr;
  config.show_progress = false;
  config.enumerate_vocab = &opened->words;
  config.load_method = preload ? util::POPULATE_OR_LAZY : util::LAZY;
  config.sentence_marker_missing = lm::THROW_UP;
  config.unknown_missing = lm::SILENT;
  opened->model.reset(lm::ngram::LoadVirtual(path, config));
  if (opened->model->StateSize() != sizeof(State)) throw std::runtime_error("unknown state");
  opened->functions = {opened->model.get(), opened->words.count,
                       opened->model->BaseVocabulary().EndSentence(), &BeginSentence, &Score};
}

void Tell(const char* what, char* error, size_t error_size) {
  if (error_size != 0) std::snprintf(error, error_size, "%s", what);
}

}  // namespace

// Opens a binary or ARPA file; of a binary one the pages are shared with other processes. Returns
// null after a failure, with its reason in `error`.
//   preload: whether to read the file now; else pages are read when they are first needed.
DS2_EXPORT void* ds2_kenlm_open(const char* path, int32_t preload, char* error,
                                size_t error_size) {
  try {
    auto opened = std::make_unique<Opened>();
    Open(path, preload != 0, opened.get());
    return opened.release();
  } catch (const std::bad_alloc&) {
    Tell("memory is exhausted", error, error_size);
  } catch (const std::exception& exception) {
    Tell(exception.what(), error, error_size);
  } catch (...) {
    Tell("unknown error", error, error_size);
  }
  return nullptr;
}

// Nothing may use the model's functions any more.
DS2_EXPORT void ds2_kenlm_close(void* opened) { delete static_cast<Opened*>(opened); }

// The table is valid until the model is closed.
DS2_EXPORT const ds2_language_model* ds2_kenlm_functions(const void* opened) {
  return &static_cast<const Opened*>(opened)->functions;
}

DS2_EXPORT uint32_t ds2_kenlm_order(const void* opened) {
  return static_cast<const Opened*>(opened)->model->Order();
}

// The words in the order of their indices, each ended by a zero; valid until the model is closed.
DS2_EXPORT const char* ds2_kenlm_words(const void* opened, size_t* size) {
  const Words& words = static_cast<const Opened*>(opened)->words;
  *size = words.text.size();
  return words.text.data();
}

// Natural logarithms of the probabilities of a sentence's tokens and of its end.
//   scores: [num_tokens + 1], written.
DS2_EXPORT void ds2_kenlm_score(const ds2_language_model* functions, const uint32_t* tokens,
                                size_t num_tokens, float* scores) {
  ds2_language_model_state states[2];
  functions->begin_sentence(functions->model, &states[0]);
  for (size_t i = 0; i <= num_tokens; ++i) {
    const uint32_t token = i < num_tokens ? tokens[i] : functions->end_of_sentence;
    scores[i] = functions->score(functions->model, &states[i % 2], token, &states[(i + 1) % 2]);
  }
}
