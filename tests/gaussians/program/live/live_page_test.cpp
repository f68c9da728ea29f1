// SPDX-License-Identifier: MIT
// dsplat train --view: training goes on whatever clients do, but for the page's buttons. dsplat view: the page follows the
// file.
#include "live/exported_page.h"
#include "live/page_client.h"
#include "live/live_page.h"
#include "cli/progress.h"
#include "distwar_gs.h"
#include <atomic>
#include <thread>

namespace {

#ifdef DSPLAT_MICROHTTPD

struct shown_scene {
    json facts;
    size_t gaussians, harmonics; // bytes
    static uint32_t length(const std::string &body, size_t at) {
        uint32_t value = 0;
        for (int byte = 0; byte < 4; byte++) value |= uint32_t(uint8_t(body[at + size_t(byte)])) << 8 * byte;
        return value;
    }
    explicit shown_scene(const std::string &body)
        : facts(body.substr(8, length(body, 0))), gaussians(length(body, 4)),
          harmonics(body.size() - 8 - length(body, 0) - gaussians) {}
};

// A training whose steps do nothing for a millisecond.
struct LivePage : testing::Test, page_address {
    training_state state = {};
    training_report report = {};
    run_record record = {};
    ranks *group = ranks_alone_open();
    std::unique_ptr<one_view_page> shown;
    live_page *page = nullptr;
    volatile sig_atomic_t end = 0;
    // The thread that trains, and what it tells:
    std::thread thread;
    std::atomic<bool> over{false};
    std::atomic<int64_t> steps{0};
    std::atomic<double> slowest{0};
    std::atomic<double> watched{0}; // seconds in the observer
    std::atomic<int> copies{0};

    void train(int64_t count, int64_t most, double patience) {
        fault why;
        const host_scene host = random_scene(count, 3, 1);
        training_state_open(&state, group, &host);
        shown = std::make_unique<one_view_page>(host, "title");
        live_page_options options = {};
        options.listen = "127.0.0.1:0";
        options.content = shown->content;
        options.content.scene = nullptr, options.content.total = 0;
        options.training = true;
        options.most = most;
        options.patience = patience;
        page = live_page_start(&options, &why);
        ASSERT_NE(page, nullptr) << why.text;
        static_cast<page_address &>(*this) = page_address(page_server_url(live_page_server(page)));
        report.first_iteration = 1;
        thread = std::thread([this] {
            while (!over) step();
        });
    }
    void step() {
        fault why;
        const double began = seconds_now();
        run_point point = {};
        point.iteration = report.iterations = ++state.place.views;
        point.loss = 0.5;
        EXPECT_TRUE(run_record_add(&record, &point, &why));
        if (live_page_wants(page)) {
            EXPECT_TRUE(live_page_observe(page, &state, &report, &record, &end, &why)) << why.text;
            copies++;
            watched = watched + seconds_now() - began;
        }
        slowest = std::max(double(slowest), seconds_now() - began);
        steps++;
        usleep(1000);
    }
    void stop() {
        over = true;
        end = 1;
        if (thread.joinable()) thread.join();
    }
    void TearDown() override {
        stop();
        live_page_stop(page);
        training_state_close(&state);
        ranks_alone_close(group);
        run_record_close(&record);
    }
    json status() const { return json(ask("status").body); }
    bool has_scene(double version) const {
        return soon([&] { return status()["version"].number() >= version; });
    }
    // Trains, and a browser asks, until it has a scene.
    void show(int64_t count, int64_t most, double patience) {
        train(count, most, patience);
        EXPECT_TRUE(has_scene(1));
    }
    bool goes_on() const {
        const int64_t before = steps;
        return soon([&] { return steps > before + 20; });
    }
    // And the page is served meanwhile: the next scene comes, twice, before SERVER_SILENCE ends others' connections.
    bool goes_on_and_shows() const {
        const double version = status()["version"].number();
        return soon([&] { return status()["version"].number() >= version + 2; }, SERVER_SILENCE - 2) &&
               goes_on();
    }
};

TEST_F(LivePage, CopiesNothingWhileNobodyLooks) {
    train(50, 1000, 60);
    EXPECT_EQ(ask("").status, "200"); // the page alone asks for nothing
    EXPECT_CONTAINS(ask("").body, "\"live\": true");
    EXPECT_TRUE(goes_on());
    EXPECT_EQ(copies, 0);
    EXPECT_EQ(ask("scene").status, "404");
}

TEST_F(LivePage, GivesTheSceneToWhoAsks) {
    train(50, 1000, 60);
    EXPECT_TRUE(goes_on()); // a curve has two points
    EXPECT_TRUE(has_scene(1));
    const answer_of answer = ask("scene");
    ASSERT_EQ(answer.status, "200");
    const shown_scene scene(answer.body);
    EXPECT_EQ(scene.facts["count"].number(), 50);
    EXPECT_EQ(scene.facts["degree"].number(), 3);
    EXPECT_EQ(scene.facts["curves"].at(0)["series"].at(0)["y"].at(0).number(), 0.5);
    EXPECT_GT(scene.gaussians, 300u);
    EXPECT_GT(scene.harmonics, 1000u);
    for (const char *name : {"none", "scenes", "status/", "pause"})
        EXPECT_EQ(ask(name).status, "404") << name;
    EXPECT_EQ(ask("status", "POST").status, "404");
}

// Until LIVE_PAGE_REST times as long as a copy took there is no other one.
TEST_F(LivePage, ThinsAndRests) {
    show(4000, 1000, 60);
    EXPECT_TRUE(soon([&] { return watched > 0; }));
    const double rest = 0.5 * LIVE_PAGE_REST * watched;
    for (const double start = seconds_now(); seconds_now() < start + std::min(rest, 2.0); usleep(100000))
        status();
    EXPECT_EQ(copies, 1);
    const shown_scene scene(ask("scene").body);
    EXPECT_EQ(scene.facts["count"].number(), 1000);
    EXPECT_EQ(scene.facts["total"].number(), 4000);
}

TEST_F(LivePage, PausesStepsAndGoesOn) {
    train(50, 1000, 60);
    EXPECT_EQ(ask("pause").status, "404"); // GET changes nothing
    EXPECT_EQ(ask("pause", "POST").status, "200");
    EXPECT_TRUE(soon([&] { return status()["paused"].is(true); }));
    usleep(200000);
    const int64_t waits = steps;
    EXPECT_EQ(status()["iteration"].number(), double(waits + 1)); // it waits in the observer
    EXPECT_TRUE(has_scene(1));                                    // the page has the scene as it is
    EXPECT_EQ(ask("step", "POST").status, "200");
    EXPECT_TRUE(soon([&] { return steps == waits + 1; }));
    usleep(200000);
    EXPECT_EQ(steps, waits + 1);
    EXPECT_EQ(ask("resume", "POST").status, "200");
    EXPECT_TRUE(goes_on());
    EXPECT_TRUE(status()["paused"].is(false));
}

// It asks for more scenes than the system holds for it, and takes nothing of them.
TEST_F(LivePage, SlowClientsDoNotStallTraining) {
    show(12000, 30000, 60);
    sleep(1); // so that SERVER_REQUESTS allows them
    const connection slow(port, 4096);
    for (int i = 0; i < 10; i++) slow.send("GET " + path + "scene HTTP/1.1\r\nHost: localhost\r\n\r\n");
    sleep(1);
    EXPECT_TRUE(goes_on_and_shows());
    EXPECT_LT(slowest, 2);
    EXPECT_GT(ask("scene").body.size(), 450000u); // what it has asked for
}

// It goes away within an answer, and with training paused. docs/share.md says after how many seconds a pause ends.
TEST_F(LivePage, VanishedClientsDoNotStallTraining) {
    EXPECT_EQ(int(LIVE_PAGE_PATIENCE), 150);
    show(2000, 3000, 0.5);
    for (int i = 0; i < 5; i++)
        connection(port, 4096).send("GET " + path + "scene HTTP/1.1\r\nHost: localhost\r\n\r\n");
    EXPECT_TRUE(goes_on_and_shows());
    {
        const connection vanishes(port);
        vanishes.send("POST " + path + "pause HTTP/1.1\r\nHost: localhost\r\nContent-Length: 0\r\n\r\n");
        EXPECT_TRUE(vanishes.has_answer(5000));
    }
    usleep(100000);
    const int64_t paused = steps;
    usleep(100000);
    EXPECT_EQ(steps, paused);
    EXPECT_TRUE(goes_on());
}

TEST_F(LivePage, AnOpenPageGetsTheLastScene) {
    show(50, 1000, 60);
    stop();
    fault why;
    ASSERT_TRUE(live_page_finish(page, &state, &report, &record, &why)) << why.text;
    std::thread asks([this] {
        EXPECT_TRUE(has_scene(2));
        EXPECT_EQ(ask("scene").status, "200");
    });
    const double start = seconds_now();
    live_page_stop(page);
    page = nullptr;
    EXPECT_LT(seconds_now() - start, 2.9); // not until nobody takes it
    asks.join();
}

// As a user has it: the page's address is printed, and a stop writes the scene and a checkpoint.
TEST_F(Program, TrainingIsViewedAndStopped) {
    write_colmap(at("data"), 20);
    const viewed_training training(folder,
                                   {"train", at("data"), "-o", at("scene.ply"), "--iterations", "1000000"});
    EXPECT_TRUE(soon([&] {
        const answer_of answer = training.ask("status");
        return answer.status == "200" && json(answer.body)["version"].number() >= 1;
    }));
    const shown_scene scene(training.ask("scene").body);
    EXPECT_EQ(scene.facts["count"].number(), 20);
    EXPECT_EQ(contents(at("out")).find("no GPU: about ") != std::string::npos,
              std::string(gs_backend()) == "simt");
    const json facts(training.ask("stop", "POST").body);
    EXPECT_EQ(facts["iterations"].number(), 1000000);
    EXPECT_EQ(training.wait(), 128 + SIGINT) << contents(at("err"));
    EXPECT_TRUE(fs::exists(at("scene.ply")));
    EXPECT_TRUE(fs::exists(at("scene.ply.checkpoint")));
    refuses({{"train @data -o @b.ply --view --gpus 2", 2, "--gpus excludes --view"},
             {"train @data -o @b.ply --view --listen here", 1, "--listen here"}});
}

// The page gets the scene as it is now, and keeps it while the file is none.
TEST_F(Program, AViewFollowsItsFile) {
    write_scene(at("scene.ply"), 5, 0, 0, 3);
    const viewed_training view(folder, {"view", at("scene.ply"), "--listen", "127.0.0.1:0"});
    const auto count = [&] { return shown_scene(view.ask("scene").body).facts["count"].number(); };
    const auto follows = [&](double expected) {
        const auto version = [&] { return json(view.ask("status").body)["version"].number(); };
        return soon([&] { return version() >= expected; }) && version() == expected;
    };
    EXPECT_TRUE(follows(1));
    EXPECT_EQ(count(), 5);
    const answer_of page = view.ask("");
    EXPECT_EQ(page.status, "200");
    EXPECT_CONTAINS(page.body, "\"title\": \"scene.ply\"");
    EXPECT_CONTAINS(contents(at("out")), "Control-C ends it.");
    EXPECT_FALSE(json(view.ask("status").body).has("iteration"));
    EXPECT_EQ(view.ask("stop", "POST").status, "404"); // nothing is trained
    std::ofstream(at("scene.ply")) << "no scene";
    EXPECT_TRUE(soon([&] { return !contents(at("err")).empty(); }));
    EXPECT_CONTAINS(contents(at("err")), "the page keeps what it had");
    write_scene(at("scene.ply"), 7, 0, 0, 3);
    EXPECT_TRUE(follows(2));
    EXPECT_EQ(count(), 7);
    view.interrupt();
    EXPECT_EQ(view.wait(), 0);
    const std::string said = contents(at("out"));
    EXPECT_CONTAINS(said, "scene.ply: 5 Gaussians, 1 view, 0.1 MB\n");
    EXPECT_CONTAINS(said, "scene.ply: 7 Gaussians, 1 view, 0.1 MB\n");
}

#endif

} // namespace
