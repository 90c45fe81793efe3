/* SPDX-License-Identifier: BSD-2-Clause */
/*
 * `uroce devices`: the devices that programs under `uroce run` see, one for
 * each network interface that is up and has an address, with their GIDs.
 */
#include "cli/command.h"
#include "node/device.h"
#include "node/settings.h"

#include <argp.h>
#include <arpa/inet.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* An IPv4-mapped GID reads better as the IPv4 address that it is. */
static void print_gid(uint32_t index, const struct device_gid *entry)
{
    char text[INET6_ADDRSTRLEN] = "";

    if (gid_is_ipv4(&entry->gid))
        inet_ntop(AF_INET, &entry->gid.bytes[12], text, sizeof(text));
    else
        inet_ntop(AF_INET6, entry->gid.bytes, text, sizeof(text));
    printf("  gid %2u  %s\n", index, text);
}

static void print_device(const struct device *device)
{
    printf("%-16s on %s, %s, mtu %u (path mtu %u)\n", device->name, device->netdev,
           device->up ? "up" : "down", device->netdev_mtu, device->active_mtu);
    for (uint32_t i = 0; i < device->gid_count; i++)
        print_gid(i, &device->gids[i]);
}

int command_devices(int argc, char **argv)
{
    static const struct argp argp = {
        .doc = "Lists the RDMA devices that programs under `uroce run` see, with the index and "
               "address of each GID (the -g of ibv_rc_pingpong, the -x of perftest)."
               "\v"
               "UROCE_DEVICES names the interfaces to use, in their order; see "
               "uroce-environment(7).",
    };
    struct device *devices;
    int count;

    if (argp_parse(&argp, argc, argv, 0, NULL, NULL) != 0)
        return EXIT_FAILURE;
    devices = calloc(DEVICE_COUNT_MAX, sizeof(*devices));
    count = devices ? device_list(devices, DEVICE_COUNT_MAX) : -ENOMEM;
    if (count < 0)
        fprintf(stderr, "%s: cannot list the network interfaces: %s\n", argv[0], strerror(-count));
    if (count == 0 && *settings_get()->devices)
        fprintf(stderr,
                "%s: none of the interfaces '%s' (UROCE_DEVICES) is up and has an address\n",
                argv[0], settings_get()->devices);
    else if (count == 0)
        fprintf(stderr, "%s: no network interface is up and has an address\n", argv[0]);
    for (int i = 0; i < count; i++)
        print_device(&devices[i]);
    free(devices);
    return count > 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
