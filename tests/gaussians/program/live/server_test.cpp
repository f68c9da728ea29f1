// SPDX-License-Identifier: MIT
// dsplat view: who does not know the token, or asks through another site, gets nothing; nobody stalls the others.
#include "live/page_client.h"
#include "live/server.h"
#include <chrono>

namespace {

#ifdef DSPLAT_MICROHTTPD

struct Server : testing::Test, page_address {
    const std::string page = std::string(3000000, 'x') + "end";
    page_server *server = nullptr;

    // Beside the page, "other" takes POST.
    static bool answer(void *context, const char *name, bool post, page_answer *out) {
        const std::string &page = *static_cast<const std::string *>(context);
        *out = page_answer{page.data(), page.size(), "text/html; charset=utf-8", nullptr};
        return strcmp(name, post ? "other" : "") == 0;
    }
    page_site site() const { return {answer, const_cast<std::string *>(&page)}; }

    void SetUp() override {
        fault why;
        const page_site all = site();
        server = page_server_start(&all, "127.0.0.1:0", &why);
        ASSERT_NE(server, nullptr) << why.text;
        static_cast<page_address &>(*this) = page_address(page_server_url(server));
        EXPECT_EQ(port, page_server_port(server));
        ASSERT_EQ(path.size(), 34u);
    }
    void TearDown() override { page_server_stop(server); }

    std::string status(const std::string &method, const std::string &target,
                       const std::string &headers) const {
        return answer_of(port, method, target, headers).status;
    }
    std::string local() const { return "Host: 127.0.0.1:" + std::to_string(port) + "\r\n"; }
};

TEST_F(Server, GivesThePageToWhoKnowsTheToken) {
    const answer_of answer(port, "GET", path, local());
    EXPECT_EQ(answer.status, "200");
    EXPECT_EQ(answer.body, page);
    EXPECT_CONTAINS(answer.head, "Referrer-Policy: no-referrer");
    EXPECT_EQ(answer_of(port, "HEAD", path, local()).body, "");
    for (const char *own : {"Host: localhost:9\r\n", "Host: 192.168.0.7\r\n", "Host: [::1]:80\r\n",
                            "Host: localhost:80\r\nOrigin: http://localhost:80\r\n"})
        EXPECT_EQ(status("HEAD", path, own), "200") << own;
    fault why;
    const page_site all = site();
    page_server *other = page_server_start(&all, "127.0.0.1:0", &why);
    ASSERT_NE(other, nullptr) << why.text;
    EXPECT_EQ(std::string(page_server_url(other)).find(path), std::string::npos); // a token of its own
    page_server_stop(other);
}

TEST_F(Server, RefusesTheRest) {
    std::string wrong = path;
    wrong[5] = wrong[5] == '0' ? '1' : '0';
    for (const std::string &target : {std::string("/"), wrong, path + "x", path + "../../etc/passwd",
                                      path.substr(0, 33), std::string("/../") + path})
        EXPECT_EQ(status("GET", target, local()), "404") << target;
    for (const char *foreign :
         {"Host: evil.example:80\r\n", "Host: 127.0.0.1.evil.example\r\n", "Host: \r\n",
          "Host: 127.0.0.1:80\r\nOrigin: http://evil.example\r\n",
          "Host: 127.0.0.1:80\r\nOrigin: http://127.0.0.1:81\r\n", "Host: 127.0.0.1:80\r\nOrigin: null\r\n"})
        EXPECT_EQ(status("GET", path, foreign), "403") << foreign;
    EXPECT_EQ(status("DELETE", path, local()), "405");
    EXPECT_EQ(status("POST", path, local()), "404");
    EXPECT_EQ(status("POST", wrong + "other", local()), "404");
    EXPECT_EQ(status("POST", path + "other", local() + "Origin: http://evil.example\r\n"), "403");
    EXPECT_EQ(status("POST", path + "other", local()), "200");
    const connection talks(port);
    talks.send("POST " + path + "other HTTP/1.1\r\n" + local() + "Content-Length: 100000\r\n\r\nbody");
    EXPECT_EQ(talks.rest(), ""); // nobody reads it
    EXPECT_EQ(status("GET", path + std::string(100000, 'x'), local()), "414");
    EXPECT_EQ(status("GET", path, local() + "X: " + std::string(100000, 'x') + "\r\n"), "431");
}

// Clients that say nothing, say half a request, or take nothing of the page: the next one is served at once. One too many
// waits until another one goes.
TEST_F(Server, NobodyStallsTheOthers) {
    std::vector<std::unique_ptr<connection>> idle;
    const auto come = [&] { idle.push_back(std::make_unique<connection>(port)); };
    for (int i = 0; i < SERVER_CLIENTS - 1; i++) {
        come();
        if (i % 3 == 1) idle.back()->send("GET " + path);
        if (i % 3 == 2) idle.back()->send("GET " + path + " HTTP/1.1\r\n" + local() + "\r\n");
    }
    const auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(status("GET", path, local()), "200");
    EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(5)); // not SERVER_SILENCE
    come();
    usleep(100000);
    const connection late(port);
    late.send("HEAD " + path + " HTTP/1.1\r\n" + local() + "Connection: close\r\n\r\n");
    EXPECT_FALSE(late.has_answer(300));
    idle.clear();
    EXPECT_EQ(late.rest().substr(0, 13), "HTTP/1.1 200 ");
}

TEST_F(Server, AnswersSoManyRequestsASecond) {
    int answered = 0, refused = 0;
    for (int i = 0; i < 5 * SERVER_REQUESTS && refused == 0; i++) {
        const answer_of answer(port, "GET", path);
        answered += answer.status == "200";
        refused += answer.status == "503";
        if (refused) {
            EXPECT_EQ(answer.body, "too many requests\n");
        }
    }
    EXPECT_GE(answered, SERVER_REQUESTS);
    EXPECT_EQ(refused, 1);
}

TEST(ServerAddress, MustBeOneOfThisMachine) {
    fault why;
    const page_site none = {};
    const std::pair<const char *, const char *> wrong[] = {
        {"localhost:0", "in numbers"},  {"203.0.113.1:0", "cannot listen on 203.0.113.1"},
        {"127.0.0.1", "ADDRESS:PORT"},  {"127.0.0.1:65536", "ADDRESS:PORT"},
        {"127.0.0.1:", "ADDRESS:PORT"}, {"127.0.0.1:1x", "ADDRESS:PORT"}};
    for (const auto &[listen, message] : wrong) {
        EXPECT_EQ(page_server_start(&none, listen, &why), nullptr);
        EXPECT_CONTAINS(why.text, message);
    }
}

// The library is loaded when the server starts: the program itself runs without it, as that of the wheel does.
TEST_F(Program, ViewSaysWhichLibraryIsMissing) {
    write_scene(at("scene.ply"), 3, 0, 0, 5);
    std::ofstream(at("libmicrohttpd.so.12")) << "not a library";
    setenv("LD_LIBRARY_PATH", at("").c_str(), 1);
    says({{"view @scene.ply", 1, {"needs libmicrohttpd.so.12, of the package libmicrohttpd12"}},
          {"info @scene.ply", 0, {}}});
    unsetenv("LD_LIBRARY_PATH");
}

#else

TEST_F(Program, ViewSaysThatItHasNoServer) {
    write_scene(at("scene.ply"), 3, 0, 0, 5);
    says({{"view @scene.ply", 1, {"built without libmicrohttpd"}}});
}

#endif

} // namespace
