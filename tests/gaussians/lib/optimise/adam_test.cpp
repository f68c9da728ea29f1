// SPDX-License-Identifier: MIT
// gs_adam, gs_adam_rows and gs_average against their formulas in double precision, and what must hold without them.
#include "kernel_frame.h"

#include <algorithm>
#include <limits>
#include <math.h>
#include <random>

namespace {

const gs_adam_rates rates = {1.6e-4f, 5e-3f, 1e-3f, 5e-2f, 2.5e-3f, 1.25e-4f, 0}; // all different
const int shapes[][2] = {{1, 0}, {1, 3}, {100, 0}, {257, 1}, {1000, 2}, {343, 3}};

// At which rate each value learns.
std::vector<double> rates_of(int64_t count, int degree) {
    std::vector<double> out;
    const auto add = [&](int64_t values, float rate) { out.insert(out.end(), size_t(values), double(rate)); };
    add(3 * count, rates.mean), add(3 * count, rates.log_scale), add(4 * count, rates.quaternion);
    add(count, rates.opacity_logit);
    for (int64_t i = 0; i < count; i++)
        add(3, rates.sh0), add(3 * ((degree + 1) * (degree + 1) - 1), rates.shN);
    return out;
}

// Either sign, magnitudes from 1e-8 to 1, some zeros; float values.
std::vector<double> random_gradient(size_t values, std::mt19937 &random) {
    std::vector<double> out(values);
    for (double &g : out) {
        const float magnitude = float(pow(10, -8.0 * random() / 4294967296.0));
        g = random() % 10 == 0 ? 0 : random() % 2 ? magnitude : -magnitude;
    }
    return out;
}

// The formula (Kingma and Ba 2015).
struct exact_adam {
    std::vector<double> value, first, second;
    double beta1, beta2, epsilon;
    exact_adam(const std::vector<double> &start, double beta1, double beta2, double epsilon)
        : value(start), first(start.size()), second(start.size()), beta1(beta1), beta2(beta2),
          epsilon(epsilon) {}
    void move(size_t i, double gradient, double rate, double correction1 = 1, double correction2 = 1) {
        first[i] = beta1 * first[i] + (1 - beta1) * gradient;
        second[i] = beta2 * second[i] + (1 - beta2) * gradient * gradient;
        value[i] -= rate * first[i] / correction1 / (sqrt(second[i] / correction2) + epsilon);
    }
};

struct learner {
    learner(int64_t count, int degree)
        : gradients(count, degree), values(count, degree), first(count, degree), second(count, degree) {}
    void step(const std::vector<double> &gradient, int64_t step, const gs_adam_rates &of = rates) const {
        gradients.write(gradient);
        ASSERT_GS_OK(gs_adam(values.get(), gradients.get(), first.get(), second.get(), &of, step, nullptr));
    }
    device_gaussians gradients, values, first, second;
};

// Relative error in norm, of the values that learn at one rate: each rate by itself. Values that are sums of
// steps may come out near zero; `floor` is what they count as at least, in rates.
void expect_close(const std::vector<double> &values, const std::vector<double> &exact,
                  const std::vector<double> &of, double floor, const char *what) {
    for (const float rate :
         {rates.mean, rates.log_scale, rates.quaternion, rates.opacity_logit, rates.sh0, rates.shN}) {
        double difference = 0, norm = 0;
        for (size_t i = 0; i < exact.size(); i++) {
            if (float(of[i]) != rate) continue;
            difference += pow(values[i] - exact[i], 2);
            norm += std::max(pow(exact[i], 2), pow(floor * of[i], 2));
        }
        EXPECT_LE(sqrt(difference), 1e-6 * sqrt(norm)) << what << ", rate " << rate;
    }
}

TEST(Adam, AgreesWithTheReference) {
    std::mt19937 random(1);
    for (const auto &[count, degree] : shapes) {
        SCOPED_TRACE(testing::Message() << count << " Gaussians of degree " << degree);
        // From zero, so that the values are nothing but the sum of the steps.
        const learner got(count, degree);
        const std::vector<double> rate = rates_of(count, degree);
        exact_adam exact(std::vector<double>(rate.size()), 0.9, 0.999, 1e-15);
        for (int step = 1; step <= 10; step++) {
            const std::vector<double> gradient = random_gradient(rate.size(), random);
            got.step(gradient, step);
            for (size_t i = 0; i < rate.size(); i++)
                exact.move(i, gradient[i], rate[i], 1 - pow(0.9, step), 1 - pow(0.999, step));
        }
        expect_close(got.values.values(), exact.value, rate, 1, "values");
        expect_close(got.first.values(), exact.first, rate, 0, "first moment");
        expect_close(got.second.values(), exact.second, rate, 0, "second moment");
    }
}

// Late, the corrections are 1: a steady gradient is its own first moment, and its square the second.
TEST(Adam, LateStepsNeedNoCorrection) {
    const learner steady(10, 1);
    const std::vector<double> rate = rates_of(10, 1);
    steady.first.fill(-0.25f), steady.second.fill(0.0625f);
    steady.step(std::vector<double>(rate.size(), -0.25), std::numeric_limits<int64_t>::max());
    const std::vector<double> moved = steady.values.values();
    for (size_t i = 0; i < rate.size(); i++) ASSERT_NEAR(moved[i], rate[i], 1e-6 * rate[i]) << i;
}

// What no view has read yet has no gradient: leaving it out changes nothing, bit for bit.
TEST(Adam, UnusedCoefficientsMayBeLeftOut) {
    std::mt19937 random(3);
    for (int stored = 0; stored <= 3; stored++)
        for (int used = 0; used <= stored; used++) {
            SCOPED_TRACE(testing::Message() << "degree " << used << " of " << stored);
            const size_t count = 261, row = 3 * size_t((stored + 1) * (stored + 1)),
                         read = 3 * size_t((used + 1) * (used + 1));
            const learner all(count, stored), some(count, stored);
            all.values.fill(0.5f), some.values.fill(0.5f);
            gs_adam_rates fewer = rates;
            fewer.sh_coefficients = int(read) / 3;
            for (int64_t step = 1; step <= 3; step++) {
                std::vector<double> gradient = random_gradient(count * (11 + row), random);
                for (size_t i = 11 * count; i < gradient.size(); i++)
                    if ((i - 11 * count) % row >= read) gradient[i] = 0;
                all.step(gradient, step), some.step(gradient, step, fewer);
            }
            const std::vector<double> values = all.values.values();
            EXPECT_EQ(some.values.values(), values);
            EXPECT_EQ(some.first.values(), all.first.values());
            EXPECT_EQ(some.second.values(), all.second.values());
            const auto still = std::count(values.begin(), values.end(), 0.5);
            EXPECT_GT(values.size() - size_t(still), count * (11 + read) * 8 / 10);
        }
}

TEST(Adam, NaNStaysInItsValue) {
    const learner got(20, 3);
    got.values.fill(1.5f);
    std::vector<double> gradient(got.values.values().size());
    const size_t poisoned = 700;
    gradient[poisoned] = NAN;
    got.step(gradient, 1);
    const std::vector<double> after = got.values.values();
    for (size_t i = 0; i < after.size(); i++)
        EXPECT_TRUE(i == poisoned ? isnan(after[i]) : after[i] == 1.5) << i; // a zero gradient moves nothing
}

// Rows of several widths, some wider than a block's share. Rows that are not visible keep every bit.
TEST(AdamRows, AgreesWithTheReference) {
    std::mt19937 random(4);
    std::normal_distribution<float> normal;
    // Four values at once, but not of array 2, whose gradient is not aligned; of array 3 in every fourth row.
    const int count = 300, widths[] = {1, 3, 45, 1501};
    std::vector<exact_adam> exact;
    std::vector<std::unique_ptr<device_vector<float>>> kept; // of each array value, gradient and moments
    gs_adam_array arrays[4] = {};
    for (size_t a = 0; a < 4; a++) {
        std::vector<float> start(size_t(count * widths[a]));
        for (float &x : start) x = normal(random);
        exact.emplace_back(doubles(start), 0.9, 0.99, 1e-8);
        for (int k = 0; k < 4; k++)
            kept.push_back(
                std::make_unique<device_vector<float>>(k ? std::vector<float>(start.size() + 1) : start));
        const auto at = [&](size_t k) { return kept[4 * a + k]->data(); };
        arrays[a] = {at(0), at(1) + (a == 2), at(2), at(3), widths[a], 0.1f * float(a + 1)};
    }
    for (int step = 0; step < 4; step++) {
        std::vector<uint8_t> visible(count);
        for (uint8_t &v : visible) v = step == 3 || random() % 3 == 0 ? uint8_t(1 + random() % 255) : 0;
        const device_vector<uint8_t> mask(visible);
        for (size_t a = 0; a < 4; a++) {
            std::vector<float> gradient(exact[a].value.size());
            for (float &g : gradient) g = normal(random);
            device_upload(kept[4 * a + 1]->data() + (a == 2), gradient.data(),
                          gradient.size() * sizeof(float));
            for (size_t i = 0; i < gradient.size(); i++)
                if (visible[i / size_t(widths[a])])
                    exact[a].move(i, double(gradient[i]), 0.1 * double(a + 1));
        }
        gs_adam_rows_step s = {count, step == 3 ? nullptr : mask.data(), arrays, 4, 0.9, 0.99, 1e-8f};
        ASSERT_GS_OK(gs_adam_rows(&s, nullptr));
        for (size_t a = 0; a < 4; a++) {
            const std::vector<double> *const wanted[] = {&exact[a].value, nullptr, &exact[a].first,
                                                         &exact[a].second};
            for (const size_t k : {0, 2, 3}) {
                std::vector<float> got = kept[4 * a + k]->read();
                got.resize(wanted[k]->size());
                EXPECT_LE(relative_norm(got, *wanted[k]), 1e-6)
                    << "array " << a << ", " << k << ", step " << step;
            }
        }
    }
}

// ---- the mean of several steps ----

TEST(Average, IsTheMeanOfAllSamplesAndExactOfEqualOnes) {
    std::mt19937 random(3);
    for (const auto &[count, degree] : shapes) {
        SCOPED_TRACE(testing::Message() << count << " Gaussians of degree " << degree);
        const device_gaussians average(count, degree), equal(count, degree), of(count, degree);
        average.fill(NAN); // replaced by the first sample
        std::vector<double> sums(of.values().size()), values;
        for (int64_t samples = 1; samples <= 6; samples++) {
            of.write(random_gradient(sums.size(), random));
            values = of.values();
            std::vector<double> mean;
            for (size_t i = 0; i < values.size(); i++)
                mean.push_back((sums[i] += values[i]) / double(samples));
            ASSERT_GS_OK(gs_average(average.get(), of.get(), samples, nullptr));
            EXPECT_LE(relative_norm(average.values(), mean), 1e-6) << samples << " samples";
            EXPECT_EQ(of.values(), values);
        }
        for (int64_t samples = 1; samples <= 7; samples++)
            ASSERT_GS_OK(gs_average(equal.get(), of.get(), samples, nullptr));
        EXPECT_EQ(equal.values(), values);
    }
}

} // namespace
