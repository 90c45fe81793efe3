/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * The kernel's own abstract names are five characters (unix(7), autobind).
 */
#include "link/inbox.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "link/kernel_socket.h"

#define NAME_LEN 5
#define BUFFER_BYTES (4 << 20) /* asked for */

static socklen_t unpack_name(uint64_t name, struct sockaddr_un *out)
{
    *out = (struct sockaddr_un){.sun_family = AF_UNIX};
    memcpy(out->sun_path + 1, &name, NAME_LEN);
    return offsetof(struct sockaddr_un, sun_path) + 1 + NAME_LEN;
}

static int read_name(int fd, uint64_t *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    socklen_t len = sizeof(address);

    if (bind(fd, (const struct sockaddr *)&address, sizeof(address.sun_family)) ||
        getsockname(fd, (struct sockaddr *)&address, &len))
        return -errno;
    if (len != offsetof(struct sockaddr_un, sun_path) + 1 + NAME_LEN)
        return -EPROTO;
    *name = 0;
    memcpy(name, address.sun_path + 1, NAME_LEN);
    return 0;
}

int inbox_open(uint64_t *name)
{
    int fd = kernel_socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    int one = 1;
    int size = BUFFER_BYTES;
    int err;

    if (fd < 0)
        return -errno;
    setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &size, sizeof(size));
    err = setsockopt(fd, SOL_SOCKET, SO_PASSCRED, &one, sizeof(one)) ? -errno : 0;
    if (!err)
        err = read_name(fd, name);
    if (err) {
        close(fd);
        return err;
    }
    return fd;
}

size_t arrival_read(const uint8_t *message, size_t len, struct arrival *a)
{
    if (len < sizeof(*a))
        return 0;
    memcpy(a, message, sizeof(*a));
    if (a->len == 0 || a->len > len - sizeof(*a) || a->segment_len > a->len ||
        gid_is_ipv4(&a->src) != gid_is_ipv4(&a->dst))
        return 0;
    return sizeof(*a) + a->len;
}

bool inbox_believes(const struct group *g, unsigned uid)
{
    return uid == g->uid || uid == getuid();
}

/*
 * A process that was killed leaves its name behind, and the kernel may give it
 * to anyone: the lease is asked first.
 */
enum handed inbox_hand_over(int inbox, const struct group *g, uint8_t slot, const uint8_t *message,
                            size_t len)
{
    uint64_t name = atomic_load_explicit(&g->shared->slots[slot].inbox, memory_order_acquire);
    struct sockaddr_un address;
    socklen_t address_len = unpack_name(name, &address);

    if (!name || !group_slot_held(g, slot))
        return HANDED_TO_NOBODY;
    if (sendto(inbox, message, len, MSG_DONTWAIT | MSG_NOSIGNAL, (const struct sockaddr *)&address,
               address_len) >= 0)
        return HANDED_OVER;
    return errno == ECONNREFUSED ? HANDED_TO_NOBODY : HANDED_FULL;
}
