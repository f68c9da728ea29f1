// SPDX-License-Identifier: MIT
// Refusals: finds why no lane can run, and describes the state of every lane concerned.
#include "block.h"

#include <cstdio>
#include <utility>
#include <vector>

namespace simt {

std::string lanes_text(unsigned mask) {
    std::string text = mask & (mask - 1) ? "lanes " : "lane ";
    const char *separator = "";
    for (unsigned first = 0; first < 32; first++) {
        if (!(mask >> first & 1)) continue;
        unsigned last = first;
        while (last < 31 && mask >> (last + 1) & 1) last++;
        text += separator + std::to_string(first);
        if (last > first) text += "-" + std::to_string(last);
        separator = ", ";
        first = last;
    }
    return text;
}

std::string hex_text(unsigned mask) {
    char text[16];
    std::snprintf(text, sizeof text, "0x%08x", mask);
    return text;
}

std::string kind_text(Kind kind) {
#define SIMT_NAME(name) #name,
    static const char *const names[] = {SIMT_COLLECTIVES(SIMT_NAME)};
#undef SIMT_NAME
    static const char *const types[] = {
        "", "(int)", "(unsigned)", "(long long)", "(unsigned long long)", "(float)", "(double)"};
    const Collective c = kind.collective;
    return std::string(c == Collective::coalesced_threads ? "" : "__") + names[unsigned(c)] +
           (c >= Collective::shfl && c <= Collective::reduce_xor ? "_sync" : "") + types[unsigned(kind.type)];
}

static std::string triple(uint3 v) {
    return "(" + std::to_string(v.x) + ", " + std::to_string(v.y) + ", " + std::to_string(v.z) + ")";
}

std::string Block::describe_lane(const Lane &caller, const Lane &lane) const {
    const Warp &warp = *lane.warp;
    const Place place = warp.place[lane.index];
    const auto text = [](Place p) { return p.file + (":" + std::to_string(p.line)); };
    const std::string where = !place.file ? ""
                              : lane.call.file && text(lane.call) != text(place)
                                  ? text(lane.call) + " (" + text(place) + ")"
                                  : text(place);
    if (warp.exited & lane.bit) return where.empty() ? "exited" : "exited, last seen at " + where;
    if (warp.at_barrier & lane.bit) return "waits at " + kind_text(warp.kind[lane.index]) + ", " + where;
    for (unsigned g = 0; g < warp.groups; g++) {
        const Group &group = warp.group[g];
        if (group.arrived & lane.bit)
            return "waits at " + kind_text(group.kind) + " with mask " + hex_text(group.mask) + ", " + where;
    }
    if (&lane == &caller) return "running, " + where;
    if (!where.empty()) return "ready to run, last seen at " + where;
    return lane.context.point ? "ready to run" : "not started";
}

// One line for all lanes in the same state; warps whose lanes have equal states share lines.
std::string Block::describe_lanes(const Lane &caller, Scope scope) const {
    struct Entry {
        std::string text;
        unsigned lanes, warps;
    };
    std::vector<Entry> entries;
    for (unsigned w = 0; w < warps_; w++) {
        if (scope == Scope::warp && w != caller.warp->index) continue;
        std::vector<Entry> own;
        for (unsigned l = 0; l < lanes_per_warp; l++) {
            const Lane &lane = warp_[w].lane[l];
            if (!(lane.warp->existing & lane.bit)) break;
            const std::string text = describe_lane(caller, lane);
            Entry *same = nullptr;
            for (Entry &e : own)
                if (e.text == text) same = &e;
            if (same)
                same->lanes |= lane.bit;
            else
                own.push_back({text, lane.bit, 1u << w});
        }
        for (Entry &o : own) {
            Entry *same = nullptr;
            for (Entry &e : entries)
                if (e.text == o.text && e.lanes == o.lanes) same = &e;
            if (same)
                same->warps |= o.warps;
            else
                entries.push_back(std::move(o));
        }
    }
    std::string text;
    for (const Entry &e : entries) {
        std::string warps = lanes_text(e.warps);
        warps.replace(0, 4, "warp"); // "lanes 0-3" -> "warps 0-3"
        text += "  " + warps + ", " + lanes_text(e.lanes) + ": " + e.text + "\n";
    }
    return text;
}

void Block::abandon() {
    refused_ = true;
    leave_to(os_thread_);
}

void Block::report(const Lane &lane, const std::string &reason, Scope scope) {
    launch_->refuse(index_, "simt: refused: " + reason + "\n  kernel " + symbol_name(launch_->kernel) +
                                "\n  block " + triple(block_) + " of grid " +
                                triple(launch_->config.gridDim) + ", " + triple(launch_->config.blockDim) +
                                " threads\n" + describe_lanes(lane, scope));
}

// A group can never complete if it waits for an exited lane, or if another group waits for one of its lanes
// while it waits for one of theirs.
void Block::report_stuck(const Lane &lane, const std::string &otherwise) {
    unsigned at_barrier = 0, exited = 0, kinds = 0;
    for (unsigned w = 0; w < warps_; w++) {
        const Warp &warp = warp_[w];
        const Lane &first = *warp.lane;
        for (unsigned g = 0; g < warp.groups; g++) {
            const Group &a = warp.group[g];
            for (unsigned h = 0; h < g; h++) {
                const Group &b = warp.group[h];
                if (!(a.arrived & b.mask) || !(b.arrived & a.mask)) continue;
                report(first, std::string("lanes wait for each other ") +
                                  (a.mask != b.mask ? "with different masks" : "at different collectives") +
                                  ": warp " + std::to_string(w) + ", " + lanes_text(b.arrived) + " and " +
                                  lanes_text(a.arrived));
                return;
            }
        }
        for (unsigned g = 0; g < warp.groups; g++) {
            const Group &group = warp.group[g];
            if (!(group.mask & warp.exited)) continue;
            report(first, "a mask contains exited lanes: warp " + std::to_string(w) + ", " +
                              lanes_text(group.arrived) + " at " + kind_text(group.kind) +
                              " cannot wait for " + lanes_text(group.mask & warp.exited));
            return;
        }
        for (unsigned l = 0; l < lanes_per_warp; l++)
            if (warp.at_barrier >> l & 1) kinds |= 1u << unsigned(warp.kind[l].collective);
        at_barrier |= warp.at_barrier;
        exited |= warp.exited;
    }
    const char *const divergent =
        kinds & (kinds - 1)    ? "lanes of the block wait at different kinds of barrier"
        : at_barrier && exited ? "some lanes of the block wait at it, others have exited"
                               : "some lanes of the block wait at it, others wait elsewhere";
    report(lane, at_barrier ? std::string("a divergent barrier: ") + divergent : otherwise, Scope::block);
}

} // namespace simt
