// SPDX-License-Identifier: MIT
// The ring of events around a tuner: with events that become ready when the test says so, and with the
// runtime's.

#include <cuda_runtime.h>
#include <gtest/gtest.h>
#include <set>
#include <vector>

namespace {

// A runtime of events only. An event is the address of one of these.
struct fake_event {
    double recorded = -1; // milliseconds
};
struct fake_runtime {
    double now = 0;
    std::set<fake_event *> live;
    std::set<fake_event *> pending; // recorded, not reached yet
    bool late = false;              // what is recorded from now on becomes pending
    int records = 0, queries = 0;
    int fail_creation = -1; // of so many
    bool fail_records = false, fail_queries = false;
    cudaError_t last = cudaSuccess;
} fake;

fake_event *as_fake(cudaEvent_t event) {
    auto *one = reinterpret_cast<fake_event *>(event);
    EXPECT_EQ(fake.live.count(one), 1u);
    return one;
}
cudaError_t fakeEventCreate(cudaEvent_t *event) {
    if (fake.fail_creation-- == 0) return cudaErrorMemoryAllocation;
    auto *one = new fake_event;
    fake.live.insert(one);
    *event = reinterpret_cast<cudaEvent_t>(one);
    return cudaSuccess;
}
cudaError_t fakeEventDestroy(cudaEvent_t event) {
    auto *one = as_fake(event);
    fake.live.erase(one);
    delete one;
    return cudaSuccess;
}
cudaError_t fakeEventRecord(cudaEvent_t event, cudaStream_t) {
    if (fake.fail_records) return cudaErrorUnknown;
    fake.records++;
    as_fake(event)->recorded = fake.now;
    if (fake.late) fake.pending.insert(as_fake(event));
    return cudaSuccess;
}
cudaError_t fakeEventQuery(cudaEvent_t event) {
    fake.queries++;
    if (fake.fail_queries) return fake.last = cudaErrorUnknown;
    return fake.pending.count(as_fake(event)) ? fake.last = cudaErrorNotReady : cudaSuccess;
}
cudaError_t fakeEventElapsedTime(float *milliseconds, cudaEvent_t begin, cudaEvent_t end) {
    EXPECT_GE(as_fake(begin)->recorded, 0);
    EXPECT_FALSE(fake.pending.count(as_fake(end)));
    *milliseconds = (float)(as_fake(end)->recorded - as_fake(begin)->recorded);
    return cudaSuccess;
}
cudaError_t fakePeekAtLastError() {
    return fake.last;
}
cudaError_t fakeGetLastError() {
    cudaError_t last = fake.last;
    fake.last = cudaSuccess;
    return last;
}

} // namespace

#define cudaEventCreate fakeEventCreate
#define cudaEventDestroy fakeEventDestroy
#define cudaEventRecord fakeEventRecord
#define cudaEventQuery fakeEventQuery
#define cudaEventElapsedTime fakeEventElapsedTime
#define cudaPeekAtLastError fakePeekAtLastError
#define cudaGetLastError fakeGetLastError
#include <distwar/tune.h>

namespace {

struct TuneEvents : testing::Test {
    tuner t;
    tune_events ring;
    const double truth[3] = {2, 1, 1.5};

    void SetUp() override {
        fake = {};
        const tune_candidate candidates[] = {{0, 0}, {1, 0}, {1, 8}};
        ASSERT_TRUE(tune_init(&t, candidates, 3));
        ASSERT_EQ(tune_events_open(&ring), cudaSuccess);
    }
    void TearDown() override {
        EXPECT_EQ(tune_events_close(&ring), cudaSuccess);
        EXPECT_TRUE(fake.live.empty());
        EXPECT_EQ(tune_events_close(&ring), cudaSuccess); // again
    }
    tune_launch launch(double work = 1) {
        tune_launch next;
        EXPECT_EQ(tune_events_begin(&ring, &t, nullptr, &next), cudaSuccess);
        fake.now += truth[next.candidate] * work;
        EXPECT_EQ(tune_events_end(&ring, &t, nullptr, work), cudaSuccess);
        return next;
    }
};

TEST_F(TuneEvents, FindTheBest) {
    for (int i = 0; i < 1000; i++) launch(1 + i % 5);
    EXPECT_EQ(t.best, 1);
    EXPECT_TRUE(t.known);
    EXPECT_NEAR(t.best_time, 1, 1e-3); // floats of a clock that has run long
    EXPECT_EQ(fake.records, 2 * t.measured);
    EXPECT_LT(t.measured, 300);
}

TEST_F(TuneEvents, NothingIsRecordedBetweenRaces) {
    launch();
    while (t.racing) launch();
    int records = fake.records, queries = fake.queries;
    for (int i = 0; i < 1000; i++) launch();
    EXPECT_EQ(fake.records, records);
    EXPECT_EQ(fake.queries, queries);
}

TEST_F(TuneEvents, NeverReadyFillTheRingAndTheBestRuns) {
    fake.late = true;
    t.interval = 10;
    int64_t measured = 0;
    for (int i = 0; i < 5000; i++) {
        bool full = ring.waiting == TUNE_EVENTS;
        tune_launch next = launch();
        measured += next.ticket >= 0;
        if (full) {
            EXPECT_EQ(next.candidate, t.best);
            EXPECT_LT(next.ticket, 0);
        }
    }
    EXPECT_GT(measured, 0);
    EXPECT_FALSE(t.known);
    EXPECT_LE(fake.records, 2 * TUNE_EVENTS);
    EXPECT_EQ(fake.last, cudaSuccess); // "not ready" was taken away
}

TEST_F(TuneEvents, LateOnesCountOnceReady) {
    for (int i = 0; i < 3000; i++) {
        fake.late = i % 40 < 30;
        if (!fake.late) fake.pending.clear();
        launch();
    }
    EXPECT_EQ(t.best, 1);
    EXPECT_TRUE(t.known);
}

TEST_F(TuneEvents, AnErrorOfTheCallersStaysTheCallers) {
    launch();
    launch();
    fake.late = true;
    launch();
    ASSERT_GT(ring.waiting, 0);
    fake.last = cudaErrorInvalidValue;
    tune_launch next;
    EXPECT_EQ(tune_events_begin(&ring, &t, nullptr, &next), cudaErrorInvalidValue);
    EXPECT_EQ(next.candidate, t.best);
    EXPECT_EQ(tune_events_end(&ring, &t, nullptr, 1), cudaSuccess);
    EXPECT_EQ(fake.last, cudaErrorInvalidValue);
}

TEST_F(TuneEvents, FailuresAreReturnedAndAreNoSamples) {
    tune_launch next = launch();
    while (next.ticket < 0) next = launch();
    fake.fail_queries = true;
    EXPECT_EQ(tune_events_begin(&ring, &t, nullptr, &next), cudaErrorUnknown);
    EXPECT_EQ(ring.waiting, 0);
    EXPECT_EQ(tune_events_end(&ring, &t, nullptr, 1), cudaSuccess);
    fake.fail_queries = false;
    fake.last = cudaSuccess;
    fake.fail_records = true;
    t.interval = 1; // one race after another ends without a time
    int failures = 0;
    for (int i = 0; i < 20; i++) {
        failures += tune_events_begin(&ring, &t, nullptr, &next) == cudaErrorUnknown;
        EXPECT_EQ(tune_events_end(&ring, &t, nullptr, 1), cudaSuccess);
    }
    EXPECT_GE(failures, 8);
    EXPECT_EQ(ring.waiting, 0);
    for (auto &record : t.records) EXPECT_EQ(record.samples, 0);
}

TEST(TuneEventsOpen, LeavesNothingAfterAFailure) {
    fake = {};
    fake.fail_creation = 77;
    tune_events ring;
    EXPECT_EQ(tune_events_open(&ring), cudaErrorMemoryAllocation);
    EXPECT_TRUE(fake.live.empty());
    EXPECT_EQ(tune_events_close(&ring), cudaSuccess);
}

} // namespace
