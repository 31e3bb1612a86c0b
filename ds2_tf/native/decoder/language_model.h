// A language model as the beam search sees it: a table of functions, so that the search needs no
// header of KenLM's. Plain C: the library that fills it in is another one (kenlm_adapter.cc).

#ifndef DS2_TF_NATIVE_DECODER_LANGUAGE_MODEL_H_
#define DS2_TF_NATIVE_DECODER_LANGUAGE_MODEL_H_

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum { DS2_LANGUAGE_MODEL_STATE_BYTES = 64 };

// What a model remembers of the tokens before; two states are the same if all their bytes are. All
// bytes zero: nothing, not even the sentence's beginning.
typedef struct {
  unsigned char bytes[DS2_LANGUAGE_MODEL_STATE_BYTES];
} ds2_language_model_state;

// All functions may be called by several threads at once.
typedef struct {
  const void* model;
  uint32_t vocabulary_size;  // Indices lie in [0, vocabulary_size); 0 is the unknown token.
  uint32_t end_of_sentence;  // Index of </s>.
  // The state after <s>.
  void (*begin_sentence)(const void* model, ds2_language_model_state* state);
  // Returns ln p(token | state) and writes the state after it; the two states may not be the same.
  float (*score)(const void* model, const ds2_language_model_state* state, uint32_t token,
                 ds2_language_model_state* after);
} ds2_language_model;

#ifdef __cplusplus
}  // extern "C"
#endif

#endif  // DS2_TF_NATIVE_DECODER_LANGUAGE_MODEL_H_
