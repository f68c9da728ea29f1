// SPDX-License-Identifier: MIT
// gs_adam against the double-precision reference, and what must hold without one. gs_adam_rows and gs_average against
// their formulas.
#include "device_vector.h"
#include "distwar_gs.h"
#include "kernel_frame.h"

#include <algorithm>
#include <limits>
#include <math.h>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

const gs_adam_rates rates = {1.6e-4f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1.25e-4f, 0}; // all different
const int shapes[][2] = {{1, 0}, {1, 3}, {100, 0}, {257, 1}, {1000, 2}, {343, 3}};

// A reference_gaussians that frees itself, as one array of values.
class block {
  public:
    block(int64_t count, int sh_degree, double value = 0)
        : gaussians(reference_gaussians_create(count, sh_degree)) {
        std::fill(begin(), end(), value);
    }
    explicit block(const device_gaussians &device) : gaussians(device.read()) {}
    ~block() { reference_gaussians_destroy(&gaussians); }
    block(const block &) = delete;
    block &operator=(const block &) = delete;

    reference_gaussians *get() { return &gaussians; }
    double *begin() { return gaussians.mean; }
    double *end() { return begin() + size(); }
    int64_t size() const { return reference_gaussians_values(&gaussians); }
    double &operator[](int64_t i) { return gaussians.mean[i]; }

    // At which rate value i learns.
    float rate(int64_t i) const {
        const int64_t n = gaussians.count;
        if (i < 3 * n) return rates.mean;
        if (i < 6 * n) return rates.log_scale;
        if (i < 10 * n) return rates.quaternion;
        if (i < 11 * n) return rates.opacity_logit;
        const int row = 3 * (gaussians.sh_degree + 1) * (gaussians.sh_degree + 1);
        return (i - 11 * n) % row < 3 ? rates.sh0 : rates.shN;
    }

  private:
    reference_gaussians gaussians;
};

// Either sign, magnitudes from 1e-8 to 1, some zeros; float values.
void fill_gradient(block &gradient, std::mt19937 &random) {
    for (double &g : gradient) {
        const float magnitude = float(pow(10, -8.0 * random() / 4294967296.0));
        g = random() % 10 == 0 ? 0 : random() % 2 ? magnitude : -magnitude;
    }
}

// Relative error in norm, of the values that learn at one rate: each rate by itself. Values that are sums of
// steps may come out near zero; `floor` is what they count as at least, in rates.
void expect_close(block &values, block &exact, double floor, const char *what) {
    for (const float rate :
         {rates.mean, rates.log_scale, rates.quaternion, rates.opacity_logit, rates.sh0, rates.shN}) {
        double difference = 0, norm = 0;
        for (int64_t i = 0; i < exact.size(); i++) {
            if (exact.rate(i) != rate) continue;
            difference += pow(values[i] - exact[i], 2);
            norm += std::max(pow(exact[i], 2), pow(floor * rate, 2));
        }
        EXPECT_LE(sqrt(difference), 1e-6 * sqrt(norm)) << what << ", rate " << rate;
    }
}

TEST(Adam, AgreesWithTheReference) {
    std::mt19937 random(1);
    for (const auto &[count, degree] : shapes) {
        SCOPED_TRACE(std::to_string(count) + " Gaussians of degree " + std::to_string(degree));
        // From zero, so that the values are nothing but the sum of the steps.
        block exact(count, degree), exact_first(count, degree), exact_second(count, degree),
            gradient(count, degree);
        const device_gaussians values(count, degree), first(count, degree), second(count, degree);
        for (int64_t step = 1; step <= 10; step++) {
            fill_gradient(gradient, random);
            const device_gaussians gradients(*gradient.get());
            ASSERT_GS_OK(
                gs_adam(values.get(), gradients.get(), first.get(), second.get(), &rates, step, nullptr));
            reference_adam(exact.get(), gradient.get(), exact_first.get(), exact_second.get(), &rates, step);
        }
        block got(values), got_first(first), got_second(second);
        expect_close(got, exact, 1, "values");
        expect_close(got_first, exact_first, 0, "first moment");
        expect_close(got_second, exact_second, 0, "second moment");
    }
}

// Late, the corrections are 1: a steady gradient is its own first moment, and its square the second.
TEST(Adam, LateStepsNeedNoCorrection) {
    const int count = 10, degree = 1;
    block steady(count, degree, -0.25), square(count, degree, 0.0625);
    const device_gaussians values(count, degree), gradients(*steady.get()), first(*steady.get()),
        second(*square.get());
    const int64_t step = std::numeric_limits<int64_t>::max();
    ASSERT_GS_OK(gs_adam(values.get(), gradients.get(), first.get(), second.get(), &rates, step, nullptr));
    block moved(values);
    for (int64_t i = 0; i < moved.size(); i++)
        ASSERT_NEAR(moved[i], moved.rate(i), 1e-6 * moved.rate(i)) << i;
}

// What no view has read yet has no gradient: leaving it out changes nothing, bit for bit.
TEST(Adam, UnusedCoefficientsMayBeLeftOut) {
    std::mt19937 random(3);
    for (int stored = 0; stored <= 3; stored++)
        for (int used = 0; used <= stored; used++) {
            SCOPED_TRACE(testing::Message() << "degree " << used << " of " << stored);
            const int64_t count = 261;
            const int row = 3 * (stored + 1) * (stored + 1), read = 3 * (used + 1) * (used + 1);
            block start(count, stored, 0.5), gradient(count, stored);
            const device_gaussians all(*start.get()), some(*start.get()), first(count, stored),
                second(count, stored), first_of_some(count, stored), second_of_some(count, stored);
            gs_adam_rates fewer = rates;
            fewer.sh_coefficients = read / 3;
            for (int64_t step = 1; step <= 3; step++) {
                fill_gradient(gradient, random);
                for (int64_t i = 11 * count; i < gradient.size(); i++)
                    if ((i - 11 * count) % row >= read) gradient[i] = 0;
                const device_gaussians g(*gradient.get());
                ASSERT_GS_OK(gs_adam(all.get(), g.get(), first.get(), second.get(), &rates, step, nullptr));
                ASSERT_GS_OK(gs_adam(some.get(), g.get(), first_of_some.get(), second_of_some.get(), &fewer,
                                     step, nullptr));
            }
            block a(all), b(some), ma(first), mb(first_of_some), va(second), vb(second_of_some);
            EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin()));
            EXPECT_TRUE(std::equal(ma.begin(), ma.end(), mb.begin()));
            EXPECT_TRUE(std::equal(va.begin(), va.end(), vb.begin()));
            int64_t moved = 0;
            for (const double value : a) moved += value != 0.5;
            EXPECT_GT(moved, count * (11 + read) * 8 / 10);
        }
}

TEST(Adam, NaNStaysInItsValue) {
    const int count = 20, degree = 3;
    block start(count, degree, 1.5), gradient(count, degree);
    const int64_t poisoned = 700;
    gradient[poisoned] = NAN;
    const device_gaussians values(*start.get()), gradients(*gradient.get()), first(count, degree),
        second(count, degree);
    ASSERT_GS_OK(gs_adam(values.get(), gradients.get(), first.get(), second.get(), &rates, 1, nullptr));
    block after(values);
    for (int64_t i = 0; i < after.size(); i++) {
        if (i == poisoned)
            EXPECT_TRUE(isnan(after[i]));
        else
            EXPECT_EQ(after[i], 1.5) << i; // a zero gradient moves nothing
    }
}

TEST(Adam, TakesNoGaussians) {
    gs_gaussians none = {};
    none.sh_degree = 3;
    EXPECT_GS_OK(gs_adam(&none, &none, &none, &none, &rates, 1, nullptr));
}

// Rows of several widths, some wider than a block's share, against the formula in double precision. Rows that are not
// visible keep every bit.
TEST(AdamRows, AgreesWithTheReference) {
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    // Four values at once, but not of array 2, whose gradient is not aligned; of array 3 in every fourth row.
    const int count = 300, widths[] = {1, 3, 45, 1501};
    std::vector<std::vector<double>> exact;
    std::vector<std::unique_ptr<device_vector<float>>> kept;
    gs_adam_array arrays[4] = {};
    for (int a = 0; a < 4; a++) {
        const size_t values = size_t(count * widths[a]);
        std::vector<float> start(values);
        for (float &x : start) x = normal(random);
        exact.emplace_back(start.begin(), start.end());
        exact.insert(exact.end(), 2, std::vector<double>(values));
        for (int k = 0; k < 4; k++)
            kept.push_back(
                std::make_unique<device_vector<float>>(k ? std::vector<float>(values + 1) : start));
        arrays[a] = {kept[size_t(4 * a)]->data(),
                     kept[size_t(4 * a + 1)]->data() + (a == 2),
                     kept[size_t(4 * a + 2)]->data(),
                     kept[size_t(4 * a + 3)]->data(),
                     widths[a],
                     0.1f * float(a + 1)};
    }
    for (int step = 0; step < 4; step++) {
        std::vector<uint8_t> visible(count);
        for (uint8_t &v : visible) v = step == 3 || random() % 3 == 0 ? uint8_t(1 + random() % 255) : 0;
        const device_vector<uint8_t> mask(visible);
        for (size_t a = 0; a < 4; a++) {
            std::vector<float> gradient(exact[3 * a].size());
            for (float &g : gradient) g = normal(random);
            device_upload(kept[4 * a + 1]->data() + (a == 2), gradient.data(),
                          gradient.size() * sizeof(float));
            for (size_t i = 0; i < gradient.size(); i++) {
                if (!visible[i / size_t(widths[a])]) continue;
                const double g = double(gradient[i]);
                double &m = exact[3 * a + 1][i], &v = exact[3 * a + 2][i];
                m += 0.1 * (g - m), v += 0.01 * (g * g - v);
                exact[3 * a][i] -= 0.1 * double(a + 1) * m / (sqrt(v) + 1e-8);
            }
        }
        gs_adam_rows_step s = {count, step == 3 ? nullptr : mask.data(), arrays, 4, 0.9, 0.99, 1e-8f};
        ASSERT_GS_OK(gs_adam_rows(&s, nullptr));
        for (size_t a = 0; a < 4; a++)
            for (size_t k = 0; k < 3; k++) {
                std::vector<float> got = kept[4 * a + (k ? k + 1 : 0)]->read();
                got.resize(exact[3 * a].size());
                EXPECT_LE(relative_norm(got, exact[3 * a + k]), 1e-6)
                    << "array " << a << ", " << k << ", step " << step;
            }
    }
}

TEST(AdamRows, RefusesBadArguments) {
    const device_vector<float> x(std::vector<float>(6));
    const gs_adam_array good = {x.data(), x.data(), x.data(), x.data(), 3, 0.1f};
    const auto refuses = [](const gs_adam_rows_step &step, const char *text) {
        expect_refused(gs_adam_rows(&step, nullptr), text);
    };
    refuses({2, nullptr, nullptr, 1, 0.9, 0.99, 0}, "must be given");
    refuses({-1, nullptr, &good, 1, 0.9, 0.99, 0}, "count");
    refuses({2, nullptr, &good, 0, 0.9, 0.99, 0}, "array_count");
    refuses({2, nullptr, &good, 9, 0.9, 0.99, 0}, "array_count");
    refuses({2, nullptr, &good, 1, 1.0, 0.99f, 0}, "beta1");
    refuses({2, nullptr, &good, 1, 0.9, -0.1, 0}, "beta2");
    refuses({2, nullptr, &good, 1, 0.9, 0.99, NAN}, "epsilon");
    for (const auto &[width, rate] : {std::pair{0, 0.1f}, {3, -1.0f}, {3, float(INFINITY)}}) {
        gs_adam_array bad = good;
        bad.width = width, bad.rate = rate;
        refuses({2, nullptr, &bad, 1, 0.9, 0.99, 0}, "width");
    }
    gs_adam_array missing = good;
    missing.gradient = nullptr;
    refuses({2, nullptr, &missing, 1, 0.9, 0.99, 0}, "arrays must be given");
    const gs_adam_rows_step none = {0, nullptr, &missing, 1, 0.9, 0.99, 0};
    EXPECT_GS_OK(gs_adam_rows(&none, nullptr));
}

TEST(Adam, RefusesBadArguments) {
    const device_gaussians values(4, 1), gradients(4, 1), first(4, 1), second(4, 1);
    const auto adam = [&](const gs_gaussians *g, const gs_adam_rates *r, int64_t step) {
        return gs_adam(values.get(), g, first.get(), second.get(), r, step, nullptr);
    };
    EXPECT_GS_OK(adam(gradients.get(), &rates, 1));
    expect_refused(adam(nullptr, &rates, 1), "gs_adam: Gaussians");
    expect_refused(adam(gradients.get(), nullptr, 1), "gs_adam: rates");
    expect_refused(adam(gradients.get(), &rates, 0), "gs_adam: step");
    gs_gaussians bad[] = {*gradients.get(), *gradients.get(), *gradients.get()};
    bad[0].count = 3, bad[1].sh_degree = 2, bad[2].sh = nullptr;
    for (const gs_gaussians &each : bad) expect_refused(adam(&each, &rates, 1), "gs_adam: ");
    for (const float rate : {-1.0f, NAN, INFINITY}) {
        gs_adam_rates wrong = rates;
        wrong.quaternion = rate;
        expect_refused(adam(gradients.get(), &wrong, 1), "gs_adam: rates");
    }
    const std::pair<int64_t, int32_t> shapes_of_none[] = {{int64_t(1) << 31, 0}, {-1, 0}, {0, 4}, {0, -1}};
    for (const auto &[count, sh_degree] : shapes_of_none) {
        gs_gaussians wrong = {};
        wrong.count = count, wrong.sh_degree = sh_degree;
        expect_refused(gs_adam(&wrong, &wrong, &wrong, &wrong, &rates, 1, nullptr), "gs_adam: ");
    }
}

// ---- the mean of several steps ----

TEST(Average, IsTheMeanOfAllSamplesAndExactOfEqualOnes) {
    std::mt19937 random(3);
    for (const auto &[count, degree] : shapes) {
        SCOPED_TRACE(std::to_string(count) + " Gaussians of degree " + std::to_string(degree));
        const device_gaussians average(count, degree), equal(count, degree);
        average.fill(NAN); // replaced by the first sample
        std::vector<double> sums;
        block sample(count, degree);
        for (int64_t samples = 1; samples <= 6; samples++) {
            fill_gradient(sample, random);
            const device_gaussians of(*sample.get());
            const std::vector<double> values = of.values();
            sums.resize(values.size());
            for (size_t i = 0; i < values.size(); i++) sums[i] += values[i];
            ASSERT_GS_OK(gs_average(average.get(), of.get(), samples, nullptr));
            std::vector<double> mean = sums;
            for (double &value : mean) value /= double(samples);
            EXPECT_LE(relative_norm(average.values(), mean), 1e-6) << samples << " samples";
            EXPECT_EQ(of.values(), values);
        }
        const device_gaussians of(*sample.get());
        for (int64_t samples = 1; samples <= 7; samples++)
            ASSERT_GS_OK(gs_average(equal.get(), of.get(), samples, nullptr));
        EXPECT_EQ(equal.values(), of.values());
    }
}

TEST(Average, RefusesWhatItCannotTake) {
    const device_gaussians two(2, 1), three(3, 1), other(2, 2);
    EXPECT_EQ(gs_average(two.get(), three.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), other.get(), 1, nullptr), GS_INVALID_ARGUMENT);
    EXPECT_EQ(gs_average(two.get(), nullptr, 1, nullptr), GS_INVALID_ARGUMENT);
    expect_refused(gs_average(two.get(), two.get(), 0, nullptr), "samples must be 1 or more");
}

} // namespace
