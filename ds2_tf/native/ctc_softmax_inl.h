// The softmax of each frame, streamed once through memory, and the emissions of the target's
// symbols. Included once per instruction set (see ctc_lanes_inl.h).

// Returns the frame's logits as floats; `row` has room for them.
template <typename T>
DS2_INLINE const float* LoadRow(const T* logits, int num_symbols, float* row) {
  for (int v = 0; v < num_symbols; ++v) row[v] = ToFloat(logits[v]);
  return row;
}

DS2_INLINE const float* LoadRow(const float* logits, int, float*) { return logits; }

template <typename T>
DS2_INLINE void StoreRow(const float* exponentials, float factor, int num_symbols, T* gradients) {
  for (int v = 0; v < num_symbols; ++v) FromFloat(exponentials[v] * factor, &gradients[v]);
}

DS2_INLINE float RowMax(const float* row, int num_symbols) {
  if (num_symbols < kFloatLanes) {
    float result = row[0];
    for (int v = 1; v < num_symbols; ++v) result = row[v] > result ? row[v] : result;
    return result;
  }
  // The last vector overlaps the one before it.
  const int last = num_symbols - kFloatLanes;
  Floats largest = Load(row + last);
  Floats largest2 = largest;
  int v = 0;
  for (; v + kFloatLanes <= last; v += 2 * kFloatLanes) {
    largest = Max(Load(row + v), largest);
    largest2 = Max(Load(row + v + kFloatLanes), largest2);
  }
  if (v < last) largest = Max(Load(row + v), largest);
  return MaxOfLanes(Max(largest, largest2));
}

// Writes e^(logit - largest) of the row and returns the sum: NaN if a logit is NaN or +infinity or
// all are -infinity. `exponentials` has room for a vector past the row.
DS2_INLINE float RowExponentials(const float* row, int num_symbols, float largest,
                                 float* exponentials) {
  // Four sums: a chain of additions is slow, and long chains round more.
  Floats sums[4] = {};
  int v = 0;
  for (; v + 4 * kFloatLanes <= num_symbols; v += 4 * kFloatLanes) {
    for (int i = 0; i < 4; ++i) {
      const Floats exponential = Exp(Load(row + v + i * kFloatLanes) - largest);
      Store(exponential, exponentials + v + i * kFloatLanes);
      sums[i] += exponential;
    }
  }
  for (; v + kFloatLanes <= num_symbols; v += kFloatLanes) {
    const Floats exponential = Exp(Load(row + v) - largest);
    Store(exponential, exponentials + v);
    sums[0] += exponential;
  }
  if (v < num_symbols) {
    Floats rest = Broadcast(-INFINITY);
    for (int i = 0; v + i < num_symbols; ++i) rest[i] = row[v + i];
    const Floats exponential = Exp(rest - largest);
    Store(exponential, exponentials + v);
    sums[1] += exponential;
  }
  return SumOfLanes((sums[0] + sums[1]) + (sums[2] + sums[3]));
}

// Below this a logit's emission, relative to the largest, is left to the wide range.
constexpr double kLowestLogit = -340.0;

// Computes one frame's emissions, relative to the largest. Returns false if one is too small.
DS2_INLINE bool FrameEmissions(const CtcPlan& plan, int t, const float* row) {
  double* emissions = plan.emissions + static_cast<ptrdiff_t>(t) * plan.padded_slots;
  for (int s = 0; s < plan.num_slots; ++s) emissions[s] = row[plan.slot_symbols[s]];
  for (int s = plan.num_slots; s < plan.padded_slots; ++s) emissions[s] = -INFINITY;
  Doubles largest_lanes = Load(emissions);
  for (int s = kDoubleLanes; s < plan.padded_slots; s += kDoubleLanes) {
    largest_lanes = Max(Load(emissions + s), largest_lanes);
  }
  const double largest = MaxOfLanes(largest_lanes);
  plan.target_logits[t] = largest;

  Doubles sum = {};
  Longs too_small = {};
  for (int s = 0; s < plan.padded_slots; s += kDoubleLanes) {
    const Doubles x = Load(emissions + s) - largest;
    Doubles mantissa, exponent;
    SplitExp(Max(x, Broadcast(kLowestLogit)), &mantissa, &exponent);
    const Doubles emission = x < kLowestLogit ? Doubles{} : mantissa * PowerOfTwo(exponent);
    too_small |= (x < kLowestLogit) & (x > -INFINITY);
    sum += emission;
    Store(emission, emissions + s);
  }
  // The successors of a state emit different symbols, and there are at most three.
  const double mass = SumOfLanes(sum);
  plan.frame_mass[t] = mass < 3.0 ? mass : 3.0;
  int64_t any_too_small = 0;
  for (int i = 0; i < kDoubleLanes; ++i) any_too_small |= too_small[i];
  return any_too_small == 0;
}

struct SoftmaxResult {
  bool valid = true;      // every frame has a softmax
  bool possible = true;   // every frame can emit some symbol of the target
  bool in_range = true;   // no emission is too small for the linear recursion
  double log_scale = 0;   // sum over frames of log sum exp(logits) - largest logit of the target
};

// Writes the softmax of every frame to the gradients, if there are any, and fills the plan's
// arrays over frames.
template <typename T>
DS2_TARGET SoftmaxResult SoftmaxPass(const CtcPlan& plan) {
  const CtcUtterance& utterance = plan.utterance;
  SoftmaxResult result;
  // The logarithm of a product, taken rarely, instead of a sum of logarithms.
  double product = 1.0;
  for (int t = 0; t < utterance.num_frames; ++t) {
    const ptrdiff_t offset = t * utterance.frame_stride;
    const float* row =
        LoadRow(static_cast<const T*>(utterance.logits) + offset, utterance.num_symbols, plan.row);
    const float largest = RowMax(row, utterance.num_symbols);
    const float sum = RowExponentials(row, utterance.num_symbols, largest, plan.exponentials);
    result.valid &= sum > 0.0f;
    if (utterance.gradients != nullptr) {
      StoreRow(plan.exponentials, 1.0f / sum, utterance.num_symbols,
               static_cast<T*>(utterance.gradients) + offset);
    }
    result.in_range &= FrameEmissions(plan, t, row);
    const double target_logit = plan.target_logits[t];
    result.possible &= target_logit > -INFINITY;
    plan.softmax_ratios[t] = target_logit - largest;
    plan.softmax_sums[t] = sum;
    product *= sum;
    if (product > 1e250) {
      result.log_scale += std::log(product);
      product = 1.0;
    }
    result.log_scale += largest - target_logit;
  }
  result.log_scale += std::log(product);
  // The exponentials of several frames at a time.
  for (int t = 0; t < utterance.num_frames; t += kDoubleLanes) {
    Doubles mantissa, exponent;
    SplitExp(Max(Load(plan.softmax_ratios + t), Broadcast(-700.0)), &mantissa, &exponent);
    Store(mantissa * PowerOfTwo(exponent) / Load(plan.softmax_sums + t), plan.softmax_ratios + t);
  }
  return result;
}
