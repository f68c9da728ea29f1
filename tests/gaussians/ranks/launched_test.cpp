// SPDX-License-Identifier: MIT
// Ranks that a launcher has started: processes that find each other by TCP, as if each were a host; what ends them, and
// other programs. That one fails by itself or with its device: ranks_test.cpp and Hosts of gpus_test.cpp. They use
// fake_nccl.c, so only simt has these tests.
#ifdef DISTWAR_SIMT
#include "device.h"
#include "device_vector.h"
#include "ranks.h"
#include "run_program.h"
#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <thread>
#include <tuple>
#include <arpa/inet.h>
#include <sys/socket.h>

namespace {

using std::this_thread::sleep_for;
using milliseconds = std::chrono::milliseconds;

// Listens at a port (0: any, which it then says) or is connected to it; -1: refused.
int socket_at(int *port, bool listens) {
    const int s = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in at = {};
    socklen_t size = sizeof at;
    at.sin_family = AF_INET, at.sin_port = htons(uint16_t(*port)),
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    auto *const address = reinterpret_cast<sockaddr *>(&at);
    if (listens ? bind(s, address, size) == 0 && listen(s, 9) == 0 && getsockname(s, address, &size) == 0
                : connect(s, address, size) == 0) {
        *port = ntohs(at.sin_port);
        return s;
    }
    close(s);
    return -1;
}

fs::path ranks_folder; // of the test that starts them

bool sum_ones(ranks *group, void *) {
    const device_vector<int64_t> values(std::vector<int64_t>(100, 1));
    const ranks_reduction sum = {values.data(), 100, RANKS_INT64, RANKS_SUM};
    if (!ranks_all_reduce(group, &sum, nullptr) || !ranks_barrier(group, nullptr)) return false;
    for (const int64_t value : values.read())
        if (value != ranks_count(group)) return ranks_fail(group, "has summed to %d", int(value));
    return true;
}

// Each time leaves a file that tells.
bool work(ranks *group, int64_t times) {
    for (int64_t k = 0; k < times && sum_ones(group, nullptr); k++)
        std::ofstream(ranks_folder / ("work" + std::to_string(ranks_own(group))));
    return !*ranks_error(group);
}

bool work_for_ever(ranks *group, void *) {
    return work(group, INT64_MAX);
}

class Launched : public ProgramTest {
  protected:
    ranks_plan plan = {};
    ranks_place place = {};
    ranks_body body = sum_ones;
    std::map<int, pid_t> hosts;                  // each a rank, alone on it
    std::chrono::steady_clock::time_point began; // the last start or signal

    void SetUp() override {
        ProgramTest::SetUp();
        plan.kind = RANKS_LAUNCHED, plan.timeout_s = 20, plan.nccl = FAKE_NCCL, plan.devices = 1;
        plan.arguments = 1, plan.program = "test";
        ranks_folder = folder;
        strcpy(place.address, "localhost");
        forget_hosts();
    }
    void forget_hosts() {
        for (const auto &[number, pid] : hosts) fs::remove(file("work", number));
        hosts.clear();
        place.port = 0;
        close(socket_at(&place.port, true)); // so it is free
    }
    fs::path file(const char *name, int number) const { return folder / (name + std::to_string(number)); }
    std::string told(int number) const { return contents(file("err", number)); }
    // number: by which the test knows it.
    void start(int number, int rank, int count, const ranks_plan &with) {
        began = std::chrono::steady_clock::now();
        hosts[number] = fork();
        if (hosts[number] > 0) return;
        dup2(creat(file("err", number).c_str(), 0600), STDERR_FILENO);
        alarm(60); // what hangs shall fail
        ranks_plan mine = with;
        ranks_place where = place;
        where.own = where.local = rank, where.count = mine.count = count, mine.place = &where;
        fault why;
        const bool good = ranks_run(&mine, body, nullptr, &why);
        if (!good) fprintf(stderr, "%s: %s\n", plan.program, why.text);
        fflush(nullptr);
        _exit(good ? 0 : 1);
    }
    // Those from before are forgotten.
    void start_all(int count) {
        forget_hosts();
        for (int r = 0; r < count; r++) start(r, r, count, plan);
    }
    // Until all have begun to work.
    void await_work(int count) const {
        for (int r = 0; r < count; r++)
            for (int k = 0; k < 3000 && !fs::exists(file("work", r)); k++) sleep_for(milliseconds(10));
    }
    void send_signal(int number, int signal) {
        kill(hosts[number], signal);
        began = std::chrono::steady_clock::now();
    }
    // Ends with this exit code, or by the signal -code, soon; and tells a text that begins so.
    void expect_end(int number, int code, const std::string &text) {
        int status = 0;
        EXPECT_EQ(waitpid(hosts[number], &status, 0), hosts[number]);
        EXPECT_EQ(WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), code)
            << number << ": " << told(number);
        EXPECT_EQ(told(number).rfind(text, 0), 0u) << told(number) << "not: " << text;
        EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(15));
    }
    // message: of a failure, whole; empty: all end well.
    void expect_told(const std::string &message) {
        const std::string text = message.empty() ? "" : "test: " + message + "\n";
        for (const auto &[number, pid] : hosts) {
            expect_end(number, message.empty() ? 0 : 1, text);
            EXPECT_EQ(told(number), text);
        }
    }
    // Those whose collective ends because of another: what each tells is about itself.
    void expect_that_others_end(int failing, const std::string &reason) {
        for (const auto &[number, pid] : hosts) {
            if (number == failing) continue;
            expect_end(number, 1, "test: rank " + std::to_string(number) + ": ");
            EXPECT_CONTAINS(told(number), reason);
        }
    }
};

const std::string remote = ": remote process exited or there was a network error\n";

TEST_F(Launched, RunTheBodyInTheirProcesses) {
    for (const int count : {1, 2, 3, 4}) {
        start_all(count);
        expect_told("");
    }
    forget_hosts();
    for (const int r : {2, 1, 0}) { // whoever comes first
        start(r, r, 3, plan);
        sleep_for(milliseconds(300));
    }
    expect_told("");
}

TEST_F(Launched, EndWhenOneIsKilledAtAnyMoment) {
    body = work_for_ever;
    std::mt19937 random(5);
    for (int run = 0; run < 6; run++) {
        const int count = 2 + run % 3, rank = int(random() % unsigned(count));
        start_all(count);
        await_work(count);
        sleep_for(std::chrono::microseconds(random() % 100000));
        send_signal(rank, SIGKILL);
        expect_end(rank, -SIGKILL, "");
        expect_that_others_end(rank, remote);
    }
    plan.timeout_s = 2;
    for (int run = 0; run < 4; run++) { // before it has come
        start_all(3);
        sleep_for(std::chrono::microseconds(random() % 20000));
        send_signal(2, SIGKILL);
        expect_end(2, -SIGKILL, "");
        for (const int r : {0, 1}) expect_end(r, 1, "test: rank ");
    }
}

TEST_F(Launched, EndWhenOneIsStopped) {
    body = work_for_ever;
    plan.timeout_s = 3;
    for (const int rank : {0, 2}) {
        start_all(3);
        await_work(3);
        send_signal(rank, SIGSTOP);
        expect_that_others_end(rank, ": "); // the first that has waited ends, which the other is told by NCCL
        EXPECT_CONTAINS(told(0) + told(1) + told(2), ": has waited 3 s for the others in ");
        send_signal(rank, SIGCONT);
        expect_end(rank, 1, "");
    }
}

// As torchrun's when one has died: those that wait must tell before it kills them. Who need not wait goes on.
TEST_F(Launched, EndBySignalWhenOneDoesNotAnswer) {
    static volatile sig_atomic_t asked;
    asked = 0;
    signal(SIGTERM, [](int number) { asked = number; });
    body = work_for_ever, plan.end = &asked, plan.timeout_s = 9;
    start_all(3);
    signal(SIGTERM, SIG_DFL);
    await_work(3);
    for (const auto &[number, pid] : hosts) send_signal(number, SIGTERM);
    sleep_for(milliseconds(500));
    for (const auto &[number, pid] : hosts) fs::remove(file("work", number));
    await_work(3);
    for (const auto &[number, pid] : hosts) EXPECT_TRUE(fs::exists(file("work", number))) << number;
    send_signal(2, SIGSTOP);
    expect_that_others_end(2, ": "); // the first that has waited, and one that NCCL tells
    EXPECT_LT(std::chrono::steady_clock::now() - began, std::chrono::seconds(8));
    EXPECT_CONTAINS(told(0) + told(1), ": was asked to end by signal 15 while it waited for the others in ");
    send_signal(2, SIGCONT);
    expect_end(2, 1, "");
}

// As cudaFree does behind a collective that a dead rank holds up.
TEST_F(Launched, EndWhenACallOfTheDeviceNeverReturns) {
    body = [](ranks *group, void *) {
        const device_vector<int64_t> values(std::vector<int64_t>(100, 1));
        const ranks_reduction sum = {values.data(), 100, RANKS_INT64, RANKS_SUM};
        if (!ranks_all_reduce(group, &sum, nullptr)) return false;
        while (ranks_own(group) == 0) pause();
        return work(group, INT64_MAX);
    };
    plan.timeout_s = 2;
    start_all(2);
    expect_end(0, 1, "test: rank 0: has waited 2 s for the others in a call of CUDA\n");
    expect_that_others_end(0, ": ");
}

// The whole run is stopped and goes on, as by Ctrl-Z and fg: three processes, or three threads of one.
TEST_F(Launched, GoOnAfterAllWereStopped) {
    body = [](ranks *group, void *) {
        for (int k = 0; k < 50 && work(group, 1); k++)
            for (int i = 0; i < 10 && ranks_own(group) == 0; i++) sleep_for(milliseconds(1));
        return !*ranks_error(group);
    };
    plan.timeout_s = 3;
    for (const int n : {3, 1}) {
        plan.kind = n == 1 ? RANKS_THREADS : RANKS_LAUNCHED;
        forget_hosts();
        for (int r = 0; r < n; r++) start(r, r, 3, plan);
        await_work(3);
        for (int r = 0; r < n; r++) send_signal(r, SIGSTOP);
        sleep_for(milliseconds(3500));
        for (int r = 0; r < n; r++) send_signal(r, SIGCONT);
        expect_told("");
    }
}

TEST_F(Launched, ThoseThatCannotBeRanksAreNamed) {
    ranks_plan brief = plan, other = plan;
    brief.timeout_s = 1, other.arguments = 2;
    // Ranks, of how many, with which plan; what all are told.
    const std::pair<std::vector<std::tuple<int, int, const ranks_plan *>>, std::string> cases[] = {
        {{{0, 3, &brief}, {1, 3, &brief}}, "rank 2: has not come within 1 s"},
        {{{1, 2, &brief}},
         "rank 1: cannot reach rank 0 at localhost, port PORT (MASTER_ADDR, MASTER_PORT) within 1 s: Connection refused"},
        {{{0, 3, &plan}, {1, 3, &plan}, {2, 3, &other}},
         "rank 2: was started with other arguments than rank 0, or is another version"},
        {{{0, 3, &plan}, {1, 2, &plan}, {2, 3, &plan}},
         "rank 1: was started as one of 2 ranks, rank 0 as one of 3"},
        {{{0, 3, &plan}, {1, 3, &plan}, {1, 3, &plan}}, "rank 1: two processes have this rank"}};
    for (const auto &[members, said] : cases) {
        forget_hosts();
        int number = 0;
        for (const auto &[rank, count, with] : members) start(number++, rank, count, *with);
        std::string text = said;
        if (const size_t at = text.find("PORT (M"); at != std::string::npos)
            text.replace(at, 4, std::to_string(place.port));
        expect_told(text);
    }
}

// A program that is none of the ranks holds the port and says nothing, or something else.
TEST_F(Launched, AnotherServerIsNotRank0) {
    const std::string no_answer =
        "rank 0: does not answer: it has ended, is stopped, or is another program or version";
    plan.timeout_s = 1;
    const int s = socket_at(&place.port, true);
    start(0, 0, 2, plan);
    expect_told(
        "rank 0: cannot listen at localhost, port " + std::to_string(place.port) +
        ": Address already in use; MASTER_ADDR must name the host of rank 0, MASTER_PORT a free port");
    hosts.clear();
    start(1, 1, 2, plan);
    expect_told(no_answer);
    start(1, 1, 2, plan);
    const int first = accept(s, nullptr, nullptr), second = accept(s, nullptr, nullptr); // of both
    for (const int peer : {first, second}) send(peer, "HTTP/1.1 400 Bad Request\r\n\r\n", 28, MSG_NOSIGNAL);
    expect_told(no_answer);
    for (const int each : {first, second, s}) close(each);
}

TEST_F(Launched, OtherProgramsDoNoHarm) {
    start(0, 0, 3, plan);
    std::vector<int> others;
    const auto come = [&](const void *text, size_t bytes) {
        int s = -1;
        while ((s = socket_at(&place.port, false)) < 0) sleep_for(milliseconds(5));
        if (bytes > 0) send(s, text, bytes, MSG_NOSIGNAL);
        others.push_back(s);
    };
    const std::string zeros(100000, '\0'), request = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
    come(request.data(), request.size());
    come(zeros.data(), zeros.size());
    come(zeros.data(), 3);
    for (int k = 0; k < 3; k++) come(nullptr, 0);
    struct {
        uint64_t magic, arguments;
        int32_t rank, count;
        char text[512], id[128];
    } hellos[] = {{0x4457522d72616e31, 1, -1, 3, "", ""},
                  {0x4457522d72616e31, 1, RANKS_MAX, 3, "", ""},
                  {0x31, 1, 1, 3, "", ""}};
    for (const auto &hello : hellos) come(&hello, sizeof hello);
    for (const int r : {1, 2}) start(r, r, 3, plan);
    expect_told("");
    for (const int s : others) close(s);
}

// ---- the environment

TEST(Place, IsThatOfTheLauncher) {
    const std::string torchrun = "RANK=3 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=1234 ",
                      two = "RANK=0 WORLD_SIZE=2 ", none = "", long_name(300, 'a'),
                      range = " in the environment: must be a number from ",
                      slurm = "SLURM_PROCID=2 SLURM_LOCALID=0 SLURM_STEP_NUM_NODES=1 SLURM_STEP_NUM_TASKS=4",
                      open_mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_RANK=1 "
                                 "OMPI_COMM_WORLD_LOCAL_SIZE=2";
    // The last of a name counts. The text: the rank, their number, the local one, the port and the address, or why there is none.
    const std::tuple<std::string, ranks_found, std::string> cases[] = {
        {none, RANKS_NONE, ""},
        {torchrun, RANKS_FOUND, "3 8 1 1234 a"},
        {torchrun + "TORCHELASTIC_USE_AGENT_STORE=True", RANKS_FOUND, "3 8 1 1235 a"},
        {open_mpi, RANKS_FOUND, "1 2 1 29500 localhost"}, // of one host
        {"PMI_RANK=2 PMI_SIZE=4 MASTER_ADDR=a", RANKS_FOUND, "2 4 -1 29500 a"},
        {slurm, RANKS_FOUND, "2 4 0 29500 localhost"},
        {two + "WORLD_SIZE=1", RANKS_NONE, ""},
        {"SLURM_PROCID=0 SLURM_NTASKS=4", RANKS_NONE, ""}, // a batch script
        {"RANK=0", RANKS_NONE, ""},
        {two + "RANK=2", RANKS_WRONG, "RANK=2" + range + "0 to 1"},
        {two + "WORLD_SIZE=65", RANKS_WRONG, "WORLD_SIZE=65" + range + "1 to 64"},
        {two + "WORLD_SIZE=2x", RANKS_WRONG, "WORLD_SIZE=2x" + range + "1 to 64"},
        {two + "MASTER_PORT=70000", RANKS_WRONG, "MASTER_PORT=70000" + range + "1 to 65535"},
        {two + "MASTER_ADDR=" + long_name, RANKS_WRONG,
         "MASTER_ADDR in the environment: too long for the name of a host"},
        {"PMI_RANK=0 PMI_SIZE=2", RANKS_WRONG,
         "2 ranks (PMI_SIZE) need MASTER_ADDR and MASTER_PORT in the environment: the host of rank 0 and a free "
         "port there"}};
    for (const auto &[environment, found, text] : cases) {
        ranks_place place = {};
        fault why = {};
        std::vector<std::string> names;
        std::istringstream words(environment);
        for (std::string word; words >> word;) {
            names.push_back(word.substr(0, word.find('=')));
            setenv(names.back().c_str(), word.c_str() + names.back().size() + 1, 1);
        }
        EXPECT_EQ(ranks_find_place(&place, &why), found) << text;
        for (const std::string &name : names) unsetenv(name.c_str());
        std::ostringstream it;
        if (found == RANKS_FOUND)
            it << place.own << " " << place.count << " " << place.local << " " << place.port << " "
               << place.address;
        EXPECT_EQ(found == RANKS_WRONG ? why.text : it.str(), text);
    }
}

} // namespace
#endif
