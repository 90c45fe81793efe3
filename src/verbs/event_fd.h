/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The descriptors that tell applications of events: eventfds in semaphore mode
 * that hold one token for each event that is queued. So "readable" means "an
 * event is there", for poll, epoll and O_NONBLOCK alike, however the
 * application sets the descriptor up.
 */
#ifndef UROCE_VERBS_EVENT_FD_H
#define UROCE_VERBS_EVENT_FD_H

#include <stdbool.h>

/* A descriptor without tokens, or -1 with errno. */
int event_fd_open(void);

/* Adds a token. Never blocks. */
void event_fd_signal(int fd);

/*
 * Takes a token as the application set the descriptor up: waits for one, or
 * fails with EAGAIN. Returns 0, or -1 with errno (EINTR too, when a signal
 * handler was not installed to restart calls).
 */
int event_fd_wait(int fd);

/* Whether event_fd_wait would wait. */
bool event_fd_blocks(int fd);

/* Takes a token if there is one. */
bool event_fd_try(int fd);

/*
 * Takes a token back, without waiting, for an event that is withdrawn. When a
 * thread in event_fd_wait was faster there is none: that thread will find no event.
 */
void event_fd_withdraw(int fd);

#endif
