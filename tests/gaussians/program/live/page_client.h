// SPDX-License-Identifier: MIT
// A client of the page's server, byte by byte; a program that serves a page.
#ifndef PAGE_CLIENT_H
#define PAGE_CLIENT_H

#include "program_run.h"
#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>

class connection {
    int socket_;

  public:
    // room: of the receive buffer; 0: the usual one.
    explicit connection(uint16_t port, int room = 0) : socket_(socket(AF_INET, SOCK_STREAM, 0)) {
        if (room) setsockopt(socket_, SOL_SOCKET, SO_RCVBUF, &room, sizeof room);
        sockaddr_in at = {};
        at.sin_family = AF_INET;
        at.sin_port = htons(port);
        at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
        EXPECT_EQ(connect(socket_, reinterpret_cast<sockaddr *>(&at), sizeof at), 0);
        const timeval patience = {30, 0}; // what hangs shall fail
        setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
    }
    ~connection() { close(socket_); }
    connection(const connection &) = delete;
    void send(const std::string &text) const { ::send(socket_, text.data(), text.size(), MSG_NOSIGNAL); }
    bool has_answer(int milliseconds) const {
        pollfd wanted = {socket_, POLLIN, 0};
        return poll(&wanted, 1, milliseconds) > 0;
    }
    // All until the server closes.
    std::string rest() const {
        std::string text;
        char part[65536];
        for (ssize_t got; (got = recv(socket_, part, sizeof part, 0)) > 0;) text.append(part, size_t(got));
        return text;
    }
};

struct answer_of {
    std::string status, head, body;

    // target: "/TOKEN/name".
    answer_of(uint16_t port, const std::string &method, const std::string &target,
              const std::string &headers = "Host: localhost\r\nContent-Length: 0\r\n") {
        const connection client(port);
        client.send(method + " " + target + " HTTP/1.1\r\n" + headers + "Connection: close\r\n\r\n");
        const std::string all = client.rest();
        const size_t end = all.find("\r\n\r\n");
        if (all.size() >= 12) status = all.substr(9, 3);
        if (end == std::string::npos) return;
        head = all.substr(0, end);
        body = all.substr(end + 4);
    }
};

// Until it holds, but for so long; ten times a second, which SERVER_REQUESTS allows.
template <typename Condition>
bool soon(Condition holds, int seconds = 60) {
    for (int i = 0; i < 10 * seconds; i++, usleep(100000))
        if (holds()) return true;
    return false;
}

// A page that is served.
struct page_address {
    std::string url, path; // of the path: /TOKEN/
    uint16_t port = 0;

    page_address() = default;
    explicit page_address(const std::string &its_url) : url(its_url) {
        char *end = nullptr;
        EXPECT_EQ(url.rfind("http://127.0.0.1:", 0), 0u) << url;
        port = uint16_t(strtol(url.c_str() + strlen("http://127.0.0.1:"), &end, 10));
        path = end;
    }
    answer_of ask(const std::string &name, const char *method = "GET") const {
        return answer_of(port, method, path + name);
    }
};

// A `dsplat train --view` or `dsplat view` that runs.
class viewed_training : public page_address {
    fs::path out, err;
    pid_t child;

  public:
    // Its output goes to the files out and err of the folder.
    viewed_training(const fs::path &folder, std::vector<std::string> arguments)
        : out(folder / "out"), err(folder / "err") {
        if (arguments[0] == "train") arguments.push_back("--view");
        arguments.insert(arguments.begin(), DSPLAT_PROGRAM);
        child = started(arguments, out, err);
        std::string text;
        size_t from = 0;
        EXPECT_TRUE(soon([&] {
            text = contents(out);
            from = text.find("http://");
            return from != std::string::npos && text.find('\n', from) != std::string::npos;
        })) << contents(err);
        if (from != std::string::npos)
            static_cast<page_address &>(*this) =
                page_address(text.substr(from, text.find('\n', from) - from));
    }
    void interrupt() const { kill(child, SIGINT); }
    int wait() const { return ended(child, out, err).code; }
};

#endif
