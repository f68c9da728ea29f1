// SPDX-License-Identifier: MIT
// A fake clock for the tuner: candidates with known true times, views that differ, noise, late reports.
#ifndef TUNE_WORLD_H
#define TUNE_WORLD_H

#include <distwar/tune.h>
#include <gtest/gtest.h>
#include "random.h"
#include <algorithm>
#include <vector>

// As of a renderer: two strategies without a threshold, three with eight each.
inline std::vector<tune_candidate> default_candidates() {
    std::vector<tune_candidate> all = {{0, 0}, {4, 0}};
    for (int strategy : {1, 2, 3})
        for (int threshold : {0, 4, 8, 12, 16, 20, 24, 28}) all.push_back({strategy, threshold});
    return all;
}

// Launches take truth[candidate] nanoseconds a unit of work, half to one and a half million units, times what
// follows.
struct world {
    std::vector<tune_candidate> candidates = default_candidates();
    std::vector<double> truth;
    int views = 50;           // each launched once before any is again
    bool in_order = false;    // always the same order
    double view_spread = 0.2; // a view takes 1 -+ this times what its work says
    double jitter = 0.02;     // of every launch, a standard deviation
    double outliers = 0.05;   // so many launches take up to 6 times as long
    double drift = 0;         // times grow by so much every 1000 launches
    int delay = 2;            // a report comes so many launches later
    int scatter = 0;          // and up to so many more, so out of order
    double lost = 0;          // so many reports never come
    random_stream random;

    struct report {
        int64_t due, ticket;
        double milliseconds, work;
    };
    tuner t;
    std::vector<double> work, factor;
    std::vector<size_t> order;
    std::vector<report> reports;
    std::vector<int> launched; // candidates
    int64_t now = 0;
    double spent = 0, needed = 0; // milliseconds without noise, of what was launched and of the best

    explicit world(uint64_t seed) : random{seed} {
        double base[5], at[5], curve[5];
        for (int s = 0; s < 5; s++) {
            base[s] = 1 + random_unit(&random) * random_unit(&random);
            at[s] = 32 * random_unit(&random);
            curve[s] = 0.6 * random_unit(&random);
        }
        for (auto &c : candidates) {
            double off = (c.threshold - at[c.strategy]) / 32;
            truth.push_back(base[c.strategy] * (1 + curve[c.strategy] * off * off));
        }
    }
    void start() {
        ASSERT_TRUE(tune_init(&t, candidates.data(), (int)candidates.size()));
        for (int i = 0; i < views; i++) {
            work.push_back(1e6 * (0.5 + random_unit(&random)));
            factor.push_back(1 + view_spread * (2 * random_unit(&random) - 1));
            order.push_back((size_t)i);
        }
    }
    int find(int strategy, int threshold) const {
        for (int c = 0; c < t.count; c++)
            if (t.candidates[c].strategy == strategy && t.candidates[c].threshold == threshold) return c;
        return -1;
    }
    double best() const { return *std::min_element(truth.begin(), truth.end()); }
    double excess() const { return truth[(size_t)t.best] / best() - 1; } // of the choice
    void launch() {
        size_t turn = (size_t)(now % views);
        if (turn == 0 && !in_order)
            for (size_t i = order.size(); i > 1; i--)
                std::swap(order[i - 1], order[random_below(&random, i)]);
        size_t view = order[turn];
        tune_launch next = tune_choose(&t);
        now++;
        launched.push_back(next.candidate);
        double unit = 1e-6 * work[view] * factor[view] * (1 + drift * (double)now / 1000);
        spent += truth[(size_t)next.candidate] * unit;
        needed += best() * unit;
        double milliseconds = truth[(size_t)next.candidate] * unit * (1 + jitter * random_normal(&random));
        if (random_unit(&random) < outliers) milliseconds *= 1 + 5 * random_unit(&random);
        int64_t late = delay + (scatter > 0 ? (int64_t)random_below(&random, (uint64_t)scatter) : 0);
        if (next.ticket >= 0 && random_unit(&random) >= lost)
            reports.push_back({now + late, next.ticket, milliseconds, work[view]});
        for (size_t i = 0; i < reports.size();)
            if (reports[i].due <= now) {
                tune_report(&t, reports[i].ticket, reports[i].milliseconds, reports[i].work);
                reports[i] = reports.back();
                reports.pop_back();
            } else
                i++;
    }
    void launch(int64_t count) {
        for (int64_t i = 0; i < count; i++) launch();
    }
    void explore(int64_t most = 10000) {
        for (int64_t i = 0; i < most && !t.known; i++) launch();
    }
};

#endif
