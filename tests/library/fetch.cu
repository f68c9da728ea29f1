// SPDX-License-Identifier: MIT
// Counters that return: each lane gets what it would get if lanes added one after another; slots of queues
// are given out once, in order, and never past the capacity.

#include "calls.cuh"
#include <distwar/queue.cuh>

using distwar::all_lanes;
using distwar::no_slot;
using distwar::scope;
using distwar::uniform_key;

namespace {

enum { MADE = 300, SCHEDULES = 6 }; // calls
const unsigned untouched = 0xabcdef01;

// Warp w makes the call calls[w] on its own counters; with Ones each lane adds 1, not its value.
template <bool Ones, typename Key, typename T>
__global__ void fetch(const warp_call *calls, const T *values, T *counters, T *results) {
    const warp_call &call = calls[blockIdx.x];
    const unsigned lane = threadIdx.x, at = blockIdx.x * 32 + lane;
    if (!(call.lanes >> lane & 1)) return;
    const bool active = call.active >> lane & 1;
    const auto key = key_as<Key>::of(call.key[lane]);
    T *const own = counters + blockIdx.x * KEYS;
    T result;
    if constexpr (Ones)
        result = distwar::fetch_add(call.lanes, active, key, own);
    else
        result = distwar::fetch_add(call.lanes, active, key, values[at], own);
    if (active) results[at] = result;
}

template <bool Ones, typename Key, typename T>
void check_fetch(draw &random) {
    const std::vector<warp_call> calls = draw_calls(random, MADE, key_as<Key>::one);
    std::vector<T> values(MADE * 32), counters(MADE * KEYS), results(MADE * 32, T(untouched));
    for (T &value : values) value = T((unsigned long long)random.bits() << random.below(33)); // sums wrap
    for (T &counter : counters) counter = T((unsigned long long)random.bits() << random.below(33));
    using bits = std::make_unsigned_t<T>;
    std::vector<T> expected = counters, expected_results = results;
    for (int i = 0; i < MADE; ++i)
        for (int lane = 0; lane < 32; ++lane) {
            if (!(calls[i].active >> lane & 1)) continue;
            T &counter = expected[i * KEYS + calls[i].key[lane]];
            expected_results[i * 32 + lane] = counter;
            counter = T(bits(counter) + bits(Ones ? T(1) : values[i * 32 + lane]));
        }
    const device_array<warp_call> device_calls(calls);
    const device_array<T> device_values(values), device_counters(counters), device_results(results);
    run(MADE, 32, fetch<Ones, Key, T>, device_calls.get(), device_values.get(), device_counters.get(),
        device_results.get());
    EXPECT_EQ(device_counters.download(), expected);
    const std::vector<T> found = device_results.download();
    for (int i = 0; i < MADE * 32; ++i)
        ASSERT_EQ(found[i], expected_results[i]) << "lane " << i % 32 << ": " << calls[i / 32];
}

template <bool Ones>
void check_types() {
    draw random(1 + Ones);
    under_schedules(SCHEDULES, [&] {
        check_fetch<Ones, int, unsigned>(random);
        check_fetch<Ones, unsigned long long, int>(random);
        check_fetch<Ones, long long, unsigned long long>(random);
        check_fetch<Ones, unsigned, long long>(random);
        check_fetch<Ones, unsigned long, long>(random);
        check_fetch<Ones, long, unsigned long>(random);
        check_fetch<Ones, uniform_key<int>, unsigned>(random);
        check_fetch<Ones, uniform_key<long long>, long long>(random);
    });
}

TEST(FetchAdd, ReturnsWhatEachLaneFoundInTheOrderOfLanes) {
    check_types<false>();
    check_types<true>(); // ones: consecutive numbers
}

// Many warps meet at a few counters, at every scope, in shared memory or not.
enum { CROWD_KEYS = 3, CROWD_BLOCK = 96 };
template <scope S, bool Shared>
__global__ void fetch_in_crowd(unsigned threads, unsigned *counters, unsigned *results) {
    __shared__ unsigned shared[CROWD_KEYS];
    if (threadIdx.x < CROWD_KEYS) shared[threadIdx.x] = 0;
    __syncthreads();
    const unsigned thread = blockIdx.x * blockDim.x + threadIdx.x, key = thread * 7 / 5 % CROWD_KEYS;
    const unsigned result =
        distwar::fetch_add<S>(all_lanes, thread < threads, key, Shared ? shared : counters);
    if (thread < threads) results[thread] = result;
    __syncthreads();
    if (Shared && threadIdx.x < CROWD_KEYS) counters[threadIdx.x] = shared[threadIdx.x];
}
template <scope S, bool Shared>
void check_crowd(int blocks) {
    const unsigned threads = unsigned(blocks) * CROWD_BLOCK - 5;
    const device_array<unsigned> counters(CROWD_KEYS, {});
    const device_array<unsigned> results(threads, untouched);
    run(blocks, CROWD_BLOCK, fetch_in_crowd<S, Shared>, threads, counters.get(), results.get());
    const std::vector<unsigned> found = results.download(), counted = counters.download();
    for (unsigned key = 0; key < CROWD_KEYS; ++key) {
        std::vector<unsigned> numbers, wanted;
        for (unsigned thread = 0; thread < threads; ++thread)
            if (thread * 7 / 5 % CROWD_KEYS == key) {
                wanted.push_back(unsigned(wanted.size()));
                numbers.push_back(found[thread]);
            }
        std::sort(numbers.begin(), numbers.end());
        EXPECT_EQ(numbers, wanted) << "key " << key;
        EXPECT_EQ(counted[key], wanted.size());
    }
}
TEST(FetchAdd, OfManyWarpsGivesEachNumberOnce) {
    under_schedules(SCHEDULES, [] {
        check_crowd<scope::block, false>(1);
        check_crowd<scope::device, false>(20);
        check_crowd<scope::system, false>(20);
        check_crowd<scope::block, true>(1);
        check_crowd<scope::device, true>(1);
    });
}

// Queues that are too small: no item is lost but for want of room, none is written past the end.
enum { QUEUES = 4, ROOM = 50, THREADS = 320 };
struct item_of_12_bytes {
    int number, twice, thrice;
};
template <bool OneQueue, typename Count>
__global__ void append_items(unsigned lanes, Count capacity, item_of_12_bytes *items, Count *counts,
                             Count *slots) {
    const int thread = int(blockIdx.x * blockDim.x + threadIdx.x);
    if (!(lanes >> threadIdx.x % 32 & 1)) return;
    const item_of_12_bytes item = {thread, 2 * thread, 3 * thread};
    const distwar::queue<item_of_12_bytes, Count> to = {items, counts, capacity};
    if constexpr (OneQueue)
        slots[thread] = distwar::append(lanes, thread % 5 != 0, uniform_key{0}, item, to);
    else
        slots[thread] = distwar::append(lanes, thread % 5 != 0, thread % QUEUES, item, to);
}
template <bool OneQueue, typename Count>
void check_append(unsigned lanes, Count capacity) {
    const int queues = OneQueue ? 1 : QUEUES;
    const device_array<item_of_12_bytes> items(queues * capacity + 1, {-1, -1, -1});
    const device_array<Count> counts(QUEUES, {});
    const device_array<Count> slots(THREADS, Count(untouched));
    run(THREADS / 64, 64, append_items<OneQueue, Count>, lanes, capacity, items.get(), counts.get(),
        slots.get());
    const std::vector<item_of_12_bytes> stored = items.download();
    const std::vector<Count> slot = slots.download(), count = counts.download();
    std::vector<Count> asked(QUEUES, 0), before(QUEUES, 0); // slots of a warp rise
    std::vector<int> owner(queues * capacity + 1, -1);      // the thread whose item lies there
    for (int thread = 0; thread < THREADS; ++thread) {
        if (thread % 32 == 0) before.assign(QUEUES, 0);
        if (!(lanes >> thread % 32 & 1)) {
            EXPECT_EQ(slot[thread], Count(untouched));
            continue;
        }
        if (thread % 5 == 0) {
            EXPECT_EQ(slot[thread], no_slot<Count>);
            continue;
        }
        const int q = OneQueue ? 0 : thread % QUEUES;
        ++asked[q];
        if (slot[thread] == no_slot<Count>) {
            EXPECT_GT(count[q], capacity);
            continue;
        }
        ASSERT_LT(slot[thread], capacity);
        int &place = owner[q * capacity + slot[thread]];
        EXPECT_EQ(place, -1) << "two items in slot " << slot[thread];
        place = thread;
        EXPECT_GE(slot[thread], before[q]) << "not in the order of lanes";
        before[q] = slot[thread] + 1;
    }
    EXPECT_EQ(count, asked);
    for (int q = 0; q < queues; ++q)
        for (Count i = 0; i < capacity; ++i)
            EXPECT_EQ(owner[q * capacity + i] >= 0, i < std::min(asked[q], capacity))
                << "slots without holes";
    for (size_t place = 0; place < stored.size(); ++place) { // the last one is past the end
        EXPECT_EQ(stored[place].number, owner[place]);
        EXPECT_EQ(stored[place].thrice, owner[place] < 0 ? -1 : 3 * owner[place]);
    }
}
TEST(Append, NeverWritesPastTheCapacity) {
    for (int schedule = 0; schedule < SCHEDULES; ++schedule) {
        set_schedule(schedule);
        for (const unsigned lanes : {all_lanes, 0x0ff7f00fu}) {
            check_append<false, unsigned>(lanes, ROOM); // less than the 64 that one queue is given
            check_append<false, unsigned>(lanes, 0);
            check_append<false, unsigned>(lanes, THREADS);
            check_append<true, unsigned>(lanes, ROOM);
            check_append<true, unsigned>(lanes, THREADS);
            check_append<false, unsigned long long>(lanes, ROOM);
            check_append<true, unsigned long long>(lanes, ROOM);
        }
    }
}

} // namespace
