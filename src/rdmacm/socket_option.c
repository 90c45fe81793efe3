/* SPDX-License-Identifier: BSD-2-Clause */
/* What an administrator gives new sockets: files in /etc/rdma/rsocket with a number each. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "rdmacm/socket.h"

#define CONFIG "/etc/rdma/rsocket/"
#define BUFFER_DEFAULT 131072u
#define QUEUE_DEFAULT 384u
#define INLINE_DEFAULT 64u
#define POLLING_US 10u
#define WAKE_MS 500u

static struct socket_defaults defaults = {
    .receive_size = BUFFER_DEFAULT,
    .send_size = BUFFER_DEFAULT,
    .send_queue = QUEUE_DEFAULT,
    .receive_queue = QUEUE_DEFAULT,
    .inline_len = INLINE_DEFAULT,
    .polling_us = POLLING_US,
    .wake_ms = WAKE_MS,
};

static void read_number(const char *path, uint32_t max, uint32_t *out)
{
    FILE *file = fopen(path, "re");
    char line[32];
    char *end;
    unsigned long value;

    if (file == NULL)
        return;
    if (fgets(line, sizeof(line), file) != NULL) {
        value = strtoul(line, &end, 10);
        if (end != line)
            *out = value < max ? (uint32_t)value : max;
    }
    fclose(file);
}

static void read_all(void)
{
    read_number(CONFIG "mem_default", SOCKET_BUFFER_MAX, &defaults.receive_size);
    read_number(CONFIG "wmem_default", SOCKET_BUFFER_MAX, &defaults.send_size);
    read_number(CONFIG "sqsize_default", UINT16_MAX, &defaults.send_queue);
    read_number(CONFIG "rqsize_default", UINT16_MAX, &defaults.receive_queue);
    read_number(CONFIG "inline_default", UINT16_MAX, &defaults.inline_len);
    read_number(CONFIG "iomap_size", UINT16_MAX, &defaults.maps);
    read_number(CONFIG "polling_time", 1000000u, &defaults.polling_us);
    read_number(CONFIG "wake_up_interval", 3600000u, &defaults.wake_ms);
    if (defaults.wake_ms == 0)
        defaults.wake_ms = WAKE_MS;
    defaults.receive_size = socket_buffer_size(defaults.receive_size);
    defaults.send_size = socket_buffer_size(defaults.send_size);
}

const struct socket_defaults *socket_defaults(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;

    pthread_once(&once, read_all);
    return &defaults;
}

uint32_t socket_buffer_size(uint64_t asked)
{
    if (asked < SOCKET_BUFFER_MIN)
        return SOCKET_BUFFER_MIN;
    return asked < SOCKET_BUFFER_MAX ? (uint32_t)asked & ~1u : SOCKET_BUFFER_MAX;
}
