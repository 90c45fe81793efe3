/* SPDX-License-Identifier: BSD-2-Clause */
#include "rdmacm/process.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include "rdmacm/channel.h"
#include "rdmacm/device.h"
#include "rdmacm/keepalive.h"
#include "rdmacm/neighbour.h"
#include "rdmacm/socket.h"

const struct inside *inside;
uint32_t process_generation;

/* Set once in a process, and again in a child. */
static _Atomic(struct node *) node;

static void in_child(void)
{
    process_generation++;
    atomic_store(&node, NULL);
    channels_forget();
    devices_forget();
    neighbours_forget();
    sockets_in_child();
    keepalive_in_child();
}

static void prepare(void)
{
    inside = uroce_inside_4();
    pthread_atfork(NULL, NULL, in_child);
    inside->node_set_cm_handler(channel_take_event);
    inside->node_set_alarm_handler(keepalive_look);
}

struct node *process_node(void)
{
    return atomic_load(&node);
}

int process_start(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct node *n;

    if (process_node() != NULL)
        return 0;
    pthread_once(&once, prepare);
    n = inside->node_get();
    if (n == NULL)
        return -errno;
    atomic_store(&node, n);
    return 0;
}

void process_lock(void)
{
    inside->node_lock(process_node());
}

void process_unlock(void)
{
    inside->node_unlock(process_node());
}

void process_before_sleep(void)
{
    if (process_node() != NULL)
        inside->node_before_sleep(process_node());
}
