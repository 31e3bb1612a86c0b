// The forward-backward recursion on plain doubles: each column is rescaled by a power of two, and
// nothing takes an exponential or a logarithm. Included once per instruction set (see
// ctc_lanes_inl.h).
//
// States far below the column's largest underflow, and may be what the loss consists of: think of
// a model that emits blanks alone. So the forward pass carries a bound on what underflow can have
// cost, and the result counts only where the bound proves it right (`certified`):
// - An operation errs by at most the smallest normal double, in units of the column's scale; whether
//   the thread flushes subnormal numbers to zero makes no difference.
// - An error spreads to the state's successors alone. They emit different symbols, so a frame
//   multiplies the sum of all errors by at most `frame_mass`.
// The sum of errors at the end, far below the probability, is the proof for the loss. It is one for
// the gradient too: by the same argument beta is at most the product of the frames' masses, and what
// underflow takes from it counts at most as much as the alphas' errors of the same frame.

// Columns are scaled to about 2^500: products of two stay finite, and 1,500 bits lie below.
constexpr int kScaleExponent = 500;
constexpr double kSmallestNormal = 0x1p-1022;
constexpr double kCertainty = 0x1p-50;

// Returns the exponent e of value = m * 2^e, 1 <= m < 2, for positive normal numbers.
DS2_INLINE int ExponentOf(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  return static_cast<int>(bits >> 52) - 1023;
}

// Returns 2^exponent for exponents in [-1022, 1023].
DS2_INLINE double ScaleOf(int exponent) {
  const uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double scale;
  memcpy(&scale, &bits, sizeof scale);
  return scale;
}

// Writes each label's emission of the frame, times `scale`, and returns the blank's.
DS2_INLINE double SpreadEmissions(const CtcPlan& plan, int t, double scale) {
  const double* emissions = plan.emissions + static_cast<ptrdiff_t>(t) * plan.padded_slots;
  for (int u = 0; u < plan.padded_states; ++u) {
    plan.label_emissions[u] = emissions[plan.label_slots[u]] * scale;
  }
  return emissions[0] * scale;
}

struct LinearForward {
  bool certified;
  double log_probability;  // of the labels, in units of the emissions
};

DS2_TARGET LinearForward ForwardPass(const CtcPlan& plan) {
  const int num_frames = plan.utterance.num_frames;
  const double rounding = 4.0 * plan.column_size * kSmallestNormal;
  double* column = plan.alphas;
  std::fill_n(column, plan.column_size, 0.0);
  column[BlankOffset(plan)] = 1.0;
  double largest = 1.0;
  double error = 0.0;
  int64_t exponent = 0;
  for (int t = 0; t < num_frames; ++t) {
    if (!(largest >= kSmallestNormal)) return {false, 0.0};
    const int shift = kScaleExponent - ExponentOf(largest);
    const double scale = ScaleOf(shift);
    exponent -= shift;
    error = error * plan.frame_mass[t] * scale + rounding;

    const double* labels = column + LabelOffset();
    const double* blanks = column + BlankOffset(plan);
    column += plan.column_size;
    double* next_labels = column + LabelOffset();
    double* next_blanks = column + BlankOffset(plan);
    const Doubles blank_emission = Broadcast(SpreadEmissions(plan, t, scale));
    next_labels[-1] = 0.0;
    Doubles largest_lanes = {};
    for (int u = 0; u < plan.padded_states; u += kDoubleLanes) {
      const Doubles label = Load(labels + u);
      const Doubles label_before = Load(labels + u - 1);
      const Doubles blank = Load(blanks + u);
      const Doubles next_blank = (blank + label_before) * blank_emission;
      const Doubles next_label = (label + blank + Load(plan.can_skip + u) * label_before) *
                                 Load(plan.label_emissions + u);
      Store(next_blank, next_blanks + u);
      Store(next_label, next_labels + u);
      largest_lanes = Max(Max(next_blank, next_label), largest_lanes);
    }
    largest = MaxOfLanes(largest_lanes);
  }
  const int num_labels = plan.utterance.num_labels;
  const double total = column[BlankOffset(plan) + num_labels] +
                       (num_labels > 0 ? column[LabelOffset() + num_labels - 1] : 0.0);
  if (!(error < total * kCertainty)) return {false, 0.0};
  return {true, std::log(total) + static_cast<double>(exponent) * kLog2};
}

// Writes one frame's gradient in the columns of the target's symbols, from the products of alpha
// and beta in plan.products and their sum.
template <typename T>
DS2_INLINE void StoreTargetGradients(const CtcPlan& plan, int t, double blank_product,
                                     double total) {
  double* occupancies = plan.occupancies;
  for (int s = 0; s < plan.padded_slots; s += kDoubleLanes) Store(Doubles{}, occupancies + s);
  occupancies[0] = blank_product;
  for (int u = 0; u < plan.utterance.num_labels; ++u) {
    occupancies[plan.label_slots[u]] += plan.products[u];
  }
  const double* emissions = plan.emissions + static_cast<ptrdiff_t>(t) * plan.padded_slots;
  const double ratio = plan.softmax_ratios[t];
  const double weight = 1.0 / total;
  for (int s = 0; s < plan.padded_slots; s += kDoubleLanes) {
    Store(Load(emissions + s) * ratio - Load(occupancies + s) * weight, occupancies + s);
  }
  T* gradients = static_cast<T*>(plan.utterance.gradients) + t * plan.utterance.frame_stride;
  for (int s = 0; s < plan.num_slots; ++s) {
    FromFloat(static_cast<float>(occupancies[s]), &gradients[plan.slot_symbols[s]]);
  }
}

// Overwrites the gradient in the columns of the target's symbols. The forward pass must be
// certified.
template <typename T>
DS2_TARGET void BackwardPass(const CtcPlan& plan) {
  // The column holds beta times the emission of its own frame, as the step before needs it. Past
  // the last frame stands a blank that every path ends in.
  double* column = plan.beta_columns[0];
  double* previous = plan.beta_columns[1];
  std::fill_n(column, plan.column_size, 0.0);
  std::fill_n(previous, plan.column_size, 0.0);
  column[BlankOffset(plan) + plan.utterance.num_labels] = 1.0;
  double largest = 1.0;
  for (int t = plan.utterance.num_frames - 1; t >= 0; --t) {
    const double scale = ScaleOf(kScaleExponent - ExponentOf(largest));
    const double* alphas = plan.alphas + (t + 1) * static_cast<ptrdiff_t>(plan.column_size);
    const double* alpha_labels = alphas + LabelOffset();
    const double* alpha_blanks = alphas + BlankOffset(plan);
    const double* labels = column + LabelOffset();
    const double* blanks = column + BlankOffset(plan);
    double* next_labels = previous + LabelOffset();
    double* next_blanks = previous + BlankOffset(plan);
    const Doubles scales = Broadcast(scale);
    const Doubles blank_emission = Broadcast(SpreadEmissions(plan, t, 1.0));
    Doubles largest_lanes = {};
    Doubles label_products = {};
    Doubles blank_products = {};
    for (int u = 0; u < plan.padded_states; u += kDoubleLanes) {
      const Doubles label = Load(labels + u);
      const Doubles beta_blank = (Load(blanks + u) + label) * scales;
      const Doubles beta_label = (label + Load(blanks + u + 1) +
                                  Load(plan.can_skip + u + 1) * Load(labels + u + 1)) * scales;
      const Doubles product = Load(alpha_labels + u) * beta_label;
      Store(product, plan.products + u);
      label_products += product;
      blank_products += Load(alpha_blanks + u) * beta_blank;
      const Doubles next_label = beta_label * Load(plan.label_emissions + u);
      const Doubles next_blank = beta_blank * blank_emission;
      Store(next_label, next_labels + u);
      Store(next_blank, next_blanks + u);
      largest_lanes = Max(Max(next_blank, next_label), largest_lanes);
    }
    const double blank_product = SumOfLanes(blank_products);
    StoreTargetGradients<T>(plan, t, blank_product, blank_product + SumOfLanes(label_products));
    largest = MaxOfLanes(largest_lanes);
    std::swap(column, previous);
  }
}
