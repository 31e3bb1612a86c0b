// Tests the CTC kernels without Python or TensorFlow: for sanitizers, and on a machine with a GPU.
//
//   ctc_test CASES          compares random batches with a float64 reference, in every form
//   ctc_test --time REPEATS prints the time of the two cases that the project measures
//
// Linked with ctc_no_device.cc, or on a machine with CUDA, where the GPU is one more form:
//
//   nvcc -std=c++17 -O3 -arch=native -I. -Xcompiler -ffp-contract=fast tests/native/ctc_test.cc
//       tests/native/ctc_device.cu ds2_tf/native/ctc_{cpu,emulation,kernel_plan,plan,targets}.cc
//       ds2_tf/native/instruction_set.cc ds2_tf/native/ctc_cuda.cu -o ctc_test

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "ds2_tf/native/ctc.h"
#include "ds2_tf/native/ctc_emulation.h"
#include "tests/native/ctc_device.h"
#include "tests/native/threads.h"

namespace {

using ds2::CtcBatch;
using ds2::CtcStatus;

struct Case {
  int num_utterances, num_frames, num_symbols, max_labels, blank;
  std::vector<float> logits;  // [B, T, V]
  std::vector<int32_t> logit_lengths, labels, label_lengths;
};

struct Output {
  std::vector<float> losses;
  std::vector<CtcStatus> statuses;
  std::vector<float> gradients;
};

// One way to compute a batch whose pointers are to host memory.
struct Form {
  std::string name;
  double tolerance;
  std::function<void(const CtcBatch&)> run;
};

Case MakeCase(std::mt19937* generator, int num_utterances, int num_frames, int num_symbols,
              int max_labels, float scale) {
  const auto below = [&](int limit) { return static_cast<int>((*generator)() % limit); };
  std::normal_distribution<float> normal(0.0f, scale);
  Case made = {num_utterances, num_frames, num_symbols, max_labels, below(num_symbols), {}, {}, {},
               {}};
  made.logits.resize(static_cast<size_t>(num_utterances) * num_frames * num_symbols);
  for (float& logit : made.logits) logit = normal(*generator);
  made.labels.resize(static_cast<size_t>(num_utterances) * max_labels);
  for (int32_t& label : made.labels) {
    label = num_symbols == 1 ? 0 : (made.blank + 1 + below(num_symbols - 1)) % num_symbols;
  }
  for (int b = 0; b < num_utterances; ++b) {
    made.logit_lengths.push_back(num_frames);
    made.label_lengths.push_back(max_labels);
  }
  return made;
}

// A small batch with anything that can occur in one.
Case MakeRandomCase(std::mt19937* generator) {
  const auto below = [&](int limit) { return static_cast<int>((*generator)() % limit); };
  constexpr float kScales[] = {0.1f, 1.0f, 10.0f, 100.0f};
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  constexpr float kOddLogits[] = {-kInfinity, -kInfinity, -kInfinity, kInfinity, NAN};
  const int num_frames = below(12);
  Case made = MakeCase(generator, 1 + below(3), num_frames, 1 + below(40), below(num_frames + 2),
                       kScales[below(4)]);
  for (int b = 0; b < made.num_utterances; ++b) {
    made.logit_lengths[b] = below(num_frames + 1);
    made.label_lengths[b] = below(made.max_labels + 1);
  }
  if (below(20) == 0) made.logit_lengths[0] = below(2) == 0 ? -1 : num_frames + 1;
  if (below(20) == 0) made.label_lengths[0] = below(2) == 0 ? -1 : made.max_labels + 1;
  if (below(10) == 0 && !made.labels.empty()) made.labels[0] = below(100) - 50;
  if (below(4) == 0 && !made.logits.empty()) {
    for (int i = 0; i < 3; ++i) {
      made.logits[below(static_cast<int>(made.logits.size()))] = kOddLogits[below(5)];
    }
  }
  return made;
}

Output Run(const Case& given, const Form& form) {
  Output output;
  output.losses.assign(given.num_utterances, 7.0f);
  output.statuses.assign(given.num_utterances, CtcStatus::kOk);
  output.gradients.assign(given.logits.size(), 7.0f);
  CtcBatch batch;
  batch.element_type = ds2::ElementType::kFloat32;
  batch.logits = given.logits.data();
  batch.gradients = output.gradients.data();
  batch.frame_stride = given.num_symbols;
  batch.utterance_stride = static_cast<ptrdiff_t>(given.num_frames) * given.num_symbols;
  batch.num_utterances = given.num_utterances;
  batch.num_frames = given.num_frames;
  batch.num_symbols = given.num_symbols;
  batch.blank = given.blank;
  batch.logit_lengths = given.logit_lengths.data();
  batch.labels = given.labels.data();
  batch.label_lengths = given.label_lengths.data();
  batch.max_labels = given.max_labels;
  batch.losses = output.losses.data();
  batch.statuses = output.statuses.data();
  form.run(batch);
  return output;
}

double LogAdd(double a, double b) {
  const double larger = std::max(a, b);
  return larger == -INFINITY ? -INFINITY : larger + std::log1p(std::exp(std::min(a, b) - larger));
}

// Computes utterance b in float64 log probabilities; returns its status.
CtcStatus Reference(const Case& given, int b, double* loss, std::vector<double>* gradient) {
  const int num_symbols = given.num_symbols;
  const int num_frames = given.logit_lengths[b];
  const int num_labels = given.label_lengths[b];
  gradient->assign(static_cast<size_t>(given.num_frames) * num_symbols, 0.0);
  *loss = NAN;
  if (num_frames < 0 || num_frames > given.num_frames || num_labels < 0 ||
      num_labels > given.max_labels) {
    return CtcStatus::kInvalidLength;
  }
  std::vector<int> states(1, given.blank);
  int needed_frames = num_labels;
  for (int u = 0; u < num_labels; ++u) {
    const int label = given.labels[static_cast<size_t>(b) * given.max_labels + u];
    if (label < 0 || label >= num_symbols || label == given.blank) return CtcStatus::kInvalidLabel;
    needed_frames += u > 0 && label == states[2 * u - 1];
    states.push_back(label);
    states.push_back(given.blank);
  }
  if (num_frames < needed_frames) {
    *loss = INFINITY;
    return CtcStatus::kInfeasible;
  }
  std::vector<std::vector<double>> log_probs(num_frames, std::vector<double>(num_symbols));
  for (int t = 0; t < num_frames; ++t) {
    const float* logits =
        &given.logits[(static_cast<size_t>(b) * given.num_frames + t) * num_symbols];
    double largest = -INFINITY;
    double sum = 0.0;
    for (int v = 0; v < num_symbols; ++v) largest = std::max<double>(largest, logits[v]);
    for (int v = 0; v < num_symbols; ++v) sum += std::exp(logits[v] - largest);
    if (!std::isfinite(sum) || !std::isfinite(largest)) {
      std::fill(gradient->begin(), gradient->end(), 0.0);
      return CtcStatus::kInvalidLogit;
    }
    for (int v = 0; v < num_symbols; ++v) {
      log_probs[t][v] = logits[v] - largest - std::log(sum);
      (*gradient)[static_cast<size_t>(t) * num_symbols + v] = std::exp(log_probs[t][v]);
    }
  }
  const int num_states = static_cast<int>(states.size());
  const auto can_skip = [&](int s) {
    return s >= 2 && s < num_states && states[s] != given.blank && states[s] != states[s - 2];
  };
  const std::vector<double> zeros(num_states, -INFINITY);
  std::vector<std::vector<double>> alphas(num_frames + 1, zeros);
  alphas[0][0] = 0.0;
  for (int t = 0; t < num_frames; ++t) {
    for (int s = 0; s < num_states; ++s) {
      double sum = alphas[t][s];
      if (s > 0) sum = LogAdd(sum, alphas[t][s - 1]);
      if (can_skip(s)) sum = LogAdd(sum, alphas[t][s - 2]);
      alphas[t + 1][s] = sum + log_probs[t][states[s]];
    }
  }
  const double log_likelihood =
      LogAdd(alphas[num_frames][num_states - 1],
             num_states > 1 ? alphas[num_frames][num_states - 2] : -INFINITY);
  *loss = -log_likelihood;
  if (log_likelihood == -INFINITY) {
    std::fill(gradient->begin(), gradient->end(), 0.0);
    return CtcStatus::kImpossible;
  }
  std::vector<double> betas = zeros;  // with the emission of their frame
  betas[num_states - 1] = 0.0;
  for (int t = num_frames - 1; t >= 0; --t) {
    std::vector<double> next = zeros;
    for (int s = 0; s < num_states; ++s) {
      double sum = betas[s];
      if (s + 1 < num_states) sum = LogAdd(sum, betas[s + 1]);
      if (can_skip(s + 2)) sum = LogAdd(sum, betas[s + 2]);
      (*gradient)[static_cast<size_t>(t) * num_symbols + states[s]] -=
          std::exp(alphas[t + 1][s] + sum - log_likelihood);
      next[s] = sum + log_probs[t][states[s]];
    }
    betas = next;
  }
  return CtcStatus::kOk;
}

// Returns whether a form's output is right, and says where it isn't.
bool Compare(const Case& given, const Form& form, const Output& output) {
  const size_t size = static_cast<size_t>(given.num_frames) * given.num_symbols;
  for (int b = 0; b < given.num_utterances; ++b) {
    double loss;
    std::vector<double> gradient;
    const CtcStatus status = Reference(given, b, &loss, &gradient);
    const double found = output.losses[b];
    const bool same_loss = std::isfinite(loss)
                               ? std::abs(found - loss) <= 2e-6 + 2e-6 * std::abs(loss)
                               : std::isnan(loss) == std::isnan(found) && !std::isfinite(found);
    double error = 0.0;
    for (size_t i = 0; i < size; ++i) {
      error = std::max(error, std::abs(output.gradients[b * size + i] - gradient[i]));
    }
    if (output.statuses[b] == status && same_loss && error <= form.tolerance) continue;
    std::printf("%s, row %d: status %d, expected %d; loss %g, expected %g; gradient error %g\n",
                form.name.c_str(), b, static_cast<int>(output.statuses[b]),
                static_cast<int>(status), found, loss, error);
    return false;
  }
  return true;
}

Form CpuForm(ds2::InstructionSet instruction_set, int num_workers) {
  return {"instruction set " + std::to_string(static_cast<int>(instruction_set)), 2e-6,
          [=](const CtcBatch& batch) {
            // Exactly as large as promised, so that sanitizers see what lies beyond.
            const size_t bytes = ds2::CtcBatchWorkspaceBytes(batch, num_workers);
            const std::unique_ptr<char[]> workspace(new char[bytes]);
            ds2::CtcBatchLoss(batch, workspace.get(), num_workers, ds2::Threads(num_workers),
                              instruction_set);
          }};
}

Form EmulatedForm(size_t shared_limit, ds2::ThreadOrder order) {
  return {"emulated GPU with " + std::to_string(shared_limit) + " bytes", 2e-5,
          [=](const CtcBatch& batch) { ds2::CtcEmulatedLoss(batch, shared_limit, order); }};
}

std::vector<Form> AllForms(bool with_emulation) {
  std::vector<Form> forms;
  for (const auto instruction_set :
       {ds2::InstructionSet::kGeneric, ds2::InstructionSet::kAvx2, ds2::InstructionSet::kAvx512}) {
    if (instruction_set <= ds2::BestInstructionSet()) {
      forms.push_back(CpuForm(instruction_set, 2));
    }
  }
  if (with_emulation) {
    forms.push_back(EmulatedForm(8 * 1024, ds2::ThreadOrder::kForward));
    forms.push_back(EmulatedForm(16 * 1024, ds2::ThreadOrder::kBackward));
    forms.push_back(EmulatedForm(1 << 24, ds2::ThreadOrder::kBackward));
  }
  if (ds2::test::HasDevice()) forms.push_back({"GPU", 2e-5, ds2::test::RunOnDevice});
  return forms;
}

int RunCases(int num_cases) {
  std::mt19937 generator(1);
  std::vector<Case> cases;
  for (int i = 0; i < num_cases; ++i) cases.push_back(MakeRandomCase(&generator));
  cases.push_back(MakeCase(&generator, 2, 400, 29, 60, 1.0f));
  cases.push_back(MakeCase(&generator, 2, 400, 29, 60, 30.0f));
  cases.push_back(MakeCase(&generator, 1, 1600, 29, 400, 3.0f));
  cases.push_back(MakeCase(&generator, 1, 60, 6000, 20, 1.0f));
  int num_passed = 0;
  int num_failed = 0;
  for (const Form& form : AllForms(true)) {
    for (const Case& given : cases) {
      const Output output = Run(given, form);
      bool passed = Compare(given, form, output);
      const Output again = Run(given, form);
      if (!output.gradients.empty() &&
          memcmp(output.gradients.data(), again.gradients.data(),
                 output.gradients.size() * sizeof(float)) != 0) {
        std::printf("%s: another gradient in another run\n", form.name.c_str());
        passed = false;
      }
      ++(passed ? num_passed : num_failed);
    }
  }
  std::printf("GPU: %s\n", ds2::test::HasDevice() ? "tested" : "none");
  std::printf("%d passed, %d failed\n", num_passed, num_failed);
  return num_failed == 0 ? 0 : 1;
}

void PrintTimes(int repeats) {
  std::mt19937 generator(1);
  for (const Case& given : {MakeCase(&generator, 32, 400, 29, 60, 1.0f),
                            MakeCase(&generator, 32, 400, 6000, 20, 1.0f)}) {
    for (const Form& form : AllForms(false)) {
      std::vector<double> times_ms;
      Form timed = form;
      timed.run = [&](const CtcBatch& batch) {
        form.run(batch);  // warms up
        for (int i = 0; i < repeats; ++i) {
          const auto start = std::chrono::steady_clock::now();
          form.run(batch);
          const auto end = std::chrono::steady_clock::now();
          times_ms.push_back(std::chrono::duration<double, std::milli>(end - start).count());
        }
      };
      Run(given, timed);
      std::nth_element(times_ms.begin(), times_ms.begin() + repeats / 2, times_ms.end());
      std::printf("B=%d T=%d V=%d U=%d, %s: %.3f ms\n", given.num_utterances, given.num_frames,
                  given.num_symbols, given.max_labels, form.name.c_str(), times_ms[repeats / 2]);
      if (form.name == "GPU") {
        std::printf("  of which without copies: %.3f ms\n", ds2::test::LastDeviceMs());
      }
    }
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count == 3 && std::string(arguments[1]) == "--time") {
    PrintTimes(std::max(1, std::atoi(arguments[2])));
    return 0;
  }
  return RunCases(argument_count > 1 ? std::atoi(arguments[1]) : 1000);
}
