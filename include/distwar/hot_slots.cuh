// SPDX-License-Identifier: MIT
// hot_slots: sums in shared memory for the keys that come most often; all other keys go straight to memory.
//
// For keys with skew (Zipf): gradients of embeddings, group-by, histograms. The hot keys need not be known: a
// block finds them while it runs. The sums are right for any keys.
//
// How a key gets a slot. The key's hash names one slot. A key that arrives at a slot without an owner becomes its
// candidate and goes to memory. If it arrives again before another key does, it owns the slot until flush(). So a key
// wins with the square of its frequency: of a key in 1% of all adds and 100 others in 0.01% each, all at one slot, the
// first wins with probability 0.01^2 / (0.01^2 + 100 * 0.0001^2) = 99%.
#ifndef DISTWAR_HOT_SLOTS_CUH
#define DISTWAR_HOT_SLOTS_CUH

#include "block.cuh"

namespace distwar {

// N slots of K sums in shared memory.
//   N     a power of two
//   K, T  the values: float, double or an integer of 4 or 8 bytes
//   Key   an integer of 4 or 8 bytes. Calls may pass keys of any other. Keys from 2^31 - 1 (8 bytes: 2^63 - 1) on, and
//         negative ones, never own a slot
// Size: N (K sizeof(T) + sizeof(Key)) bytes.
// Example (one warp, `lane` its lane, arrays of zeros):
//     __shared__ distwar::hot_slots<64, 1> hot;
//     hot.clear();
//     const distwar::record<float> table = {sums, 1};
//     for (int i = 0; i < 10; ++i)
//         distwar::reduce(distwar::all_lanes, lane % 2 || lane < 4, lane % 2 ? 1 : lane, 1.0f, hot.sink(table));
//     hot.flush(table);
//     // sums: 10, 160, 10
template <int N, int K, typename T = float, typename Key = int>
struct hot_slots {
    static_assert(N >= 1 && (N & (N - 1)) == 0, "distwar: the number of hot slots is a power of two");
    static_assert(detail::is_integer<Key>, "distwar: the key must be an integer of 4 or 8 bytes");
    static_assert(detail::is_value<T> && !detail::is_packed<T>,
                  "distwar: hot slots sum float, double or integers of 4 or 8 bytes");
    using word = detail::bits_of<Key>;

    // 0: free. 2 (key + 1): the key is the candidate. 2 (key + 1) + 1: the key owns the slot.
    word state[N];
    T sum[N][K];

    // Frees all slots. All threads of the block call, before the first add. Cost: 1 barrier.
    DISTWAR_DEVICE void clear() {
        for (int i = block_rank(); i < N; i += block_size()) state[i] = 0;
        for (int i = block_rank(); i < N * K; i += block_size()) sum[i / K][i % K] = T(0);
        detail::sync_block();
    }

    // A sink for any reduce_* and for add() by a single thread, between clear() and flush().
    //   to  a sink of T addressed by key (sink.cuh), the same one in all calls until flush()
    // Cost of a commit: 1 load from shared memory, and the atomics, in shared memory or those of `to`; at a slot that
    // nobody owns also 1 compare-and-swap in shared memory.
    template <typename Sink>
    DISTWAR_DEVICE auto sink(const Sink &to) {
        static_assert(detail::is_addressed_by_key<Sink, Key, T>,
                      "distwar: hot slots need a sink addressed by key");
        static_assert(detail::is_same<detail::sink_operator<Sink>, distwar::add>,
                      "distwar: hot slots take no operator but add");
#if DISTWAR_PTX
        return sink_of_slots<Sink>{__cvta_generic_to_shared(this), to};
#else
        return sink_of_slots<Sink>{reinterpret_cast<size_t>(this), to};
#endif
    }

    // Adds the sums of all slots to the sink that sink() was given, and frees the slots for other keys: in a long
    // kernel whose hot keys change, call it now and then. All threads of the block call.
    // Cost: 3 barriers; one add_one for each sum that is not 0, spread over the threads.
    template <typename Sink>
    DISTWAR_DEVICE void flush(const Sink &to) {
        detail::sync_block();
        for (int i = block_rank(); i < N * K; i += block_size()) {
            const T total = sum[i / K][i % K];
            if (total != T(0)) to.add_one(Key((state[i / K] >> 1) - 1), i % K, total);
        }
        detail::sync_block();
        clear();
    }

  private:
    // What sink() returns: a sink that adds to a slot if the key owns one, else to the sink `to`.
    template <typename Sink>
    struct sink_of_slots {
        // Not a pointer. nvcc 13.0 takes all pointers of a struct for pointers to shared memory if one of them is: it
        // then adds to `to` by shared atomics (seen in PTX for sm_90: atom.shared with the address of `to`).
        size_t address; // in shared memory
        Sink to;

        template <typename AnyKey, typename V>
        DISTWAR_DEVICE void add(AnyKey key, const V (&values)[K]) const {
            static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
            if (may_own(key) && slots().arrive(Key(key))) {
                DISTWAR_UNROLL
                for (int k = 0; k < K; ++k)
                    distwar::atomic_add<scope::block>(&slots().sum[slot_of(Key(key))][k], T(values[k]));
            } else {
                to.add(key, values);
            }
        }
        // The lane with value 0 stands for the key's arrival. The others only look: each value may go either way.
        template <typename AnyKey, typename V>
        DISTWAR_DEVICE void add_one(AnyKey key, int k, V given) const {
            static_assert(detail::takes_values<T, V>, "distwar: the values have another type than the sink");
            const int slot = slot_of(Key(key));
            if (may_own(key) &&
                (k == 0 ? slots().arrive(Key(key)) : slots().load(slot) == candidate(Key(key)) + 1))
                distwar::atomic_add<scope::block>(&slots().sum[slot][k], T(given));
            else
                to.add_one(key, k, given);
        }
        __device__ bool has_room(int count) const {
            if constexpr (detail::knows_room<Sink>) return to.has_room(count);
            return true;
        }

      private:
        DISTWAR_DEVICE hot_slots &slots() const {
#if DISTWAR_PTX
            return *static_cast<hot_slots *>(__cvta_shared_to_generic(address));
#else
            return *reinterpret_cast<hot_slots *>(address);
#endif
        }
    };

    // Neighbouring keys get different slots, and so do most keys at any distance.
    static DISTWAR_DEVICE int slot_of(Key key) {
        const unsigned long long mixed = static_cast<word>(key) * 0x9e3779b97f4a7c15ull;
        return int(mixed >> 32) & (N - 1);
    }
    // Whether the key can be told from all others by a word of the slot; one of a wider type that does not fit cannot.
    template <typename AnyKey>
    static DISTWAR_DEVICE bool may_own(AnyKey key) {
        using wide = detail::bits_of<AnyKey>;
        return static_cast<wide>(key) < (sizeof(AnyKey) < sizeof(Key) ? wide(-1) / 2 : wide(word(-1) / 2));
    }
    static DISTWAR_DEVICE word candidate(Key key) {
        return 2 * (static_cast<word>(key) + 1);
    }
    DISTWAR_DEVICE word load(int slot) const {
        return *static_cast<const volatile word *>(&state[slot]);
    }

    // Whether the key owns its slot, perhaps from now on.
    DISTWAR_DEVICE bool arrive(Key key) {
        const int slot = slot_of(key);
        const word seen = load(slot), named = candidate(key), owned = named + 1;
        if (seen == owned) return true;
        if (seen & 1) return false;
        const word wanted = seen == named ? owned : named;
        const word found = detail::compare_and_swap<scope::block>(&state[slot], seen, wanted);
        return found == owned || (found == seen && wanted == owned);
    }
};

} // namespace distwar

#endif
