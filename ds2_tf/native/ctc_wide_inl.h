// The forward-backward recursion with an exponent of its own for every state: nothing underflows,
// whatever the logits. It runs where the plain recursion could not be certified. Included once per
// instruction set (see ctc_lanes_inl.h).
//
// A number is mantissa * 2^exponent, both kept as doubles; exponents are integers.

// The exponent of zero: below any other, and sums of it stay exact.
constexpr double kZeroExponent = -0x1p60;

struct WideNumber {
  Doubles mantissa;
  Doubles exponent;
};

DS2_INLINE WideNumber LoadWide(const double* mantissas, const double* exponents) {
  return {Load(mantissas), Load(exponents)};
}

DS2_INLINE Doubles MultiplyByPower(Doubles value, Doubles exponent) {
  // 2^-1000 stands for all that is smaller: beside a mantissa of 1 either is lost in rounding.
  return value * PowerOfTwo(Max(exponent, Broadcast(-1000.0)));
}

DS2_INLINE WideNumber Add(WideNumber a, WideNumber b) {
  const Doubles exponent = Max(a.exponent, b.exponent);
  return {MultiplyByPower(a.mantissa, a.exponent - exponent) +
              MultiplyByPower(b.mantissa, b.exponent - exponent),
          exponent};
}

// Returns the product, its mantissa in [1, 2).
DS2_INLINE WideNumber Multiply(WideNumber a, WideNumber b) {
  const Doubles product = a.mantissa * b.mantissa;
  const Longs bits = (Longs)product;
  const Longs exponent_bits = (Longs)((unsigned long long __attribute__((
                                          vector_size(8 * kDoubleLanes))))bits >> 52);
  // An integer below 2^52 in the last bits of 2^52 is that sum.
  const Doubles exponent = (Doubles)(exponent_bits | 0x4330000000000000) - (0x1p52 + 1023.0);
  const Doubles mantissa = (Doubles)((bits & 0x000fffffffffffff) | 0x3ff0000000000000);
  const Longs is_zero = product == Doubles{};
  return {is_zero ? Doubles{} : mantissa,
          is_zero ? Broadcast(kZeroExponent) : a.exponent + b.exponent + exponent};
}

DS2_INLINE void StoreWide(WideNumber number, double* mantissas, double* exponents) {
  Store(number.mantissa, mantissas);
  Store(number.exponent, exponents);
}

DS2_INLINE void FillZero(const CtcPlan& plan, double* mantissas, double* exponents) {
  std::fill_n(mantissas, plan.column_size, 0.0);
  std::fill_n(exponents, plan.column_size, kZeroExponent);
}

// Writes each label's emission of the frame and returns the blank's.
template <typename T>
DS2_TARGET WideNumber SpreadWideEmissions(const CtcPlan& plan, int t) {
  const T* logits =
      static_cast<const T*>(plan.utterance.logits) + t * plan.utterance.frame_stride;
  double* mantissas = plan.occupancies;
  double* exponents = plan.slot_exponents;
  for (int s = 0; s < plan.padded_slots; ++s) {
    mantissas[s] = s < plan.num_slots ? ToFloat(logits[plan.slot_symbols[s]]) : -INFINITY;
  }
  for (int s = 0; s < plan.padded_slots; s += kDoubleLanes) {
    const Doubles x = Load(mantissas + s) - plan.target_logits[t];
    WideNumber emission;
    SplitExp(x, &emission.mantissa, &emission.exponent);
    const Longs is_zero = x == Broadcast(-double{INFINITY});
    emission.mantissa = is_zero ? Doubles{} : emission.mantissa;
    emission.exponent = is_zero ? Broadcast(kZeroExponent) : emission.exponent;
    StoreWide(emission, mantissas + s, exponents + s);
  }
  for (int u = 0; u < plan.padded_states; ++u) {
    plan.label_emissions[u] = mantissas[plan.label_slots[u]];
    plan.label_emission_exponents[u] = exponents[plan.label_slots[u]];
  }
  return {Broadcast(mantissas[0]), Broadcast(exponents[0])};
}

// Returns the number if the states on the way differ, else zero.
DS2_INLINE WideNumber IfCanSkip(const double* can_skip, WideNumber number) {
  const Longs can = Load(can_skip) > Doubles{};
  return {can ? number.mantissa : Doubles{}, can ? number.exponent : Broadcast(kZeroExponent)};
}

// Returns log p of the labels in units of the emissions; -infinity if no path has a probability.
template <typename T>
DS2_TARGET double WideForwardPass(const CtcPlan& plan) {
  double* mantissas = plan.alphas;
  double* exponents = plan.alpha_exponents;
  FillZero(plan, mantissas, exponents);
  mantissas[BlankOffset(plan)] = 1.0;
  exponents[BlankOffset(plan)] = 0.0;
  for (int t = 0; t < plan.utterance.num_frames; ++t) {
    const WideNumber blank_emission = SpreadWideEmissions<T>(plan, t);
    double* next_mantissas = mantissas + plan.column_size;
    double* next_exponents = exponents + plan.column_size;
    next_mantissas[LabelOffset() - 1] = 0.0;
    next_exponents[LabelOffset() - 1] = kZeroExponent;
    for (int u = 0; u < plan.padded_states; u += kDoubleLanes) {
      const int l = LabelOffset() + u;
      const int b = BlankOffset(plan) + u;
      const WideNumber label_before = LoadWide(mantissas + l - 1, exponents + l - 1);
      const WideNumber blank = LoadWide(mantissas + b, exponents + b);
      const WideNumber stay = Add(LoadWide(mantissas + l, exponents + l), blank);
      const WideNumber label_emission =
          LoadWide(plan.label_emissions + u, plan.label_emission_exponents + u);
      StoreWide(Multiply(Add(blank, label_before), blank_emission), next_mantissas + b,
                next_exponents + b);
      StoreWide(Multiply(Add(stay, IfCanSkip(plan.can_skip + u, label_before)), label_emission),
                next_mantissas + l, next_exponents + l);
    }
    mantissas = next_mantissas;
    exponents = next_exponents;
  }
  const int last_blank = BlankOffset(plan) + plan.utterance.num_labels;
  // Without labels this is the padding left of them, and zero.
  const int last_label = LabelOffset() + plan.utterance.num_labels - 1;
  const double exponent = std::max(exponents[last_blank], exponents[last_label]);
  const double total =
      std::ldexp(mantissas[last_blank], WideShift(exponents[last_blank] - exponent)) +
      std::ldexp(mantissas[last_label], WideShift(exponents[last_label] - exponent));
  return total > 0.0 ? std::log(total) + exponent * kLog2 : -INFINITY;
}

// Overwrites the gradient in the columns of the target's symbols.
template <typename T>
DS2_TARGET void WideBackwardPass(const CtcPlan& plan) {
  int now = 0;
  for (int i = 0; i < 2; ++i) FillZero(plan, plan.beta_columns[i], plan.beta_exponents[i]);
  FillZero(plan, plan.products, plan.product_exponents);
  plan.beta_columns[0][BlankOffset(plan) + plan.utterance.num_labels] = 1.0;
  plan.beta_exponents[0][BlankOffset(plan) + plan.utterance.num_labels] = 0.0;
  for (int t = plan.utterance.num_frames - 1; t >= 0; --t) {
    const WideNumber blank_emission = SpreadWideEmissions<T>(plan, t);
    const double* mantissas = plan.beta_columns[now];
    const double* exponents = plan.beta_exponents[now];
    double* next_mantissas = plan.beta_columns[1 - now];
    double* next_exponents = plan.beta_exponents[1 - now];
    const double* alphas = plan.alphas + (t + 1) * static_cast<ptrdiff_t>(plan.column_size);
    const double* alpha_exponents =
        plan.alpha_exponents + (t + 1) * static_cast<ptrdiff_t>(plan.column_size);
    Doubles largest_lanes = Broadcast(kZeroExponent);
    for (int u = 0; u < plan.padded_states; u += kDoubleLanes) {
      const int l = LabelOffset() + u;
      const int b = BlankOffset(plan) + u;
      const WideNumber label = LoadWide(mantissas + l, exponents + l);
      const WideNumber label_after =
          IfCanSkip(plan.can_skip + u + 1, LoadWide(mantissas + l + 1, exponents + l + 1));
      const WideNumber beta_blank = Add(LoadWide(mantissas + b, exponents + b), label);
      const WideNumber beta_label =
          Add(Add(label, LoadWide(mantissas + b + 1, exponents + b + 1)), label_after);
      const WideNumber label_product =
          Multiply(LoadWide(alphas + l, alpha_exponents + l), beta_label);
      const WideNumber blank_product =
          Multiply(LoadWide(alphas + b, alpha_exponents + b), beta_blank);
      StoreWide(label_product, plan.products + u, plan.product_exponents + u);
      StoreWide(blank_product, plan.products + plan.padded_states + u,
                plan.product_exponents + plan.padded_states + u);
      largest_lanes =
          Max(largest_lanes, Max(label_product.exponent, blank_product.exponent));
      const WideNumber label_emission =
          LoadWide(plan.label_emissions + u, plan.label_emission_exponents + u);
      StoreWide(Multiply(beta_label, label_emission), next_mantissas + l, next_exponents + l);
      StoreWide(Multiply(beta_blank, blank_emission), next_mantissas + b, next_exponents + b);
    }
    const double largest = MaxOfLanes(largest_lanes);
    Doubles label_products = {};
    Doubles blank_products = {};
    for (int u = 0; u < plan.padded_states; u += kDoubleLanes) {
      const int b = plan.padded_states + u;
      const Doubles product = MultiplyByPower(Load(plan.products + u),
                                              Load(plan.product_exponents + u) - largest);
      Store(product, plan.products + u);
      label_products += product;
      blank_products += MultiplyByPower(Load(plan.products + b),
                                        Load(plan.product_exponents + b) - largest);
    }
    const double blank_product = SumOfLanes(blank_products);
    StoreTargetGradients<T>(plan, t, blank_product, blank_product + SumOfLanes(label_products));
    now = 1 - now;
  }
}
