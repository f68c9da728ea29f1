// SPDX-License-Identifier: MIT
#include "board_message.h"
#include "transport.h"
#include <errno.h>
#include <string.h>
#include <sys/socket.h>

_Static_assert(sizeof(board_message) == 24 + BOARD_TEXT_BYTES, "a message has no gaps");

board_message board_message_of(board_news news, int rank) {
    return (board_message){
        .magic = BOARD_MAGIC, .version = BOARD_VERSION, .news = (uint16_t)news, .rank = rank};
}

board_message board_message_of_failure(int rank, const char text[BOARD_TEXT_BYTES]) {
    board_message message = board_message_of(BOARD_FAILED, rank);
    memcpy(message.text, text, sizeof message.text);
    return message;
}

bool board_send(int socket, const board_message *message) {
    ssize_t sent;
    do sent = send(socket, message, sizeof *message, MSG_NOSIGNAL | MSG_DONTWAIT);
    while (sent < 0 && errno == EINTR);
    return sent == (ssize_t)sizeof *message;
}

board_received board_receive(int socket, board_inbox *inbox, board_message *out) {
    while (inbox->filled < sizeof inbox->bytes) {
        const ssize_t got =
            recv(socket, inbox->bytes + inbox->filled, sizeof inbox->bytes - inbox->filled, MSG_DONTWAIT);
        if (got < 0 && errno == EINTR) continue;
        if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return BOARD_NOTHING;
        if (got <= 0) return BOARD_CLOSED;
        inbox->filled += (size_t)got;
        uint32_t magic = 0;
        memcpy(&magic, inbox->bytes, sizeof magic);
        if (inbox->filled >= sizeof magic && magic != BOARD_MAGIC) return BOARD_GARBAGE;
    }
    memcpy(out, inbox->bytes, sizeof *out);
    inbox->filled = 0;
    if (out->version != BOARD_VERSION) return BOARD_OTHER;
    if (out->news >= BOARD_NEWS) return BOARD_GARBAGE;
    if (out->news != BOARD_ID) out->text[sizeof out->text - 1] = '\0';
    return BOARD_MESSAGE;
}

double board_clock_step(board_clock *clock) {
    const double now = seconds_now(), step = clock->last > 0 ? now - clock->last : 0;
    clock->last = now;
    return step < BOARD_BEAT_S ? step : BOARD_BEAT_S;
}
